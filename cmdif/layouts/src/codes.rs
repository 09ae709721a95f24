//! The macro that declares open enums: numbers that the guest chooses freely, some of which have
//! names.

/// Declares a type over a number with an associated constant for every named value. Any value can
/// be held; those without a name print as hex.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        $name:ident : $repr:ident {
            $( $(#[$vmeta:meta])* $code:ident = $value:literal ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $repr);

        #[allow(missing_docs)]
        impl $name {
            $( $(#[$vmeta])* pub const $code: Self = Self($value); )*
        }

        impl $name {
            /// Every value that has a name, with the name.
            pub const NAMES: &'static [(Self, &'static str)] =
                &[$( (Self::$code, stringify!($code)) ),*];

            /// The value's name, if it has one.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $( Self::$code => Some(stringify!($code)), )*
                    _ => None,
                }
            }

            /// The value of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::NAMES.iter().find(|(_, known)| *known == name).map(|&(code, _)| code)
            }
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => write!(f, "{:#x}", self.0),
                }
            }
        }

        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    };
}
pub(crate) use codes;

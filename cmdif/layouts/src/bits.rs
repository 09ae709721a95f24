//! Fields by bit offset and width, and the macro that declares structures made of them.
//!
//! A field is written as `name: type = BYTE[HI:LO]`, the way the PRM prints it: `BYTE` is the
//! offset of a big-endian word and `HI:LO` the bits in it, bit 31 being the first bit of its first
//! byte. A `HI` above 31 means that the word is 64 bits wide.

/// One field of a structure: its name and where it is, in bits from the structure's first bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    /// The name in `mlx5_ifc.h`.
    pub name: &'static str,
    /// Offset of the field's most significant bit.
    pub bit: usize,
    /// Width in bits, 1 to 64.
    pub width: usize,
}

/// One structure: its name, size and fields.
#[derive(Clone, Copy, Debug)]
pub struct LayoutInfo {
    /// The name in `mlx5_ifc.h` without `mlx5_ifc_` and `_bits`.
    pub name: &'static str,
    /// Size of the fixed part in bytes.
    pub size: usize,
    /// The declared fields, in the order of declaration.
    pub fields: &'static [FieldInfo],
    /// The declared inner structures: name, byte offset, and their layout's name.
    pub parts: &'static [(&'static str, usize, &'static str)],
}

/// A type that a field's bits can be read as.
pub trait FieldValue: Copy {
    /// The value of right-aligned bits.
    fn from_bits(bits: u64) -> Self;
    /// The right-aligned bits of a value.
    fn to_bits(self) -> u64;
}

impl FieldValue for bool {
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
    fn to_bits(self) -> u64 {
        u64::from(self)
    }
}

macro_rules! integer_field {
    ($($ty:ty)*) => {$(
        impl FieldValue for $ty {
            fn from_bits(bits: u64) -> Self {
                bits as $ty
            }
            fn to_bits(self) -> u64 {
                u64::from(self)
            }
        }
    )*};
}
integer_field!(u8 u16 u32 u64);

/// The bit offset that `byte[hi:_]` names.
#[doc(hidden)]
pub const fn bit_offset(byte: usize, hi: usize) -> usize {
    byte * 8 + if hi > 31 { 63 - hi } else { 31 - hi }
}

const fn mask(width: usize) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// Reads `width` bits at bit offset `bit`. Bytes that `bytes` does not have read as zero, as the
/// fields of a structure that is newer than its sender do.
#[inline(always)]
pub fn get_bits(bytes: &[u8], bit: usize, width: usize) -> u64 {
    let word = bit / 32 * 4;
    if bit % 32 + width <= 32 {
        let Some(&w) = bytes.get(word..).and_then(|b| b.first_chunk::<4>()) else { return 0 };
        u64::from(u32::from_be_bytes(w)) >> (32 - bit % 32 - width) & mask(width)
    } else {
        let Some(&w) = bytes.get(word..).and_then(|b| b.first_chunk::<8>()) else { return 0 };
        u64::from_be_bytes(w) >> (64 - bit % 32 - width) & mask(width)
    }
}

/// Writes the low `width` bits of `value` at bit offset `bit`. A field outside `bytes` is left
/// out: the reader asked for a shorter structure.
#[inline(always)]
pub fn set_bits(bytes: &mut [u8], bit: usize, width: usize, value: u64) {
    debug_assert!(value & !mask(width) == 0, "{value:#x} does not fit {width} bits");
    let word = bit / 32 * 4;
    let value = value & mask(width);
    if bit % 32 + width <= 32 {
        let Some(w) = bytes.get_mut(word..).and_then(|b| b.first_chunk_mut::<4>()) else { return };
        let shift = 32 - bit % 32 - width;
        let old = u32::from_be_bytes(*w) & !((mask(width) as u32) << shift);
        *w = (old | (value as u32) << shift).to_be_bytes();
    } else {
        let Some(w) = bytes.get_mut(word..).and_then(|b| b.first_chunk_mut::<8>()) else { return };
        let shift = 64 - bit % 32 - width;
        let old = u64::from_be_bytes(*w) & !(mask(width) << shift);
        *w = (old | value << shift).to_be_bytes();
    }
}

/// Declares a view over the bytes of one structure: `Name(bytes)` has a getter `field()` and,
/// over mutable bytes, a setter `set_field(value)` for every field, and `part()`/`part_mut()` for
/// every inner structure.
#[macro_export]
macro_rules! layout {
    (
        $(#[$meta:meta])*
        $name:ident = $ifc:literal, $size:literal {
            $( $(#[$fmeta:meta])* $field:ident : $ty:ty = $byte:literal [ $hi:literal : $lo:literal ] ),* $(,)?
        }
        $( parts { $( $(#[$pmeta:meta])* $part:ident : $pty:ident = $pbyte:literal ),* $(,)? } )?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub struct $name<B>(pub B);

        impl $name<()> {
            /// Size of the fixed part in bytes.
            pub const SIZE: usize = $size;
            /// The structure's description.
            pub const INFO: $crate::LayoutInfo = $crate::LayoutInfo {
                name: $ifc,
                size: $size,
                fields: &[$( $crate::FieldInfo {
                    name: stringify!($field),
                    bit: $crate::bit_offset($byte, $hi),
                    width: $hi - $lo + 1,
                } ),*],
                parts: &[$($( (stringify!($part), $pbyte, $pty::<()>::INFO.name) ),*)?],
            };
        }

        #[allow(dead_code)]
        impl<B: AsRef<[u8]>> $name<B> {
            $(
                $(#[$fmeta])*
                #[doc = concat!(" `", stringify!($byte), "[", stringify!($hi), ":", stringify!($lo), "]`")]
                #[inline(always)]
                pub fn $field(&self) -> $ty {
                    <$ty as $crate::FieldValue>::from_bits($crate::get_bits(
                        self.0.as_ref(), $crate::bit_offset($byte, $hi), $hi - $lo + 1))
                }
            )*
            $($(
                $(#[$pmeta])*
                #[doc = concat!(" At ", stringify!($pbyte), ".")]
                pub fn $part(&self) -> $pty<&[u8]> {
                    $pty(self.0.as_ref().get($pbyte..).unwrap_or(&[]))
                }
            )*)?
        }

        $crate::__private::paste! {
            #[allow(dead_code)]
            impl<B: AsMut<[u8]>> $name<B> {
                $(
                    #[doc = concat!("Sets `", stringify!($field), "`.")]
                    #[inline(always)]
                    pub fn [<set_ $field>](&mut self, value: $ty) {
                        $crate::set_bits(
                            self.0.as_mut(),
                            $crate::bit_offset($byte, $hi),
                            $hi - $lo + 1,
                            <$ty as $crate::FieldValue>::to_bits(value),
                        );
                    }
                )*
                $($(
                    #[doc = concat!("`", stringify!($part), "`, to be written.")]
                    pub fn [<$part _mut>](&mut self) -> $pty<&mut [u8]> {
                        $pty(self.0.as_mut().get_mut($pbyte..).unwrap_or(&mut []))
                    }
                )*)?
            }
        }
    };
}

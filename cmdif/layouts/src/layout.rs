//! The macro that declares structures.
//!
//! A field is written as `name: type = BYTE[HI:LO]`, the way the PRM prints it: `BYTE` is the
//! offset of a big-endian word and `HI:LO` the bits in it, bit 31 being the first bit of its first
//! byte. A `HI` above 31 means that the word is 64 bits wide.

/// Declares a view over the bytes of one structure: `Name(bytes)` has a getter `field()` and,
/// over mutable bytes, a setter `set_field(value)` for every field; `part()`/`part_mut()` for every
/// inner structure; `array()` and `set_array(&value)` for every array. A tail, an array without
/// end, has `tail()`, an iterator over the whole elements that the bytes hold, and
/// `set_tail(index, value)`.
#[macro_export]
macro_rules! layout {
    (
        $(#[$meta:meta])*
        $name:ident = $ifc:literal, $size:literal {
            $( $(#[$fmeta:meta])* $field:ident : $ty:ty = $byte:literal [ $hi:literal : $lo:literal ] ),* $(,)?
        }
        $( parts { $( $(#[$pmeta:meta])* $part:ident : $pty:ident = $pbyte:literal ),* $(,)? } )?
        $( arrays { $( $(#[$ameta:meta])* $array:ident : [ $aty:ty ; $acount:literal ] = $abyte:literal ),* $(,)? } )?
        $( tail { $(#[$tmeta:meta])* $tail:ident : $tty:ty = $tbyte:literal } )?
    ) => {
        $(#[$meta])*
        #[doc = concat!(" `", $ifc, "`")]
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
                    name: $crate::kernel_name(stringify!($field)),
                    bit: $crate::bit_offset($byte, $hi),
                    width: $hi - $lo + 1,
                } ),*],
                parts: &[$($( $crate::PartInfo {
                    name: $crate::kernel_name(stringify!($part)),
                    byte: $pbyte,
                    layout: &$pty::<()>::INFO,
                } ),*)?],
                arrays: &[
                    $($( $crate::ArrayInfo {
                        name: $crate::kernel_name(stringify!($array)),
                        byte: $abyte,
                        element: <$aty as $crate::Element>::SIZE,
                        count: $acount,
                    }, )*)?
                    $( $crate::ArrayInfo {
                        name: $crate::kernel_name(stringify!($tail)),
                        byte: $tbyte,
                        element: <$tty as $crate::Element>::SIZE,
                        count: 0,
                    } )?
                ],
            };
        }

        #[allow(dead_code, non_snake_case, clippy::len_without_is_empty)]
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
                #[inline]
                pub fn $part(&self) -> $pty<&[u8]> {
                    $pty(self.0.as_ref().get($pbyte..).unwrap_or(&[]))
                }
            )*)?
            $($(
                $(#[$ameta])*
                #[doc = concat!(" At ", stringify!($abyte), ".")]
                #[inline]
                pub fn $array(&self) -> [$aty; $acount] {
                    let bytes = self.0.as_ref();
                    ::core::array::from_fn(|i| {
                        <$aty as $crate::Element>::get(
                            bytes, $abyte + i * <$aty as $crate::Element>::SIZE)
                    })
                }
            )*)?
            $(
                $(#[$tmeta])*
                #[doc = concat!(" From ", stringify!($tbyte), " on.")]
                #[inline]
                pub fn $tail(&self) -> impl ExactSizeIterator<Item = $tty> + '_ {
                    let bytes = self.0.as_ref().get($tbyte..).unwrap_or(&[]);
                    bytes
                        .chunks_exact(<$tty as $crate::Element>::SIZE)
                        .map(|chunk| <$tty as $crate::Element>::get(chunk, 0))
                }
            )?
        }

        $crate::__private::paste! {
            #[allow(dead_code, non_snake_case, clippy::len_without_is_empty)]
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
                    #[inline]
                    pub fn [<$part _mut>](&mut self) -> $pty<&mut [u8]> {
                        $pty(self.0.as_mut().get_mut($pbyte..).unwrap_or(&mut []))
                    }
                )*)?
                $($(
                    #[doc = concat!("Sets `", stringify!($array), "`.")]
                    #[inline]
                    pub fn [<set_ $array>](&mut self, value: &[$aty; $acount]) {
                        for (i, &element) in value.iter().enumerate() {
                            $crate::Element::set(
                                element,
                                self.0.as_mut(),
                                $abyte + i * <$aty as $crate::Element>::SIZE,
                            );
                        }
                    }
                )*)?
                $(
                    #[doc = concat!("Sets element `index` of `", stringify!($tail), "`.")]
                    #[inline]
                    pub fn [<set_ $tail>](&mut self, index: usize, value: $tty) {
                        let tail = self.0.as_mut().get_mut($tbyte..).unwrap_or(&mut []);
                        let at = index.saturating_mul(<$tty as $crate::Element>::SIZE);
                        $crate::Element::set(value, tail, at);
                    }
                )?
            }
        }
    };
}

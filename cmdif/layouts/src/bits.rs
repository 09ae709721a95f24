//! Fields by bit offset and width: how they are described, read and written.

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

/// An inner structure: its name and where it is.
#[derive(Clone, Copy, Debug)]
pub struct PartInfo {
    /// The name in the kernel's header.
    pub name: &'static str,
    /// Offset in bytes.
    pub byte: usize,
    /// What it is made of.
    pub layout: &'static LayoutInfo,
}

/// An array of equal elements: its name and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayInfo {
    /// The name in the kernel's header.
    pub name: &'static str,
    /// Offset in bytes.
    pub byte: usize,
    /// Size of an element in bytes.
    pub element: usize,
    /// Number of elements; 0 if they go on to the end of the bytes.
    pub count: usize,
}

/// One structure: its name, size and what it holds.
#[derive(Clone, Copy, Debug)]
pub struct LayoutInfo {
    /// The name in the kernel's header: of a bit structure without `mlx5_ifc_` and `_bits`.
    pub name: &'static str,
    /// Size of the fixed part in bytes.
    pub size: usize,
    /// The declared fields, in the order of declaration.
    pub fields: &'static [FieldInfo],
    /// The declared inner structures. Those of a union overlap.
    pub parts: &'static [PartInfo],
    /// The declared arrays; one without end comes last.
    pub arrays: &'static [ArrayInfo],
}

impl LayoutInfo {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&'static FieldInfo> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl FieldInfo {
    /// The field's value in these bytes.
    pub fn get(&self, bytes: &[u8]) -> u64 {
        get_bits(bytes, self.bit, self.width)
    }

    /// Writes the field.
    pub fn set(&self, bytes: &mut [u8], value: u64) {
        set_bits(bytes, self.bit, self.width, value);
    }
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

/// A type that an array's elements can be read as.
pub trait Element: Copy + Default {
    /// Size in bytes.
    const SIZE: usize;
    /// The element at byte `at`; zero if `bytes` does not have it.
    fn get(bytes: &[u8], at: usize) -> Self;
    /// Writes the element at byte `at`, if `bytes` has it.
    fn set(self, bytes: &mut [u8], at: usize);
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl FieldValue for $ty {
            fn from_bits(bits: u64) -> Self {
                bits as $ty
            }
            fn to_bits(self) -> u64 {
                u64::from(self)
            }
        }

        impl Element for $ty {
            const SIZE: usize = size_of::<$ty>();
            #[inline]
            fn get(bytes: &[u8], at: usize) -> Self {
                bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |&b| <$ty>::from_be_bytes(b))
            }
            #[inline]
            fn set(self, bytes: &mut [u8], at: usize) {
                if let Some(b) = bytes.get_mut(at..).and_then(|b| b.first_chunk_mut()) {
                    *b = self.to_be_bytes();
                }
            }
        }
    )*};
}
integers!(u8 u16 u32 u64);

/// A GID and other things of 16 bytes.
impl Element for [u8; 16] {
    const SIZE: usize = 16;
    #[inline]
    fn get(bytes: &[u8], at: usize) -> Self {
        bytes.get(at..).and_then(|b| b.first_chunk()).copied().unwrap_or_default()
    }
    #[inline]
    fn set(self, bytes: &mut [u8], at: usize) {
        if let Some(b) = bytes.get_mut(at..).and_then(|b| b.first_chunk_mut()) {
            *b = self;
        }
    }
}

/// The big-endian 64-bit number at byte `at`; zero if `bytes` does not have it.
pub fn be64_at(bytes: &[u8], at: usize) -> u64 {
    u64::get(bytes, at)
}

/// The bit offset that `byte[hi:_]` names.
#[doc(hidden)]
pub const fn bit_offset(byte: usize, hi: usize) -> usize {
    byte * 8 + if hi > 31 { 63 - hi } else { 31 - hi }
}

/// The kernel's name of something whose Rust name may be raw, as `r#type`.
#[doc(hidden)]
pub const fn kernel_name(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
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

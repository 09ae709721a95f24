//! The driver's allocator of guest memory.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::port::{Error, Result};

/// Guest memory is given out in multiples of this.
pub const PAGE: u64 = 4096;

/// Gives out ranges of DMA addresses.
#[derive(Debug)]
pub struct Allocator {
    /// First address that was never given out.
    fresh: u64,
    end: u64,
    /// Ranges that came back, by length.
    free: BTreeMap<u64, Vec<u64>>,
    used: u64,
}

impl Allocator {
    /// Gives out addresses in `range`.
    pub fn new(range: Range<u64>) -> Self {
        let fresh = range.start.next_multiple_of(PAGE);
        Self { fresh, end: range.end, free: BTreeMap::new(), used: 0 }
    }

    /// `len` bytes in a row, on a page boundary. What is in them is undefined.
    pub fn alloc(&mut self, len: u64) -> Result<u64> {
        let len = len.max(1).next_multiple_of(PAGE);
        let at = match self.free.get_mut(&len).and_then(Vec::pop) {
            Some(at) => at,
            None if self.end.saturating_sub(self.fresh) >= len => {
                let at = self.fresh;
                self.fresh += len;
                at
            }
            None => return Err(Error::OutOfMemory(len)),
        };
        self.used += len;
        Ok(at)
    }

    /// Takes back what [`Self::alloc`] gave for `len` bytes.
    pub fn free(&mut self, at: u64, len: u64) {
        let len = len.max(1).next_multiple_of(PAGE);
        self.used -= len;
        self.free.entry(len).or_default().push(at);
    }

    /// Bytes that are given out.
    pub fn used(&self) -> u64 {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back() {
        let mut all = Allocator::new(0x1000..0x4000);
        let a = all.alloc(1).unwrap();
        let b = all.alloc(0x1001).unwrap();
        assert_eq!((a, b), (0x1000, 0x2000));
        assert!(matches!(all.alloc(1), Err(Error::OutOfMemory(0x1000))));
        all.free(b, 0x1001);
        assert_eq!(all.alloc(0x2000).unwrap(), b);
        assert_eq!(all.used(), 0x3000);
    }

    #[test]
    fn address_zero_is_usable_only_if_it_is_in_the_range() {
        assert_eq!(Allocator::new(0..0x1000).alloc(1).unwrap(), 0);
        assert_eq!(Allocator::new(1..0x2000).alloc(1).unwrap(), 0x1000);
    }
}

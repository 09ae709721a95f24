//! Atomic operations on guest memory.
//!
//! They are atomic against each other, because one thread does them, and against the guest,
//! because memory is exchanged by compare-and-exchange.

use dma::{Bus, DmaError};

use crate::packet::{Action, Operation};

/// The unit in which memory is exchanged.
const WORD: u64 = 8;
/// How often the guest may change the word under an operation.
const ATTEMPTS: u32 = 1 << 16;

impl Action {
    /// What `old` becomes.
    pub fn apply(self, old: u64, size: u32) -> u64 {
        let all = u64::MAX >> (64 - 8 * size.clamp(1, 8));
        match self {
            Self::FetchAdd { add, boundary: 0 } => old.wrapping_add(add) & all,
            Self::FetchAdd { add, boundary } => add_fields(old, add, boundary) & all,
            Self::CompareSwap { swap, swap_mask, compare, compare_mask } => {
                if (old ^ compare) & compare_mask & all == 0 {
                    (old & !swap_mask | swap & swap_mask) & all
                } else {
                    old
                }
            }
        }
    }
}

/// Adds field by field: nothing is carried out of a bit that `boundary` names.
fn add_fields(old: u64, add: u64, boundary: u64) -> u64 {
    // The highest bit of every field is added without carry, the others cannot carry beyond it.
    let low = !boundary;
    ((old & low).wrapping_add(add & low)) ^ ((old ^ add) & boundary)
}

/// Carries an operation out on the aligned bytes at `addr` of guest memory, which hold a number in
/// the host's order. Returns what it was. None: the guest did not let go of it.
pub fn execute(bus: &dyn Bus, addr: u64, operation: &Operation) -> Result<Option<u64>, DmaError> {
    let Operation { size, action, .. } = *operation;
    let shift = 8 * (addr % WORD) as u32;
    let mask = u64::MAX >> (64 - 8 * size.clamp(1, 8));
    let word_at = addr - addr % WORD;
    let mut bytes = [0; WORD as usize];
    bus.read(word_at, &mut bytes)?;
    for _ in 0..ATTEMPTS {
        let word = u64::from_le_bytes(bytes);
        let old = word.checked_shr(shift).unwrap_or(0) & mask;
        let new = action.apply(old, size);
        let kept = word & !(mask.checked_shl(shift).unwrap_or(0));
        let next = kept | new.checked_shl(shift).unwrap_or(0);
        let was = bus.compare_exchange(word_at, bytes, next.to_le_bytes())?;
        if was == bytes {
            return Ok(Some(old));
        }
        bytes = was;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use dma::{Dma, TestMemory};

    use super::*;

    #[test]
    fn fields_do_not_carry_into_each_other() {
        // Two fields of 32 bits.
        let boundary = 1 << 31 | 1 << 63;
        let sum = add_fields(0x0000_0001_ffff_ffff, 0x0000_0001_0000_0001, boundary);
        assert_eq!(sum, 0x0000_0002_0000_0000);
        // Sixty-four fields of one bit: exclusive or.
        assert_eq!(add_fields(0b1100, 0b1010, u64::MAX), 0b0110);
        // One field.
        assert_eq!(add_fields(u64::MAX, 2, 1 << 63), 1);
    }

    #[test]
    fn four_bytes_of_a_word() {
        let memory = TestMemory::new(64);
        memory.write(8, &0x1111_1111_2222_2222u64.to_le_bytes()).unwrap();
        let action = Action::CompareSwap {
            swap: 0x3333_3333,
            swap_mask: 0xffff_0000,
            compare: 0x1111,
            compare_mask: 0xffff,
        };
        let operation = Operation { addr: 0, key: 0, size: 4, action };
        assert_eq!(execute(&memory, 12, &operation), Ok(Some(0x1111_1111)));
        assert_eq!(memory.read_be64(8).unwrap().swap_bytes(), 0x3333_1111_2222_2222);
        assert_eq!(execute(&memory, 8, &operation), Ok(Some(0x2222_2222)), "not equal");
        assert_eq!(memory.read_be64(8).unwrap().swap_bytes(), 0x3333_1111_2222_2222);
    }

    #[test]
    fn memory_that_is_not_there() {
        let memory = TestMemory::new(8);
        let action = Action::FetchAdd { add: 1, boundary: 0 };
        let operation = Operation { addr: 0, key: 0, size: 8, action };
        assert!(execute(&memory, 8, &operation).is_err());
    }
}

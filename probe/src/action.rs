//! What goes wrong at a point, and who decides that.

use std::fmt;
use std::sync::Arc;

use layouts::set_bits;

use crate::Site;

/// What is to happen at a point instead of what would. A point obeys those that make sense there
/// and ignores the others; which do is written down where rules are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A command is answered so.
    Status {
        /// Status of the reply.
        status: u8,
        /// Syndrome of the reply.
        syndrome: u32,
        /// It is carried out all the same.
        executed: bool,
    },
    /// A command's slot is handed back with this delivery status, and no reply.
    Delivery(u8),
    /// A command's slot is handed back with a defect.
    Defect(Defect),
    /// Fields have other values.
    Set(Arc<[Patch]>),
    /// It happens so many ns later.
    Delay(u64),
    /// It happens when what this rule holds is released.
    Hold(u32),
    /// A command's slot is handed back with this delivery status, and no reply, when what this rule
    /// holds is released.
    HoldDelivery(u32, u8),
    /// It does not happen.
    Lose,
    /// It happens twice.
    Twice,
    /// It is refused, as if what it needs were not there.
    Refuse,
    /// It is as it was before.
    Stale,
    /// Only so many bytes, the first, are read or written.
    Torn(u64),
    /// It is written although there is no room.
    Overwrite,
    /// It is written with the owner bit of before; so many ns later that is put right.
    OwnerLate(u64),
    /// An interrupt has another vector.
    Vector(u16),
    /// A work request fails.
    Fail {
        /// Syndrome of its completion.
        syndrome: u8,
        /// The vendor's byte beside it.
        vendor: u8,
        /// After so many bytes of its data have been sent.
        after: u64,
    },
}

/// What can be wrong with a slot of the command queue that is handed back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// The entry's signature does not fit.
    Signature,
    /// The entry has another token.
    Token,
    /// The entry names another length of output.
    Length,
}

/// Bits that have another value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch {
    /// The first.
    pub bit: usize,
    /// How many, 1 to 64.
    pub width: usize,
    /// What they are.
    pub value: u64,
}

/// Gives fields other values. One that the bytes do not hold is left out.
pub fn apply(patches: &[Patch], bytes: &mut [u8]) {
    let bits = bytes.len() * 8;
    for patch in patches.iter().filter(|patch| patch.bit + patch.width <= bits) {
        set_bits(bytes, patch.bit, patch.width, patch.value);
    }
}

/// The same, where the bytes begin at byte `offset` of the structure. What does not lie in them is
/// left out.
pub fn apply_at(patches: &[Patch], offset: u64, bytes: &mut [u8]) {
    let first = offset.saturating_mul(8);
    for patch in patches {
        for n in 0..patch.width {
            let at = ((patch.bit + n) as u64).checked_sub(first).map(|at| at as usize);
            let Some((at, byte)) = at.and_then(|at| Some((at, bytes.get_mut(at / 8)?))) else {
                continue;
            };
            let (bit, mask) = (patch.value >> (patch.width - 1 - n) & 1, 0x80 >> (at % 8));
            *byte = if bit == 1 { *byte | mask } else { *byte & !mask };
        }
    }
}

/// What a rule has decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The rule's name.
    pub rule: Arc<str>,
    /// What is to happen here, if the rule is about here.
    pub action: Option<Action>,
}

/// Whoever decides what goes wrong.
pub trait Judge: fmt::Debug + Send {
    /// Something happens at a point. `now` is the function's clock in ns.
    fn decide(&self, now: u64, site: &Site<'_>) -> Option<Verdict>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_structure_gets_its_part_of_the_values() {
        let patches = [
            Patch { bit: 60, width: 8, value: 0xa5 },
            Patch { bit: 100, width: 1, value: 1 },
            Patch { bit: 66, width: 1, value: 1 },
        ];
        let mut whole = [0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0, 0x0f, 0, 0, 0, 0, 0, 0, 0];
        let parts = whole;
        apply(&patches, &mut whole);
        for size in [1, 2, 4, 8] {
            let mut parts = parts;
            for (n, part) in parts.chunks_mut(size).enumerate() {
                apply_at(&patches, (n * size) as u64, part);
            }
            assert_eq!(parts, whole, "{size} bytes at a time");
        }
        apply_at(&patches, u64::MAX, &mut whole);
    }
}

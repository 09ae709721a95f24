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
    /// It does not happen.
    Lose,
    /// It happens twice.
    Twice,
    /// It is refused, as if what it needs were not there.
    Refuse,
    /// An interrupt has another vector.
    Vector(u16),
    /// A work request fails.
    Fail {
        /// Syndrome of its completion.
        syndrome: u8,
        /// The vendor's byte beside it.
        vendor: u8,
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

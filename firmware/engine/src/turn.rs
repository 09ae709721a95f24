//! A turn: how much work it is, and what came of it.

/// After this much work, in bytes moved, it is another queue pair's turn.
pub const TURN: usize = 256 << 10;
/// What a WQE costs beside the bytes that it moves.
pub const WQE_COST: usize = 512;

/// What a turn came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Turn {
    /// In bytes moved.
    pub cost: usize,
    /// There is more to do.
    pub more: bool,
}

/// What one step of a send queue came to.
pub enum Step {
    /// Something was done, at this cost.
    Did(usize),
    /// Nothing can be done before something else happens, which wakes the queue pair.
    Waits,
    /// Nothing is posted.
    Empty,
}

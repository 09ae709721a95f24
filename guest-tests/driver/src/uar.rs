//! Doorbell pages.

use layouts::{AllocUarIn, AllocUarOut, DeallocUarIn, DeallocUarOut, Opcode};

use crate::driver::Driver;
use crate::port::{Port, Result};

/// Size of a doorbell page.
const PAGE: u64 = 4096;
/// Indices of event and completion queues have 24 bits.
pub(crate) const INDEX_MASK: u32 = 0xff_ffff;

/// Offset in BAR0 of a register of a doorbell page.
pub(crate) fn register(uar: u32, at: usize) -> u64 {
    u64::from(uar) * PAGE + at as u64
}

impl<P: Port> Driver<P> {
    /// ALLOC_UAR.
    pub fn alloc_uar(&mut self) -> Result<u32> {
        let reply = self.exec(Opcode::ALLOC_UAR, 0, [0; AllocUarIn::SIZE], AllocUarOut::SIZE)?;
        Ok(AllocUarOut(&reply[..]).uar())
    }

    /// DEALLOC_UAR.
    pub fn dealloc_uar(&mut self, uar: u32) -> Result<()> {
        let mut input = [0; DeallocUarIn::SIZE];
        DeallocUarIn(&mut input[..]).set_uar(uar);
        self.exec(Opcode::DEALLOC_UAR, 0, input, DeallocUarOut::SIZE)?;
        Ok(())
    }
}

//! A card that runs in this process, on memory that is a byte array and a clock that we move.

use std::time::Duration;

use dma::{Dma, DmaError, TestMemory};

use crate::port::{Memory, Port, Result};

/// A card without a process around it.
pub trait Card {
    /// Reads BAR0; `now` is in ns.
    fn read(&mut self, now: u64, offset: u64, data: &mut [u8]);

    /// Writes BAR0.
    fn write(&mut self, now: u64, memory: &TestMemory, offset: u64, data: &[u8]);

    /// Does some of the work that is queued, and says when there is more: at once (`now` or
    /// before), at a later time, or when something comes in (`None`).
    fn poll(&mut self, now: u64, memory: &TestMemory) -> Option<u64>;
}

/// The longest that time goes on in one step.
const STEP_NS: u64 = 1_000_000;

/// The way to such a card.
#[derive(Debug)]
pub struct InProcess<C> {
    /// The card.
    pub card: C,
    /// Guest memory.
    pub memory: TestMemory,
    size: u64,
    /// The time, in ns.
    pub now: u64,
}

impl<C: Card> InProcess<C> {
    /// `card` with `size` bytes of guest memory.
    pub fn new(card: C, size: usize) -> Self {
        Self { card, memory: TestMemory::new(size), size: size as u64, now: 0 }
    }
}

impl Memory for TestMemory {
    fn read(&self, addr: u64, buf: &mut [u8]) -> std::result::Result<(), DmaError> {
        Dma::read(self, addr, buf)
    }

    fn write(&self, addr: u64, data: &[u8]) -> std::result::Result<(), DmaError> {
        Dma::write(self, addr, data)
    }
}

impl<C: Card> Port for InProcess<C> {
    fn read32(&mut self, offset: u64) -> Result<u32> {
        let mut data = [0; 4];
        self.card.read(self.now, offset, &mut data);
        Ok(u32::from_be_bytes(data))
    }

    fn write32(&mut self, offset: u64, value: u32) -> Result<()> {
        self.card.write(self.now, &self.memory, offset, &value.to_be_bytes());
        Ok(())
    }

    fn write64(&mut self, offset: u64, value: u64) -> Result<()> {
        self.card.write(self.now, &self.memory, offset, &value.to_be_bytes());
        Ok(())
    }

    fn memory(&self) -> &dyn Memory {
        &self.memory
    }

    fn memory_range(&self) -> std::ops::Range<u64> {
        // Page 0 is left out: an address that nobody filled in must not work.
        crate::memory::PAGE..self.size
    }

    fn relax(&mut self) -> Result<()> {
        let until = self.now + STEP_NS;
        match self.card.poll(self.now, &self.memory) {
            Some(at) if at <= self.now => {}
            Some(at) => self.now = at.min(until),
            None => self.now = until,
        }
        Ok(())
    }

    fn take_interrupts(&mut self, vectors: &mut Vec<u16>) -> Result<()> {
        vectors.extend(self.memory.take_interrupts());
        Ok(())
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.now)
    }
}

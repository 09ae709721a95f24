//! Guest memory for tests: a byte array at DMA address 0, and a note of every interrupt.

use std::cell::RefCell;

use crate::{Bus, Dma, DmaError};

/// A byte array that stands for guest memory.
#[derive(Debug)]
pub struct TestMemory {
    bytes: RefCell<Vec<u8>>,
    interrupts: RefCell<Vec<u16>>,
}

impl TestMemory {
    /// `size` zero bytes at DMA addresses 0 to `size`.
    pub fn new(size: usize) -> Self {
        Self { bytes: RefCell::new(vec![0; size]), interrupts: RefCell::default() }
    }

    /// The vectors that were sent since the last call, in order.
    pub fn take_interrupts(&self) -> Vec<u16> {
        self.interrupts.take()
    }

    fn range(&self, addr: u64, len: u64) -> Result<std::ops::Range<usize>, DmaError> {
        let end = addr.checked_add(len).filter(|&end| end <= self.bytes.borrow().len() as u64);
        end.map(|end| addr as usize..end as usize).ok_or(DmaError::Unmapped { addr, len })
    }
}

impl Dma for TestMemory {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        let range = self.range(addr, buf.len() as u64)?;
        buf.copy_from_slice(&self.bytes.borrow()[range]);
        Ok(())
    }

    fn write(&self, addr: u64, data: &[u8]) -> Result<(), DmaError> {
        let range = self.range(addr, data.len() as u64)?;
        self.bytes.borrow_mut()[range].copy_from_slice(data);
        Ok(())
    }

    fn copy(&self, src: u64, dst: u64, len: u64) -> Result<(), DmaError> {
        let from = self.range(src, len)?;
        let to = self.range(dst, len)?;
        self.bytes.borrow_mut().copy_within(from, to.start);
        Ok(())
    }

    fn compare_exchange(&self, addr: u64, old: [u8; 8], new: [u8; 8]) -> Result<[u8; 8], DmaError> {
        if !addr.is_multiple_of(8) {
            return Err(DmaError::Misaligned { addr });
        }
        let mut was = [0; 8];
        self.read(addr, &mut was)?;
        if was == old {
            self.write(addr, &new)?;
        }
        Ok(was)
    }
}

impl Bus for TestMemory {
    fn interrupt(&self, vector: u16) {
        self.interrupts.borrow_mut().push(vector);
    }
}

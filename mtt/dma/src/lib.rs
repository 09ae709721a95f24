//! The one way to reach guest memory, and the table type that every kind of object uses.
//!
//! Nothing in the device holds a pointer into guest memory. Everything is copied in once, judged
//! in the copy, and copied out: the guest may change its memory at any moment.
#![forbid(unsafe_code)]

mod double;
mod table;

pub use double::TestMemory;
pub use table::{RemoveError, Table, TableFull};

use thiserror::Error;

/// Why an access to guest memory was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DmaError {
    /// Some byte of the range has no mapping, or one that can't be reached (no descriptor).
    #[error("DMA address {addr:#x}, {len} bytes: not mapped")]
    Unmapped {
        /// First address of the access.
        addr: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// The range is mapped without the right that the access needs.
    #[error("DMA address {addr:#x}, {len} bytes: {} not permitted", if *write { "write" } else { "read" })]
    Forbidden {
        /// First address of the access.
        addr: u64,
        /// Its length in bytes.
        len: u64,
        /// The access wanted to write.
        write: bool,
    },
    /// The memory behind the mapping is gone (the file was made shorter).
    #[error("DMA address {addr:#x}, {len} bytes: the memory behind the mapping is gone")]
    Gone {
        /// First address of the access.
        addr: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// An atomic access to an address that is not a multiple of its size.
    #[error("DMA address {addr:#x}: not aligned for an atomic access")]
    Misaligned {
        /// The address.
        addr: u64,
    },
}

/// Reads and writes guest memory by DMA address. An access is made wholly or, when any byte of
/// its range is refused, not at all.
pub trait Dma {
    /// Copies guest memory at `addr` into `buf`.
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaError>;

    /// Copies `data` to guest memory at `addr`. An aligned write of 1, 2, 4 or 8 bytes is seen by
    /// the guest whole or not at all, and after every write that was made before it.
    fn write(&self, addr: u64, data: &[u8]) -> Result<(), DmaError>;

    /// Copies `len` bytes of guest memory from `src` to `dst`.
    fn copy(&self, src: u64, dst: u64, len: u64) -> Result<(), DmaError>;

    /// Replaces the 8 bytes at `addr`, as memory holds them, by `new` if they are `old`; atomic
    /// against the guest. Returns what they were.
    fn compare_exchange(&self, addr: u64, old: [u8; 8], new: [u8; 8]) -> Result<[u8; 8], DmaError>;

    /// Whether guest memory at `addr` is there, looked at its first and last byte.
    fn check(&self, addr: u64, len: u64) -> Result<(), DmaError> {
        let last = len.checked_sub(1).map_or(Some(addr), |more| addr.checked_add(more));
        let last = last.ok_or(DmaError::Unmapped { addr, len })?;
        self.read(addr, &mut [0])?;
        self.read(last, &mut [0])
    }

    /// Reads one big-endian 32-bit word.
    fn read_be32(&self, addr: u64) -> Result<u32, DmaError> {
        let mut word = [0; 4];
        self.read(addr, &mut word)?;
        Ok(u32::from_be_bytes(word))
    }

    /// Reads one big-endian 64-bit word.
    fn read_be64(&self, addr: u64) -> Result<u64, DmaError> {
        let mut word = [0; 8];
        self.read(addr, &mut word)?;
        Ok(u64::from_be_bytes(word))
    }
}

/// What a function sees of its host: guest memory, and the way to send an interrupt, which on PCI
/// Express is a memory write too.
pub trait Bus: Dma {
    /// Sends the interrupt of one MSI-X vector. A vector that the guest has not set up is lost,
    /// as it would be on a real bus.
    fn interrupt(&self, vector: u16);
}

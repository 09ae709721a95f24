//! What a driver sees of a card and of the machine that they are in.

use std::time::Duration;

use dma::DmaError;
use layouts::{DeliveryStatus, Status};
use thiserror::Error;

/// Why the card, or the way to it, is not as a driver expects.
#[derive(Debug, Error)]
pub enum Error {
    /// It did not happen in time.
    #[error("waited {waited:?} in vain for {what}")]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        waited: Duration,
    },
    /// A command was refused.
    #[error("command {opcode:#x}: status {status}, syndrome {syndrome:#x}")]
    Command {
        /// Which.
        opcode: u16,
        /// Of the reply.
        status: Status,
        /// Of the reply.
        syndrome: u32,
    },
    /// A command was not carried out.
    #[error("command {opcode:#x} was not delivered: {status}")]
    Delivery {
        /// Which.
        opcode: u16,
        /// Why.
        status: DeliveryStatus,
    },
    /// A completion queue entry reports an error.
    #[error("completion with syndrome {syndrome:#x}, vendor syndrome {vendor:#x}")]
    Completion {
        /// Syndrome.
        syndrome: u8,
        /// Vendor's syndrome.
        vendor: u8,
    },
    /// The card did what a card must not do.
    #[error("the card broke the rules: {0}")]
    Protocol(String),
    /// The driver's own memory.
    #[error("the driver's memory: {0}")]
    Memory(#[from] DmaError),
    /// No guest memory is left.
    #[error("out of guest memory: {0} bytes wanted")]
    OutOfMemory(u64),
    /// The way to the card.
    #[error("the way to the card: {0}")]
    Transport(String),
}

/// The driver's result.
pub type Result<T> = std::result::Result<T, Error>;

/// A rule that the card broke.
pub(crate) fn broken<T>(rule: impl Into<String>) -> Result<T> {
    Err(Error::Protocol(rule.into()))
}

/// Guest memory, as its owner sees it.
pub trait Memory {
    /// Reads from a DMA address.
    fn read(&self, addr: u64, buf: &mut [u8]) -> std::result::Result<(), DmaError>;

    /// Writes to a DMA address, after everything that was written before.
    fn write(&self, addr: u64, data: &[u8]) -> std::result::Result<(), DmaError>;
}

/// The registers of BAR0, guest memory and interrupts.
///
/// Register values are as the PRM prints them: the first byte on the bus is the most significant.
pub trait Port {
    /// Reads a register.
    fn read32(&mut self, offset: u64) -> Result<u32>;

    /// Writes a register.
    fn write32(&mut self, offset: u64, value: u32) -> Result<()>;

    /// Writes two registers in one access.
    fn write64(&mut self, offset: u64, value: u64) -> Result<()>;

    /// Guest memory by DMA address.
    fn memory(&self) -> &dyn Memory;

    /// DMA addresses that the driver may use.
    fn memory_range(&self) -> std::ops::Range<u64>;

    /// Lets the card work for a moment.
    fn relax(&mut self) -> Result<()>;

    /// Adds the vectors whose interrupts have arrived since the last call to `vectors`.
    fn take_interrupts(&mut self, vectors: &mut Vec<u16>) -> Result<()>;

    /// Time since any fixed moment.
    fn now(&self) -> Duration;
}

//! What a server serves: the trait that the owner of a function implements.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::memory::Rights;

/// A part of the device that can be read and written: a BAR, configuration space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its size in bytes; 0 if the device doesn't have it.
    pub size: u64,
    /// What the client may do with it.
    pub rights: Rights,
}

impl Region {
    /// A region that the device doesn't have; it keeps the index of those behind it.
    pub const NONE: Self = Self { size: 0, rights: Rights { read: false, write: false } };

    /// A region that can be read and written.
    pub const fn new(size: u64) -> Self {
        Self { size, rights: Rights::READ_WRITE }
    }
}

/// A kind of interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Irq {
    /// How many interrupts of the kind there are; 0 if the device doesn't have it.
    pub count: u32,
    /// Whether the client may mask and unmask them by message (MSI-X is masked in the client).
    pub maskable: bool,
}

/// A range of DMA addresses that the client offers.
#[derive(Debug)]
pub struct DmaMap {
    /// First DMA address.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
    /// What the device may do with it.
    pub rights: Rights,
    /// The file that it is and the offset in it; without, the memory can't be reached.
    pub memory: Option<(OwnedFd, u64)>,
}

/// What the client wants of the interrupts of one kind.
#[derive(Debug)]
pub enum IrqChange {
    /// All descriptors are taken away.
    Disable,
    /// Interrupts from `first` on get one descriptor each, in place of what they had.
    Assign {
        /// The first interrupt.
        first: u32,
        /// For it and those behind it.
        descriptors: Vec<OwnedFd>,
    },
    /// The descriptors of `count` interrupts from `first` on are taken away.
    Remove {
        /// The first interrupt.
        first: u32,
        /// How many.
        count: u32,
    },
    /// These interrupts are to be sent, as if the device had caused them.
    Trigger(Vec<u32>),
    /// These interrupts are held back.
    Mask(Vec<u32>),
    /// These interrupts are let through.
    Unmask(Vec<u32>),
}

/// What is served. Calls come in the order of the client's messages; when one returns, what it
/// asked for has happened, for the client is told so next.
///
/// Indexes, offsets and lengths were checked against [`regions`](Self::regions) and
/// [`irqs`](Self::irqs), and the rights of regions as well.
pub trait Target {
    /// The regions, by index; they stay the same while a client is connected.
    fn regions(&self) -> &[Region];

    /// The kinds of interrupt, by index; they stay the same while a client is connected.
    fn irqs(&self) -> &[Irq];

    /// Fills `data`, which is zero, with what is at `offset` of a region.
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno>;

    /// Writes to a region. The client may not wait for the answer and then never learns of an
    /// error.
    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno>;

    /// A range of DMA addresses can be used from now on.
    fn dma_map(&mut self, map: DmaMap) -> Result<(), Errno>;

    /// A range of DMA addresses is not touched again once this has returned.
    fn dma_unmap(&mut self, address: u64, size: u64) -> Result<(), Errno>;

    /// No DMA address is touched again once this has returned.
    fn dma_unmap_all(&mut self) -> Result<(), Errno>;

    /// Changes the interrupts of one kind.
    fn set_irqs(&mut self, index: u32, change: IrqChange) -> Result<(), Errno>;

    /// Resets the device. Maps and interrupt descriptors stay.
    fn reset(&mut self) -> Result<(), Errno>;
}

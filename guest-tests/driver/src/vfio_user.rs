//! The way to a card in another process: a vfio-user socket, guest memory in a memfd, interrupts as
//! eventfds. What a virtual machine monitor does for its guest, done by the driver for itself.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use dma::DmaError;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use vfio_user::Client;

use crate::port::{Error, Memory, Port, Result};

/// Region of BAR0, and of configuration space (`VFIO_PCI_*_REGION_INDEX`).
const BAR0: u32 = 0;
const CONFIG: u32 = 7;
/// `VFIO_PCI_MSIX_IRQ_INDEX`.
const MSIX: u32 = 2;
/// `VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER`.
const EVENTFD_TRIGGER: u32 = 1 << 2 | 1 << 5;
/// Command register: memory space and bus master.
const COMMAND_AT: u64 = 0x04;
const COMMAND: [u8; 2] = [0x06, 0x00];
/// Guest memory begins here: above 4 GiB, so that upper halves of addresses matter.
const BASE: u64 = 1 << 32;
/// Vectors that are set up, and how many a message carries.
const VECTORS: usize = 4;
const VECTORS_A_MESSAGE: usize = 2;
/// How long the card may work before it is looked at again, unless it interrupts.
const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000 };

/// Guest memory in a file.
#[derive(Debug)]
pub struct SharedMemory {
    file: File,
    size: u64,
}

impl SharedMemory {
    fn new(size: u64) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("driver-memory", flags)?);
        ftruncate(&file, size)?;
        fcntl_add_seals(&file, SealFlags::SHRINK)?;
        Ok(Self { file, size })
    }

    /// Where in the file an access is.
    fn offset(&self, addr: u64, len: usize) -> std::result::Result<u64, DmaError> {
        let len = len as u64;
        let offset = addr.checked_sub(BASE);
        let inside = |&at: &u64| at.checked_add(len).is_some_and(|end| end <= self.size);
        offset.filter(inside).ok_or(DmaError::Unmapped { addr, len })
    }
}

impl Memory for SharedMemory {
    fn read(&self, addr: u64, buf: &mut [u8]) -> std::result::Result<(), DmaError> {
        let offset = self.offset(addr, buf.len())?;
        let len = buf.len() as u64;
        self.file.read_exact_at(buf, offset).map_err(|_| DmaError::Gone { addr, len })
    }

    fn write(&self, addr: u64, data: &[u8]) -> std::result::Result<(), DmaError> {
        let offset = self.offset(addr, data.len())?;
        let len = data.len() as u64;
        self.file.write_all_at(data, offset).map_err(|_| DmaError::Gone { addr, len })
    }
}

/// A connection to a card.
pub struct VfioUser {
    client: Client,
    memory: SharedMemory,
    vectors: Vec<OwnedFd>,
    start: Instant,
}

impl VfioUser {
    /// Connects to the card behind the socket at `path`, gives it `size` bytes of memory, and sets
    /// up interrupts and bus mastering.
    pub fn connect(path: &Path, size: u64) -> Result<Self> {
        let memory = SharedMemory::new(size).map_err(transport)?;
        let eventfds =
            (0..VECTORS).map(|_| eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC));
        let vectors = eventfds.collect::<rustix::io::Result<Vec<_>>>().map_err(transport)?;
        let mut client = Client::new(path).map_err(transport)?;
        // In two halves, as a guest's memory usually comes.
        let half = size / 2;
        let fd = memory.file.as_raw_fd();
        client.dma_map(0, BASE, half, fd).map_err(transport)?;
        client.dma_map(half, BASE + half, size - half, fd).map_err(transport)?;
        client.region_write(CONFIG, COMMAND_AT, &COMMAND).map_err(transport)?;
        for (n, some) in vectors.chunks(VECTORS_A_MESSAGE).enumerate() {
            let fds: Vec<_> = some.iter().map(AsRawFd::as_raw_fd).collect();
            let first = n * VECTORS_A_MESSAGE;
            let count = fds.len() as u32;
            client.set_irqs(MSIX, EVENTFD_TRIGGER, first as u32, count, &fds).map_err(transport)?;
        }
        Ok(Self { client, memory, vectors, start: Instant::now() })
    }

    /// Resets the card.
    pub fn reset(&mut self) -> Result<()> {
        self.client.reset().map_err(transport)?;
        self.client.region_write(CONFIG, COMMAND_AT, &COMMAND).map_err(transport)
    }

    /// Reads configuration space.
    pub fn read_config(&mut self, offset: u64, data: &mut [u8]) -> Result<()> {
        self.client.region_read(CONFIG, offset, data).map_err(transport)
    }
}

fn transport(error: impl std::fmt::Display) -> Error {
    Error::Transport(error.to_string())
}

impl Port for VfioUser {
    fn read32(&mut self, offset: u64) -> Result<u32> {
        let mut data = [0; 4];
        self.client.region_read(BAR0, offset, &mut data).map_err(transport)?;
        Ok(u32::from_be_bytes(data))
    }

    fn write32(&mut self, offset: u64, value: u32) -> Result<()> {
        self.client.region_write(BAR0, offset, &value.to_be_bytes()).map_err(transport)
    }

    fn write64(&mut self, offset: u64, value: u64) -> Result<()> {
        self.client.region_write(BAR0, offset, &value.to_be_bytes()).map_err(transport)
    }

    fn memory(&self) -> &dyn Memory {
        &self.memory
    }

    fn memory_range(&self) -> std::ops::Range<u64> {
        BASE..BASE + self.memory.size
    }

    fn relax(&mut self) -> Result<()> {
        let mut fds: Vec<_> =
            self.vectors.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        poll(&mut fds, Some(&MOMENT)).map_err(transport)?;
        Ok(())
    }

    fn take_interrupts(&mut self, vectors: &mut Vec<u16>) -> Result<()> {
        for (vector, fd) in (0..).zip(&self.vectors) {
            match rustix::io::read(fd, &mut [0; 8]) {
                Ok(_) => vectors.push(vector),
                Err(rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(transport(error)),
            }
        }
        Ok(())
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

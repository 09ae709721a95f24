//! Guest memory that arrives as file descriptors.
//!
//! A client tells us which range of DMA addresses is which range of which file. Each file is
//! mapped once, however many ranges refer to it, and an interval map leads from a DMA address to
//! the file, so that a virtual IOMMU's thousands of small ranges cost a tree entry each and no
//! memory mapping. A range without a descriptor is known, so that it can be withdrawn again, but
//! can't be reached.
//!
//! [`GuestMemory`] belongs to the thread that serves the client. A range that was withdrawn can't
//! be reached once [`GuestMemory::unmap`] has returned.

mod access;
mod file;
mod heap;
mod mapping;

pub use heap::give_back;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use thiserror::Error;

use file::FileId;
use mapping::Mapping;

/// Ranges begin and end on pages of this size.
pub const PAGE_SIZE: u64 = 4096;

/// How many ranges may be mapped at the same time.
pub const MAX_MAPS: usize = 65535;

/// How many files may be mapped at the same time; a virtual machine has a handful.
pub const MAX_FILES: usize = 256;

/// How many bytes of files may be mapped at the same time. It is there to leave address space for
/// others in the process when a client sends huge sparse files.
pub const MAX_BYTES: u64 = 16 << 40;

/// What the device may do with a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// It may be read.
    pub read: bool,
    /// It may be written.
    pub write: bool,
}

impl Rights {
    /// Reading only.
    pub const READ: Self = Self { read: true, write: false };
    /// Writing only.
    pub const WRITE: Self = Self { read: false, write: true };
    /// Both.
    pub const READ_WRITE: Self = Self { read: true, write: true };

    pub(crate) fn cover(self, needed: Self) -> bool {
        (self.read || !needed.read) && (self.write || !needed.write)
    }
}

/// Why a range was not mapped.
#[derive(Debug, Error)]
pub enum MapError {
    /// It is empty, not made of whole pages, wraps, or may be neither read nor written.
    #[error("not a range of whole pages that can be used")]
    Malformed,
    /// Part of it is mapped already.
    #[error("part of the range is mapped already")]
    Overlap,
    /// [`MAX_MAPS`] are mapped.
    #[error("{MAX_MAPS} ranges are mapped")]
    TooManyMaps,
    /// [`MAX_FILES`] or [`MAX_BYTES`] are mapped.
    #[error("more than {MAX_FILES} files or {MAX_BYTES} bytes of files")]
    TooMuch,
    /// The descriptor is a pipe, a socket, a directory, a device.
    #[error("the descriptor is not a regular file")]
    NotAFile,
    /// The file ends before the range does.
    #[error("the file has {size} bytes, the range needs {needed}")]
    TooShort {
        /// What the file has.
        size: u64,
        /// What it would need.
        needed: u64,
    },
    /// The device shall write what the descriptor doesn't let us write.
    #[error("the descriptor does not allow writing")]
    ReadOnly,
    /// The file has shrunk under a mapping before.
    #[error("the file has lost memory that was mapped")]
    Gone,
    /// The kernel refused.
    #[error("the descriptor can't be mapped")]
    System(#[from] std::io::Error),
}

impl MapError {
    /// What to answer the client.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Malformed | Self::NotAFile | Self::TooShort { .. } => Errno::INVAL,
            Self::Overlap => Errno::EXIST,
            Self::TooManyMaps | Self::TooMuch => Errno::NOSPC,
            Self::ReadOnly => Errno::ACCESS,
            Self::Gone => Errno::IO,
            Self::System(error) => Errno::from_io_error(error).unwrap_or(Errno::IO),
        }
    }
}

/// Why nothing was unmapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum UnmapError {
    /// The range is empty, not made of whole pages, or wraps.
    #[error("not a range of whole pages")]
    Malformed,
    /// The range would leave a part of a mapped one.
    #[error("the range cuts through a mapped one")]
    Cuts,
}

impl UnmapError {
    /// What to answer the client.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Malformed | Self::Cuts => Errno::INVAL,
        }
    }
}

/// One mapped range; the tree's key is its first address.
#[derive(Debug, Clone, Copy)]
struct Map {
    last: u64,
    rights: Rights,
    /// Which file, and where in it.
    memory: Option<(FileId, usize)>,
}

/// One mapped file.
#[derive(Debug)]
struct File {
    mapping: Mapping,
    /// How many ranges refer to it.
    users: usize,
}

/// Everything that a client has mapped.
#[derive(Debug, Default)]
pub struct GuestMemory {
    maps: BTreeMap<u64, Map>,
    files: BTreeMap<FileId, File>,
    /// The range that was found last. Accesses come in bursts to one range.
    hint: Cell<Option<(u64, Map)>>,
    warned: bool,
}

impl GuestMemory {
    /// Without any range.
    pub fn new() -> Self {
        Self::default()
    }

    /// Maps `size` bytes at DMA address `addr`: those of the file at the given offset, or, without
    /// a descriptor, memory that can't be reached.
    pub fn map(
        &mut self,
        addr: u64,
        size: u64,
        rights: Rights,
        memory: Option<(OwnedFd, u64)>,
    ) -> Result<(), MapError> {
        let last = last_address(addr, size).ok_or(MapError::Malformed)?;
        if !rights.read && !rights.write {
            return Err(MapError::Malformed);
        }
        if self.maps.range(..=last).next_back().is_some_and(|(_, map)| map.last >= addr) {
            return Err(MapError::Overlap);
        }
        if self.maps.len() >= MAX_MAPS {
            return Err(MapError::TooManyMaps);
        }
        let memory = match memory {
            Some((descriptor, offset)) => {
                let end = offset.checked_add(size).filter(|_| offset.is_multiple_of(PAGE_SIZE));
                let end = end.ok_or(MapError::Malformed)?;
                let offset = usize::try_from(offset).map_err(|_| MapError::Malformed)?;
                Some((self.hold(&descriptor, end, rights.write)?, offset))
            }
            None => None,
        };
        self.maps.insert(addr, Map { last, rights, memory });
        Ok(())
    }

    /// Withdraws every range inside `size` bytes at `addr` and returns how many there were. None
    /// is not a mistake: a virtual IOMMU's flush names more than was mapped.
    pub fn unmap(&mut self, addr: u64, size: u64) -> Result<usize, UnmapError> {
        let last = last_address(addr, size).ok_or(UnmapError::Malformed)?;
        let before = self.maps.range(..addr).next_back();
        let end = self.maps.range(addr..=last).next_back();
        if before.is_some_and(|(_, map)| map.last >= addr)
            || end.is_some_and(|(_, map)| map.last > last)
        {
            return Err(UnmapError::Cuts);
        }
        self.hint.set(None);
        let mut count = 0;
        while let Some((&start, &map)) = self.maps.range(addr..=last).next() {
            self.maps.remove(&start);
            if let Some((id, _)) = map.memory {
                self.release(id);
            }
            count += 1;
        }
        Ok(count)
    }

    /// Withdraws everything and gives all memory back.
    pub fn unmap_all(&mut self) {
        let Self { maps, files, hint, warned: _ } = self;
        hint.set(None);
        maps.clear();
        files.clear();
    }

    /// How many ranges are mapped.
    pub fn maps(&self) -> usize {
        self.maps.len()
    }

    /// How many bytes of files are mapped into this process.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.mapping.len() as u64).sum()
    }

    /// Whether a file was found to have shrunk: the client broke its promise, and its connection
    /// has to end. Accesses that touched the file answered [`dma::DmaError::Gone`].
    pub fn gone(&self) -> bool {
        self.files.values().any(|file| file.mapping.gone())
    }

    /// Maps the file behind `descriptor` up to `end` at least, unless it is, and counts one user.
    fn hold(&mut self, descriptor: &OwnedFd, end: u64, write: bool) -> Result<FileId, MapError> {
        let found = file::inspect(descriptor)?;
        if found.size < end {
            return Err(MapError::TooShort { size: found.size, needed: end });
        }
        let others = self.bytes();
        let full = self.files.len() >= MAX_FILES;
        match self.files.get_mut(&found.id) {
            Some(file) if file.mapping.gone() => return Err(MapError::Gone),
            Some(file) => {
                let mapped = file.mapping.len() as u64;
                if mapped < end || write && !file.mapping.writable() {
                    file.mapping = found.map(descriptor, write, others - mapped)?;
                }
                file.users += 1;
            }
            None if full => return Err(MapError::TooMuch),
            None => {
                let mapping = found.map(descriptor, write, others)?;
                if !self.warned && !file::is_sealed(descriptor) {
                    self.warned = true;
                    log::warn!(
                        "guest memory is not sealed against shrinking: should its file be made \
                         shorter, the connection ends"
                    );
                }
                self.files.insert(found.id, File { mapping, users: 1 });
            }
        }
        Ok(found.id)
    }

    /// One user less; without any the file is unmapped.
    fn release(&mut self, id: FileId) {
        if let Some(file) = self.files.get_mut(&id) {
            file.users -= 1;
            if file.users == 0 {
                self.files.remove(&id);
            }
        }
    }

    fn find(&self, addr: u64) -> Option<(u64, Map)> {
        if let Some((start, map)) = self.hint.get()
            && (start..=map.last).contains(&addr)
        {
            return Some((start, map));
        }
        let (&start, &map) = self.maps.range(..=addr).next_back()?;
        if map.last < addr {
            return None;
        }
        self.hint.set(Some((start, map)));
        Some((start, map))
    }
}

/// The last address of a range of whole pages that doesn't wrap.
fn last_address(addr: u64, size: u64) -> Option<u64> {
    let whole = addr.is_multiple_of(PAGE_SIZE) && size.is_multiple_of(PAGE_SIZE);
    addr.checked_add(size.checked_sub(1)?).filter(|_| whole)
}

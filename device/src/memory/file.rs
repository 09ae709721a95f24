//! What a descriptor has to be to serve as guest memory.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, OFlags, SealFlags, fcntl_get_seals, fcntl_getfl, fstat};

use super::mapping::Mapping;
use super::{MAX_BYTES, MapError, PAGE_SIZE};

/// Which file it is: the same for each descriptor of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

/// A file that can be guest memory.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) id: FileId,
    pub(super) size: u64,
}

/// Looks at the file behind a descriptor.
pub(super) fn inspect(descriptor: &OwnedFd) -> Result<Found, MapError> {
    let stat = fstat(descriptor).map_err(std::io::Error::from)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(MapError::NotAFile);
    }
    let size = u64::try_from(stat.st_size).map_err(|_| MapError::NotAFile)?;
    Ok(Found { id: FileId { device: stat.st_dev, inode: stat.st_ino }, size })
}

impl Found {
    /// Maps all whole pages of the file; writable whenever the descriptor allows it, because
    /// later ranges of the same file may need it.
    pub(super) fn map(
        &self,
        descriptor: &OwnedFd,
        write: bool,
        others: u64,
    ) -> Result<Mapping, MapError> {
        let bytes = self.size - self.size % PAGE_SIZE;
        if others.saturating_add(bytes) > MAX_BYTES {
            return Err(MapError::TooMuch);
        }
        let len = usize::try_from(bytes).map_err(|_| MapError::TooMuch)?;
        let writable = writable(descriptor)?;
        if write && !writable {
            return Err(MapError::ReadOnly);
        }
        Ok(Mapping::new(descriptor.as_fd(), len, writable)?)
    }
}

fn writable(descriptor: &OwnedFd) -> Result<bool, MapError> {
    let mode = fcntl_getfl(descriptor).map_err(std::io::Error::from)? & OFlags::RWMODE;
    let sealed = SealFlags::WRITE | SealFlags::FUTURE_WRITE;
    Ok(mode == OFlags::RDWR && !seals(descriptor).intersects(sealed))
}

/// Whether the file can't be made shorter.
pub(super) fn is_sealed(descriptor: &OwnedFd) -> bool {
    seals(descriptor).contains(SealFlags::SHRINK)
}

/// None for a file that doesn't know seals.
fn seals(descriptor: &OwnedFd) -> SealFlags {
    fcntl_get_seals(descriptor).unwrap_or(SealFlags::empty())
}

//! A queue's buffer: a list of guest pages that hold it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dma::Bus;
use layouts::be64_at;

use crate::error::{self, CmdError};

/// The smallest page a device knows, as a power of two.
pub const LOG_ADAPTER_PAGE: u32 = 12;

/// Where a queue begins in its first page: contexts give it in 64ths of a page.
pub(crate) fn page_offset(sixtyfourths: u8, log_page_size: u8) -> u32 {
    // A page size that is out of bounds is refused by the page list.
    let log_page = LOG_ADAPTER_PAGE + u32::from(log_page_size.min(19));
    u32::from(sixtyfourths) << (log_page - 6)
}

/// A doorbell record is one aligned group of eight bytes.
pub(crate) fn doorbell_record(addr: u64) -> Result<u64, CmdError> {
    if addr.is_multiple_of(8) {
        Ok(addr)
    } else {
        Err(error::BAD_VALUE.with(format!("doorbell record at {addr:#x}")))
    }
}

/// How many entries the page lists of all queues may still have: it bounds the memory that a
/// guest can make the device spend on queues. An entry counts until its list is dropped.
#[derive(Debug, Clone)]
pub struct PageBudget(Arc<AtomicU64>);

impl PageBudget {
    /// A budget of `entries`.
    pub fn new(entries: u64) -> Self {
        Self(Arc::new(AtomicU64::new(entries)))
    }

    fn take(&self, entries: u64) -> bool {
        // One thread owns a function, so there is nobody to order this against.
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(entries))
            .is_ok()
    }

    fn give_back(&self, entries: u64) {
        self.0.fetch_add(entries, Ordering::Relaxed);
    }
}

/// The pages of a queue's buffer, from the `pas` list of the command that makes the queue, or of
/// memory that a user has registered.
#[derive(Debug)]
pub struct PageList {
    pages: Box<[u64]>,
    log_page: u32,
    offset: u32,
    size: u64,
    budget: PageBudget,
    umem: Option<u32>,
}

impl PageList {
    /// Takes the pages that `size` bytes need, which begin `offset` bytes into the first page.
    /// `pas` is the list as the command carries it, `log_page_size` relative to 4 KiB.
    pub fn new(
        budget: &PageBudget,
        pas: &[u8],
        log_page_size: u8,
        offset: u32,
        size: u64,
    ) -> Result<Self, CmdError> {
        let log_page = LOG_ADAPTER_PAGE + u32::from(log_page_size);
        if log_page > 31 {
            return Err(error::BAD_PAGE_LIST.with(format!("pages of 2^{log_page} bytes")));
        }
        if u64::from(offset) >= 1 << log_page {
            return Err(error::BAD_PAGE_LIST.with(format!("offset {offset} in 2^{log_page} bytes")));
        }
        let bytes = size.saturating_add(offset.into());
        let count = bytes.div_ceil(1 << log_page);
        if count.saturating_mul(8) > pas.len() as u64 {
            return Err(error::BAD_PAGE_LIST.with(format!(
                "{bytes} bytes need {count} pages of 2^{log_page} bytes, the list has {}",
                pas.len() / 8
            )));
        }
        if !budget.take(count) {
            return Err(error::NO_QUEUE_MEMORY.with(format!("{count} more pages")));
        }
        let mask = !((1 << LOG_ADAPTER_PAGE) - 1);
        let pages = (0..count as usize).map(|i| be64_at(pas, i * 8) & mask).collect();
        Ok(Self { pages, log_page, offset, size, budget: budget.clone(), umem: None })
    }

    /// The `size` bytes from byte `at` on, as a queue's buffer. This list is user memory `umem`.
    pub fn part(&self, umem: u32, at: u64, size: u64) -> Result<Self, CmdError> {
        let beyond = || {
            error::BAD_PAGE_LIST
                .with(format!("{size} bytes at {at:#x} of {:#x} of umem {umem:#x}", self.size))
        };
        let end = at.checked_add(size).filter(|&end| end <= self.size).ok_or_else(beyond)?;
        let (begin, end) = (at + u64::from(self.offset), end + u64::from(self.offset));
        let (first, behind) = (begin >> self.log_page, end.div_ceil(1 << self.log_page));
        let pages = self.pages.get(first as usize..behind as usize).ok_or_else(beyond)?;
        if !self.budget.take(pages.len() as u64) {
            return Err(error::NO_QUEUE_MEMORY.with(format!("{} more pages", pages.len())));
        }
        Ok(Self {
            pages: pages.into(),
            log_page: self.log_page,
            offset: (begin & ((1 << self.log_page) - 1)) as u32,
            size,
            budget: self.budget.clone(),
            umem: Some(umem),
        })
    }

    /// The user memory that it is in.
    pub fn umem(&self) -> Option<u32> {
        self.umem
    }

    /// Where it begins in its first page.
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Size of the buffer in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// DMA address of the byte at `at`, and how many bytes follow it in the same page and buffer.
    pub fn locate(&self, at: u64) -> Option<(u64, u64)> {
        if at >= self.size {
            return None;
        }
        let byte = at + u64::from(self.offset);
        let page = *self.pages.get((byte >> self.log_page) as usize)?;
        let within = byte & ((1 << self.log_page) - 1);
        let left = ((1 << self.log_page) - within).min(self.size - at);
        Some((page.wrapping_add(within), left))
    }

    /// Reads what the buffer holds from byte `at` on. None: it ends before, or is not mapped.
    pub fn read(&self, bus: &dyn Bus, mut at: u64, mut to: &mut [u8]) -> Option<()> {
        while !to.is_empty() {
            let (addr, left) = self.locate(at)?;
            let len = to.len().min(usize::try_from(left).ok()?);
            let (now, later) = to.split_at_mut_checked(len)?;
            bus.read(addr, now).ok()?;
            at += len as u64;
            to = later;
        }
        Some(())
    }

    /// DMA address of entry `index` of a ring of `1 << log_stride`-byte entries. Entries are no
    /// longer than what a page offset is a multiple of, so none crosses pages.
    pub fn entry(&self, index: u64, log_stride: u32) -> Option<u64> {
        self.locate(index << log_stride).map(|(addr, _)| addr)
    }
}

impl Drop for PageList {
    fn drop(&mut self) {
        self.budget.give_back(self.pages.len() as u64);
    }
}

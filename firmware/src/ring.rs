//! A queue's buffer: a list of guest pages that hold it.

use layouts::be64_at;

use crate::error::{self, CmdError};

/// The smallest page a device knows, as a power of two.
pub const LOG_ADAPTER_PAGE: u32 = 12;

/// The pages of a queue's buffer, from the `pas` list of the command that makes the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageList {
    pages: Box<[u64]>,
    log_page: u32,
    offset: u32,
    size: u64,
}

impl PageList {
    /// Takes the pages that `size` bytes need, which begin `offset` bytes into the first page.
    /// `pas` is the list as the command carries it, `log_page_size` relative to 4 KiB.
    pub fn new(pas: &[u8], log_page_size: u8, offset: u32, size: u64) -> Result<Self, CmdError> {
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
        let pages: Box<[u64]> =
            (0..count as usize).map(|i| be64_at(pas, i * 8) & !((1 << LOG_ADAPTER_PAGE) - 1)).collect();
        Ok(Self { pages, log_page, offset, size })
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

    /// DMA address of entry `index` of a ring of `1 << log_stride`-byte entries. Entries are no
    /// longer than what a page offset is a multiple of, so none crosses pages.
    pub fn entry(&self, index: u64, log_stride: u32) -> Option<u64> {
        self.locate(index << log_stride).map(|(addr, _)| addr)
    }
}

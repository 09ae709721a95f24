//! Writes a container, block by block.

use std::io::{self, Write};

use thiserror::Error;

use crate::{BLOCK_HEAD, MAGIC, MAX_BLOCK, RECORD_HEAD, VERSION};

/// A block is written when it holds this much.
const BLOCK: usize = 64 << 10;

/// Why a record was not written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The file did not take it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The record is longer than a block may be.
    #[error(transparent)]
    TooLong(#[from] TooLong),
}

/// A record is longer than a block may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a record of {0} bytes does not fit into a block")]
pub struct TooLong(pub usize);

/// Appends one record, as a block holds it, to `to`; `fill` appends its body.
pub(crate) fn frame(
    to: &mut Vec<u8>,
    kind: u16,
    fill: impl FnOnce(&mut Vec<u8>),
) -> Result<(), TooLong> {
    let start = to.len();
    to.extend_from_slice(&[0; RECORD_HEAD]);
    fill(to);
    let whole = to.len() - start;
    if whole > MAX_BLOCK {
        to.truncate(start);
        return Err(TooLong(whole));
    }
    let length = (whole - RECORD_HEAD) as u32;
    to[start..start + 4].copy_from_slice(&length.to_le_bytes());
    to[start + 4..start + RECORD_HEAD].copy_from_slice(&kind.to_le_bytes());
    Ok(())
}

/// Appends records to a file. What was not flushed is written when the writer is dropped.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    /// Room for the block's head, then whole records.
    block: Vec<u8>,
    failed: bool,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        Ok(Self { out, block: vec![0; BLOCK_HEAD], failed: false })
    }

    /// Appends one record, whose body `fill` appends to the buffer that it gets.
    pub fn record(&mut self, kind: u16, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), WriteError> {
        let start = self.block.len();
        frame(&mut self.block, kind, fill)?;
        if self.block.len() - BLOCK_HEAD > MAX_BLOCK {
            // A long record after others: they go first.
            let last = self.block.split_off(start);
            self.flush()?;
            self.block.extend_from_slice(&last);
        }
        if self.block.len() >= BLOCK {
            self.flush()?;
        }
        Ok(())
    }

    /// Appends the records of a [`crate::Encoder`], as a block of their own.
    pub fn records(&mut self, records: &[u8]) -> io::Result<()> {
        self.flush()?;
        self.block.extend_from_slice(records);
        self.flush()
    }

    /// Hands what there is to the file as a block of its own.
    pub fn flush(&mut self) -> io::Result<()> {
        let (head, payload) = self.block.split_at_mut(BLOCK_HEAD);
        if payload.is_empty() {
            return Ok(());
        }
        head[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
        // After a failure the file may end within a block; a second one would follow garbage.
        if self.failed {
            return Err(io::Error::other("an earlier write failed"));
        }
        let result = self.out.write_all(&self.block).and_then(|()| self.out.flush());
        self.failed = result.is_err();
        self.block.truncate(BLOCK_HEAD);
        self.block.shrink_to(2 * BLOCK);
        result
    }
}

impl<W: Write> Drop for Writer<W> {
    fn drop(&mut self) {
        // An error can't be told from here; who needs to know flushes before.
        let _ = self.flush();
    }
}

//! Reads a container up to its end or to the place where it was torn.

use std::io::{self, Read};

use thiserror::Error;

use crate::{BLOCK_HEAD, MAGIC, MAX_BLOCK, RECORD_HEAD, VERSION};

/// Why a file can't be read (on).
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("not a trace or recording of mlx5emu")]
    Magic,
    /// It was written by another program version.
    #[error("format version {0}, this program reads version {VERSION}")]
    Version(u32),
    /// A whole block is there but not as it was written.
    #[error("block at byte {0} is damaged")]
    Damaged(u64),
}

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// After a whole block.
    Whole,
    /// Within a block that begins at this byte: the writer was stopped. Everything before is there.
    Torn(u64),
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number in the file, from 0.
    pub index: u64,
    /// What its body holds.
    pub kind: u16,
    /// Its body.
    pub body: &'a [u8],
}

/// Reads records from a file, in order.
#[derive(Debug)]
pub struct Reader<R: Read> {
    input: R,
    block: Vec<u8>,
    /// Where in `block` the next record begins.
    at: usize,
    /// Where in the file the next block begins.
    offset: u64,
    index: u64,
    end: Option<End>,
}

impl<R: Read> Reader<R> {
    /// Checks that it is such a file.
    pub fn new(mut input: R) -> Result<Self, ReadError> {
        let mut head = [0; MAGIC.len() + 4];
        let got = read_up_to(&mut input, &mut head)?;
        let (magic, version) = head.split_at(MAGIC.len());
        if got < head.len() || magic != MAGIC {
            return Err(ReadError::Magic);
        }
        let version = le32(version);
        if version != VERSION {
            return Err(ReadError::Version(version));
        }
        let offset = head.len() as u64;
        Ok(Self { input, block: Vec::new(), at: 0, offset, index: 0, end: None })
    }

    /// The next record, or none at the end.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, ReadError> {
        if self.at == self.block.len() && !self.next_block()? {
            return Ok(None);
        }
        let damaged = ReadError::Damaged(self.offset - (BLOCK_HEAD + self.block.len()) as u64);
        let rest = self.block.get(self.at..).unwrap_or_default();
        let Some((head, rest)) = rest.split_at_checked(RECORD_HEAD) else {
            return Err(damaged);
        };
        let Some(body) = rest.get(..le32(head) as usize) else {
            return Err(damaged);
        };
        let kind = u16::from_le_bytes([head[4], head[5]]);
        self.at += RECORD_HEAD + body.len();
        let index = self.index;
        self.index += 1;
        Ok(Some(Record { index, kind, body }))
    }

    /// How the file ended, once [`Reader::next_record`] said that there is no more.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    fn next_block(&mut self) -> Result<bool, ReadError> {
        if self.end.is_some() {
            return Ok(false);
        }
        let mut head = [0; BLOCK_HEAD];
        let got = read_up_to(&mut self.input, &mut head)?;
        if got == 0 {
            self.end = Some(End::Whole);
            return Ok(false);
        }
        let (length, checksum) = head.split_at(4);
        let length = le32(length) as usize;
        if got == BLOCK_HEAD && (length == 0 || length > MAX_BLOCK) {
            return Err(ReadError::Damaged(self.offset));
        }
        self.at = 0;
        self.block.clear();
        // Grows with what is there, not with what a torn or hostile head claims.
        let read = (&mut self.input).take(length as u64).read_to_end(&mut self.block)?;
        if got < BLOCK_HEAD || read < length {
            self.block.clear();
            self.end = Some(End::Torn(self.offset));
            return Ok(false);
        }
        if crc32fast::hash(&self.block) != le32(checksum) {
            self.block.clear();
            return Err(ReadError::Damaged(self.offset));
        }
        self.offset += (BLOCK_HEAD + length) as u64;
        Ok(true)
    }
}

/// Reads until `buf` is full or the input ends; returns how much it got.
fn read_up_to(input: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buf.len() {
        match input.read(&mut buf[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

/// The first four bytes.
fn le32(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

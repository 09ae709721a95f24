//! Guest memory through keys, and the bytes of a message.

use dma::{Bus, DmaError};
use firmware::Firmware;
use mtt::{Access, Piece, Pieces, Place, Question, Refusal};
use probe::{Point, Probe};

use crate::completion::{BAD_LENGTH, Failure, NO_MEMORY};
use crate::points;
use crate::wqe::Range;

/// Room that is used again and again.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Where a payload comes from.
    pub source: Pieces,
    /// Where a payload goes.
    pub target: Pieces,
    /// One of several ranges.
    pub part: Pieces,
    /// A payload that was copied.
    pub payload: Vec<u8>,
    /// Data that the next completion carries.
    pub inline: Vec<u8>,
}

/// Who uses a key, and who is told of it.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    pub pd: Option<u32>,
    pub qpn: u32,
    pub probe: &'a Probe,
}

impl Owner<'_> {
    /// What a range is in guest memory, or why it may not be reached.
    pub fn reach(
        self,
        fw: &Firmware,
        range: Range,
        access: Access,
        pieces: &mut Pieces,
    ) -> Result<(), Refusal> {
        let Range { key, addr, len } = range;
        let question = Question { key, addr, len, access, pd: self.pd, qpn: Some(self.qpn) };
        match fw.mtt.translate(&question, pieces) {
            Ok(()) if !self.probe.armed(Point::Translation) => Ok(()),
            outcome => points::translation(fw, self.probe, &question, pieces, outcome),
        }
    }

    /// Where a range of a local key is in guest memory.
    pub fn translate(
        self,
        fw: &Firmware,
        range: Range,
        access: Access,
        pieces: &mut Pieces,
    ) -> Result<(), Failure> {
        self.reach(fw, range, access, pieces).map_err(|refusal| Failure::refused(refusal.cause))
    }

    /// Where `len` bytes of a list of ranges of local keys are in guest memory, after `skip` bytes
    /// of it. A list that is shorter is an error of length.
    pub fn translate_list(
        self,
        fw: &Firmware,
        ranges: impl Iterator<Item = Range>,
        (mut skip, mut len): (u64, u64),
        access: Access,
        (pieces, part): (&mut Pieces, &mut Pieces),
    ) -> Result<(), Failure> {
        pieces.clear();
        for range in ranges {
            if (skip, len) == (0, 0) {
                break;
            }
            let before = skip.min(range.len);
            skip -= before;
            let wanted = (range.len - before).min(len);
            if wanted == 0 {
                continue;
            }
            len -= wanted;
            let range = Range { addr: range.addr.wrapping_add(before), len: wanted, ..range };
            if pieces.is_empty() {
                self.translate(fw, range, access, pieces)?;
            } else {
                self.translate(fw, range, access, part)?;
                pieces.append(part);
            }
        }
        if skip == 0 && len == 0 { Ok(()) } else { Err(BAD_LENGTH) }
    }
}

/// The bytes that a burst carries: where they are, so that they are copied once.
#[derive(Debug, Clone, Copy)]
pub enum Payload<'a> {
    /// In guest memory.
    Pieces(&'a [Piece]),
    /// Here.
    Bytes(&'a [u8]),
}

/// The payload of a burst can't be read where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceGone;

/// Which end of a copy was at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// What was to be read is not there.
    Source,
    /// What was to be written is not there.
    Target,
}

impl Payload<'_> {
    /// No bytes.
    pub const NONE: Self = Self::Bytes(&[]);

    /// How many bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Pieces(pieces) => pieces.iter().map(|piece| piece.len).sum(),
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Copies all of it to pieces of guest memory that are together as long.
    pub fn write_to(&self, bus: &dyn Bus, target: &[Piece]) -> Result<(), Fault> {
        match self {
            Self::Bytes(bytes) => write_all(bus, target, bytes).map_err(|_| Fault::Target),
            Self::Pieces(source) => copy_pieces(bus, source, target),
        }
    }

    /// Appends all of it to `to`.
    pub fn read_to(&self, bus: &dyn Bus, to: &mut Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::Bytes(bytes) => {
                to.extend_from_slice(bytes);
                Ok(())
            }
            Self::Pieces(pieces) => read_all(bus, pieces, to),
        }
    }
}

/// Copies from pieces to pieces.
fn copy_pieces(bus: &dyn Bus, source: &[Piece], target: &[Piece]) -> Result<(), Fault> {
    let mut target = target.iter().copied();
    let mut to = target.next();
    for from in source {
        let mut done = 0;
        while done < from.len {
            let Some(piece) = &mut to else { return Err(Fault::Target) };
            let len = (from.len - done).min(piece.len);
            copy_run(bus, from.place, done, piece.place, len)?;
            done += len;
            piece.len -= len;
            piece.place = match piece.place {
                Place::Memory(at) => Place::Memory(at.wrapping_add(len)),
                Place::Null => Place::Null,
            };
            if piece.len == 0 {
                to = target.next();
            }
        }
    }
    Ok(())
}

/// Copies `len` bytes, from `skip` bytes into a piece.
fn copy_run(bus: &dyn Bus, from: Place, skip: u64, to: Place, len: u64) -> Result<(), Fault> {
    let Place::Memory(to) = to else { return Ok(()) };
    let Place::Memory(from) = from else { return zero(bus, to, len) };
    let from = from.checked_add(skip).ok_or(Fault::Source)?;
    bus.copy(from, to, len).map_err(|error| {
        log::trace!("{error}");
        // The refused address tells the end; if both have it, it is read first.
        match address(error) {
            at if (from..=from.saturating_add(len)).contains(&at) => Fault::Source,
            _ => Fault::Target,
        }
    })
}

fn zero(bus: &dyn Bus, mut to: u64, mut len: u64) -> Result<(), Fault> {
    const ZEROS: [u8; 512] = [0; 512];
    while len > 0 {
        let now = ZEROS.get(..len.min(512) as usize).unwrap_or(&ZEROS);
        bus.write(to, now).map_err(|_| Fault::Target)?;
        to = to.checked_add(now.len() as u64).ok_or(Fault::Target)?;
        len -= now.len() as u64;
    }
    Ok(())
}

fn address(error: DmaError) -> u64 {
    match error {
        DmaError::Unmapped { addr, .. }
        | DmaError::Forbidden { addr, .. }
        | DmaError::Gone { addr, .. }
        | DmaError::Misaligned { addr } => addr,
    }
}

/// Reads pieces of guest memory, in runs of at most `run` bytes.
pub fn read_runs(
    bus: &dyn Bus,
    pieces: &[Piece],
    buffer: &mut [u8],
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut filled = 0;
    for piece in pieces {
        let mut done = 0;
        while done < piece.len {
            let room = buffer.get_mut(filled..).unwrap_or_default();
            let len = (piece.len - done).min(room.len() as u64) as usize;
            let Some(room) = room.get_mut(..len).filter(|room| !room.is_empty()) else {
                return Err(NO_MEMORY);
            };
            match piece.place {
                Place::Memory(at) => {
                    let at = at.checked_add(done).ok_or(NO_MEMORY)?;
                    bus.read(at, room).map_err(unreachable)?;
                }
                Place::Null => room.fill(0),
            }
            done += len as u64;
            filled += len;
            if filled == buffer.len() {
                take(buffer)?;
                filled = 0;
            }
        }
    }
    if filled > 0 { take(buffer.get(..filled).unwrap_or_default()) } else { Ok(()) }
}

/// Appends pieces of guest memory to `to`.
pub fn read_all(bus: &dyn Bus, pieces: &[Piece], to: &mut Vec<u8>) -> Result<(), Failure> {
    let mut chunk = [0; 512];
    read_runs(bus, pieces, &mut chunk, |run| {
        to.extend_from_slice(run);
        Ok(())
    })
}

/// Writes `data` to pieces of guest memory that are as long.
pub fn write_all(bus: &dyn Bus, pieces: &[Piece], mut data: &[u8]) -> Result<(), Failure> {
    for piece in pieces {
        let len = piece.len.min(data.len() as u64) as usize;
        let (now, later) = data.split_at_checked(len).unwrap_or((data, &[]));
        data = later;
        if let Place::Memory(at) = piece.place {
            bus.write(at, now).map_err(unreachable)?;
        }
    }
    Ok(())
}

fn unreachable(error: DmaError) -> Failure {
    log::trace!("{error}");
    NO_MEMORY
}

//! Guest memory through local keys.

use std::ops::ControlFlow;

use dma::Bus;
use firmware::Firmware;
use mtt::{Access, Piece, Pieces, Place, Question};

use crate::completion::{Failure, NO_MEMORY};

/// Room that is used again and again.
#[derive(Debug, Default)]
pub struct Scratch {
    pub pieces: Pieces,
    /// Payload of the packet that is being made.
    pub payload: Vec<u8>,
}

/// Who uses a key.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    pub pd: Option<u32>,
    pub qpn: u32,
}

/// A run of addresses of a local key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub key: u32,
    pub addr: u64,
    pub len: u64,
}

impl Owner {
    /// Where a range is in guest memory.
    pub fn translate(
        self,
        fw: &Firmware,
        range: Range,
        access: Access,
        pieces: &mut Pieces,
    ) -> Result<(), Failure> {
        let Range { key, addr, len } = range;
        let Self { pd, qpn } = self;
        let question = Question { key, addr, len, access, pd, qpn: Some(qpn) };
        fw.mtt.translate(&question, pieces).map_err(|refusal| {
            log::debug!("QP {qpn:#x}: {refusal}");
            Failure::refused(refusal.cause)
        })
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
    let result = pieces.iter().try_for_each(|piece| {
        let len = piece.len.min(data.len() as u64) as usize;
        let (now, later) = data.split_at_checked(len).unwrap_or((data, &[]));
        data = later;
        let written = match piece.place {
            Place::Memory(at) => bus.write(at, now).map_err(unreachable),
            Place::Null => Ok(()),
        };
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => ControlFlow::Break(why),
        }
    });
    match result {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(why) => Err(why),
    }
}

fn unreachable(error: dma::DmaError) -> Failure {
    log::debug!("{error}");
    NO_MEMORY
}

//! Reading and writing guest memory: an access is found in the interval map, piece by piece, and
//! refused as a whole if any piece of it is.

use dma::{Dma, DmaError};

use super::mapping::{Lost, Mapping};
use super::{GuestMemory, Rights};

/// Part of an access that lies in one mapped range.
#[derive(Clone, Copy)]
struct Piece<'a> {
    mapping: &'a Mapping,
    offset: usize,
    len: usize,
}

/// One access: where, how much, and with which right.
#[derive(Clone, Copy)]
struct Access {
    addr: u64,
    len: u64,
    needs: Rights,
}

impl Access {
    fn unmapped(self) -> DmaError {
        DmaError::Unmapped { addr: self.addr, len: self.len }
    }

    fn gone(self) -> DmaError {
        DmaError::Gone { addr: self.addr, len: self.len }
    }

    /// The longest piece at `offset` bytes from the beginning.
    fn piece(self, memory: &GuestMemory, offset: u64) -> Result<Piece<'_>, DmaError> {
        let Self { addr: first, len, needs } = self;
        let addr = first.checked_add(offset).ok_or(self.unmapped())?;
        let (start, map) = memory.find(addr).ok_or(self.unmapped())?;
        if !map.rights.cover(needs) {
            let write = !map.rights.write && needs.write;
            return Err(DmaError::Forbidden { addr: first, len, write });
        }
        let (id, base) = map.memory.ok_or(self.unmapped())?;
        let file = memory.files.get(&id).ok_or(self.unmapped())?;
        let room = (map.last - addr).saturating_add(1).min(len - offset);
        Ok(Piece {
            mapping: &file.mapping,
            offset: base + (addr - start) as usize,
            len: room as usize,
        })
    }

    /// Refuses the access if any part of it is to be refused.
    fn check(self, memory: &GuestMemory) -> Result<(), DmaError> {
        let mut done = 0;
        while done < self.len {
            done += self.piece(memory, done)?.len as u64;
        }
        Ok(())
    }

    /// Does the access piece by piece; `each` gets a piece and how many bytes came before it.
    fn perform(
        self,
        memory: &GuestMemory,
        mut each: impl FnMut(Piece<'_>, usize) -> Result<(), Lost>,
    ) -> Result<(), DmaError> {
        let mut done = 0;
        while done < self.len {
            let piece = self.piece(memory, done)?;
            if done == 0 && (piece.len as u64) < self.len {
                self.check(memory)?;
            }
            each(piece, done as usize).map_err(|Lost| self.gone())?;
            done += piece.len as u64;
        }
        Ok(())
    }
}

impl Dma for GuestMemory {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        let access = Access { addr, len: buf.len() as u64, needs: Rights::READ };
        access.perform(self, |piece, done| {
            let part = buf.get_mut(done..done + piece.len).ok_or(Lost)?;
            piece.mapping.read(piece.offset, part)
        })
    }

    fn write(&self, addr: u64, data: &[u8]) -> Result<(), DmaError> {
        let access = Access { addr, len: data.len() as u64, needs: Rights::WRITE };
        access.perform(self, |piece, done| {
            let part = data.get(done..done + piece.len).ok_or(Lost)?;
            piece.mapping.write(piece.offset, part)
        })
    }

    /// Ranges that overlap are copied as if through a buffer if each lies in one mapped range,
    /// and otherwise piece by piece from the front.
    fn copy(&self, src: u64, dst: u64, len: u64) -> Result<(), DmaError> {
        let source = Access { addr: src, len, needs: Rights::READ };
        let target = Access { addr: dst, len, needs: Rights::WRITE };
        let mut done = 0;
        while done < len {
            let from = source.piece(self, done)?;
            let to = target.piece(self, done)?;
            let part = from.len.min(to.len);
            if done == 0 && (part as u64) < len {
                source.check(self)?;
                target.check(self)?;
            }
            Mapping::copy((from.mapping, from.offset), (to.mapping, to.offset), part)
                .map_err(|Lost| if from.mapping.gone() { source.gone() } else { target.gone() })?;
            done += part as u64;
        }
        Ok(())
    }

    fn compare_exchange(&self, addr: u64, old: [u8; 8], new: [u8; 8]) -> Result<[u8; 8], DmaError> {
        if !addr.is_multiple_of(8) {
            return Err(DmaError::Misaligned { addr });
        }
        let access = Access { addr, len: 8, needs: Rights::READ_WRITE };
        let piece = access.piece(self, 0)?;
        piece.mapping.compare_exchange(piece.offset, old, new).map_err(|Lost| access.gone())
    }
}

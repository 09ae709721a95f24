//! One send WQE: copied out of the ring once, judged in the copy.

use dma::Bus;
use firmware::qp::connection::Sent;
use firmware::qp::{LOG_WQEBB, Qp, SendQueue};
use layouts::{WqeCtrlSeg, WqeDataSeg, WqeInlineSeg, WqeOpcode};

use crate::completion::{BAD_WQE, Failure};

/// Bytes of a basic block.
const BLOCK: usize = 1 << LOG_WQEBB;
/// Bytes of the unit that a WQE's size is counted in.
const UNIT: usize = 16;
/// Bytes of a WQE that is copied without asking for memory, in whole basic blocks.
const SHORT: usize = 4 * BLOCK;
/// A length of zero in a data segment stands for this.
pub const LONGEST: u64 = 1 << 31;

/// A WQE.
pub struct Wqe {
    /// It, if it is short: most are, and copying a long buffer for each would be felt.
    short: [u8; SHORT],
    /// It, if it is longer.
    long: Vec<u8>,
    /// How many bytes it has.
    len: usize,
    /// How many basic blocks it takes in the ring.
    pub blocks: u16,
    /// It can't be what it says: it names no size, or one beyond what was posted.
    pub malformed: bool,
}

impl Default for Wqe {
    fn default() -> Self {
        Self { short: [0; SHORT], long: Vec::new(), len: BLOCK, blocks: 1, malformed: false }
    }
}

impl Wqe {
    /// Copies the WQE that begins at basic block `at` of the ring, of which `posted` are posted from
    /// there on. None: the ring is not mapped. (It fills what it is called on, which is too long to be
    /// handed up from here for every WQE.)
    pub fn fetch(
        &mut self,
        bus: &dyn Bus,
        qp: &Qp,
        sq: &SendQueue,
        at: u16,
        posted: u16,
    ) -> Option<()> {
        let (first, rest) = self.short.split_at_mut(BLOCK);
        qp.read_send(bus, sq, at, first)?;
        let len = usize::from(WqeCtrlSeg(&*first).ds()) * UNIT;
        let blocks = len.div_ceil(BLOCK) as u16;
        if len < UNIT || blocks > posted {
            self.malformed = true;
            return Some(());
        }
        self.len = len;
        self.blocks = blocks;
        if blocks > 1 {
            let rest = if len <= SHORT {
                rest.get_mut(..len - BLOCK)?
            } else {
                self.long = vec![0; len];
                let (start, rest) = self.long.split_at_mut_checked(BLOCK)?;
                start.copy_from_slice(first);
                rest
            };
            qp.read_send(bus, sq, at.wrapping_add(1), rest)?;
        }
        Some(())
    }

    /// Copies the WQE of a work request in flight again. None: the ring is not mapped.
    pub fn fetch_again(&mut self, bus: &dyn Bus, qp: &Qp, sent: &Sent) -> Option<()> {
        self.fetch(bus, qp, qp.sq.as_ref()?, sent.wqe, sent.blocks)
    }

    /// Its control segment.
    pub fn ctrl(&self) -> WqeCtrlSeg<&[u8]> {
        WqeCtrlSeg(self.from(0))
    }

    /// What it asks for.
    pub fn opcode(&self) -> WqeOpcode {
        WqeOpcode(self.ctrl().opcode())
    }

    /// Whether its success is completed too.
    pub fn is_signalled(&self) -> bool {
        // CQ_UPDATE, with or without an event.
        self.ctrl().ce() & 2 != 0
    }

    /// Its bytes from `at` on.
    pub fn from(&self, at: usize) -> &[u8] {
        let bytes = if self.len <= SHORT { &self.short[..] } else { &self.long };
        bytes.get(at..self.len).unwrap_or_default()
    }

    /// `len` bytes at `at`, if it has them.
    pub fn part(&self, at: usize, len: usize) -> Result<&[u8], Failure> {
        self.from(at).get(..len).ok_or(BAD_WQE)
    }

    /// The data that its segments from `at` on name, in order.
    pub fn data(&self, at: usize) -> impl Iterator<Item = Result<Data<'_>, Failure>> {
        let mut rest = self.from(at);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let segment = Data::first(rest);
            rest = match &segment {
                Ok((_, len)) => rest.get(*len..).unwrap_or_default(),
                Err(_) => &[],
            };
            Some(segment.map(|(data, _)| data))
        })
    }

    /// The guest memory that its segments from `at` on name. Segments that hold data themselves
    /// are left out.
    pub fn ranges(&self, at: usize) -> impl Iterator<Item = Range> {
        self.data(at).filter_map(|data| match data {
            Ok(Data::Memory(range)) => Some(range),
            _ => None,
        })
    }

    /// Copies what its segments from `at` on hold and name to `bytes`; `read` appends memory.
    pub fn copy_data(
        &self,
        at: usize,
        bytes: &mut Vec<u8>,
        mut read: impl FnMut(Range, &mut Vec<u8>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        bytes.clear();
        self.data(at).try_for_each(|data| match data? {
            Data::Inline(inline) => {
                bytes.extend_from_slice(inline);
                Ok(())
            }
            Data::Memory(range) => read(range, bytes),
        })
    }

    /// How many bytes its segments from `at` on name, and whether some are in the WQE itself.
    pub fn extent(&self, at: usize) -> Result<(u64, bool), Failure> {
        let (mut len, mut inline) = (0, false);
        for data in self.data(at) {
            len += match data? {
                Data::Memory(range) => range.len,
                Data::Inline(bytes) => {
                    inline = true;
                    bytes.len() as u64
                }
            };
        }
        Ok((len, inline))
    }
}

/// A run of addresses of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub key: u32,
    pub addr: u64,
    pub len: u64,
}

/// What one data segment names.
#[derive(Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// Guest memory.
    Memory(Range),
    /// These bytes.
    Inline(&'a [u8]),
}

impl<'a> Data<'a> {
    /// The first segment of `bytes`, and how long it is.
    fn first(bytes: &'a [u8]) -> Result<(Self, usize), Failure> {
        let inline = WqeInlineSeg(bytes);
        if inline.inline() {
            let end = WqeInlineSeg::SIZE + usize::from(inline.byte_count());
            let data = bytes.get(WqeInlineSeg::SIZE..end).ok_or(BAD_WQE)?;
            return Ok((Self::Inline(data), end.next_multiple_of(UNIT)));
        }
        let segment = WqeDataSeg(bytes.get(..UNIT).ok_or(BAD_WQE)?);
        let len = if segment.byte_count() == 0 { LONGEST } else { segment.byte_count().into() };
        let range = Range { key: segment.lkey(), addr: segment.addr(), len };
        Ok((Self::Memory(range), UNIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wqe(bytes: &[u8]) -> Wqe {
        let mut wqe = Wqe { len: bytes.len(), ..Wqe::default() };
        wqe.short[..bytes.len()].copy_from_slice(bytes);
        wqe
    }

    fn inline(bytes: &mut [u8], len: u16) {
        let mut segment = WqeInlineSeg(bytes);
        segment.set_inline(true);
        segment.set_byte_count(len);
    }

    #[test]
    fn data_segments_of_both_kinds() {
        let mut bytes = [0; 64];
        let mut memory = WqeDataSeg(&mut bytes[..16]);
        memory.set_byte_count(5);
        memory.set_lkey(0x1234);
        memory.set_addr(0x1_0000_0000);
        inline(&mut bytes[16..], 20);
        bytes[20..40].fill(7);
        let wqe = wqe(&bytes);
        let data: Vec<_> = wqe.data(0).collect();
        assert_eq!(
            data,
            [
                Ok(Data::Memory(Range { key: 0x1234, addr: 0x1_0000_0000, len: 5 })),
                Ok(Data::Inline(&[7; 20])),
                // The last 16 bytes: a length of zero.
                Ok(Data::Memory(Range { key: 0, addr: 0, len: LONGEST })),
            ]
        );
    }

    #[test]
    fn an_inline_segment_longer_than_the_wqe() {
        let mut bytes = [0; 32];
        inline(&mut bytes, 29);
        let wqe = wqe(&bytes);
        assert_eq!(wqe.data(0).collect::<Vec<_>>(), [Err(BAD_WQE)]);
    }
}

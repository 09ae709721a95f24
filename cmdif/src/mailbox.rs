//! Mailboxes: chains of blocks of 512 bytes in guest memory that continue an input or output.
//!
//! A chain is walked exactly as far as the length asks for. Drivers reuse longer chains and leave
//! stale tokens in the blocks that they do not need.

use dma::Bus;
use layouts::{CommandMailbox, DeliveryStatus};

use crate::entry::{Entry, INLINE, aligned};
use crate::points::Points;
use crate::signature;

/// Bytes of data in a block.
const DATA: usize = 512;
/// Size of a block in guest memory.
pub(crate) const BLOCK: usize = CommandMailbox::SIZE;
/// How many blocks continue a message of `len` bytes.
pub(crate) fn blocks(len: usize) -> usize {
    len.saturating_sub(INLINE).div_ceil(DATA)
}

/// A chain on which we are at some block. `pointer_bad` and `too_short` are the statuses for the
/// direction that the chain is for.
struct Chain<'a> {
    points: Points<'a>,
    direction: &'static str,
    next: u64,
    number: u32,
    token: u8,
    checksum: bool,
    pointer_bad: DeliveryStatus,
    too_short: DeliveryStatus,
}

impl Chain<'_> {
    /// Reads the next block into `block`, judges it and returns its address.
    fn step(&mut self, bus: &dyn Bus, block: &mut [u8]) -> Result<u64, DeliveryStatus> {
        let at = self.next;
        if at == 0 {
            return Err(self.too_short);
        }
        if !aligned(at) {
            return Err(self.pointer_bad);
        }
        bus.read(at, block).map_err(|_| self.pointer_bad)?;
        self.points.mailbox(block, at, self.direction);
        let control = block.get(DATA..BLOCK - 1).unwrap_or_default();
        if self.checksum && !(signature::verify(control) && signature::verify(block)) {
            return Err(DeliveryStatus::SIGNATURE_ERR);
        }
        let view = CommandMailbox(&*block);
        if view.token() != self.token {
            return Err(DeliveryStatus::TOKEN_ERR);
        }
        // This also ends a walk in circles.
        if view.block_num() != self.number {
            return Err(DeliveryStatus::BAD_BLK_NUM_ERR);
        }
        self.next = view.next();
        self.number = self.number.wrapping_add(1);
        Ok(at)
    }
}

/// Collects a command's whole input in `buffer`, whose first `inlen` bytes it is afterwards. The
/// buffer grows with the blocks that were really read, whatever length the entry claims.
pub(crate) fn gather(
    (bus, points): (&dyn Bus, Points<'_>),
    entry: &Entry,
    checksum: bool,
    buffer: &mut Vec<u8>,
) -> Result<(), DeliveryStatus> {
    let view = entry.view();
    let mut chain = Chain {
        points,
        direction: "in",
        next: view.in_ptr(),
        number: 0,
        token: view.token(),
        checksum,
        pointer_bad: DeliveryStatus::IN_PTR_ALIGN_ERR,
        too_short: DeliveryStatus::INPUT_LEN_ERR,
    };
    grow(buffer, INLINE);
    if let Some(head) = buffer.first_chunk_mut() {
        *head = entry.inline_input();
    }
    for n in 0..blocks(view.inlen() as usize) {
        // Each block is read in one piece behind the data of the one before it, over whose
        // control part it goes.
        let at = INLINE + n * DATA;
        grow(buffer, at + BLOCK);
        chain.step(bus, buffer.get_mut(at..at + BLOCK).unwrap_or_default())?;
    }
    Ok(())
}

/// Makes `buffer` at least `len` bytes long; what is in it from earlier commands may stay.
fn grow(buffer: &mut Vec<u8>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
}

/// Where one block of an output goes.
#[derive(Debug)]
pub(crate) struct OutBlock {
    at: u64,
    control: [u8; BLOCK - DATA],
}

/// Walks and judges the chain for a command's output before the command is carried out: an object
/// whose number can't be told would be lost.
pub(crate) fn survey(
    (bus, points): (&dyn Bus, Points<'_>),
    entry: &Entry,
    checksum: bool,
    chain_blocks: &mut Vec<OutBlock>,
) -> Result<(), DeliveryStatus> {
    let view = entry.view();
    let mut chain = Chain {
        points,
        direction: "out",
        next: view.out_ptr(),
        number: 0,
        token: view.token(),
        checksum,
        pointer_bad: DeliveryStatus::OUT_PTR_ALIGN_ERR,
        too_short: DeliveryStatus::OUTPUT_LEN_ERR,
    };
    chain_blocks.clear();
    for _ in 0..blocks(view.outlen() as usize) {
        let mut block = [0; BLOCK];
        let at = chain.step(bus, &mut block)?;
        let Some(&control) = block.last_chunk() else { return Err(DeliveryStatus::FW_ERR) };
        chain_blocks.push(OutBlock { at, control });
    }
    Ok(())
}

/// Writes the part of an output that goes to mailboxes.
pub(crate) fn scatter(
    (bus, points): (&dyn Bus, Points<'_>),
    output: &[u8],
    checksum: bool,
    chain_blocks: &[OutBlock],
) -> Result<(), DeliveryStatus> {
    let data = output.get(INLINE..).unwrap_or_default().chunks(DATA);
    for (data, block) in data.zip(chain_blocks) {
        let whole = checksum.then(|| signed(data, &block.control));
        let data = whole.as_ref().map_or(data, |whole| &whole[..]);
        points.mailbox(data, block.at, "written");
        let written = bus.write(block.at, data);
        written.map_err(|_| DeliveryStatus::OUT_PTR_ALIGN_ERR)?;
    }
    Ok(())
}

/// A whole block of an output, signed.
fn signed(data: &[u8], control: &[u8; BLOCK - DATA]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    for (to, from) in block.iter_mut().zip(data) {
        *to = *from;
    }
    if let Some(to) = block.last_chunk_mut() {
        *to = *control;
    }
    let mut view = CommandMailbox(&mut block[..]);
    view.set_ctrl_sig(0);
    view.set_sig(0);
    let control = signature::sign(&block[DATA..]);
    CommandMailbox(&mut block[..]).set_ctrl_sig(control);
    let whole = signature::sign(&block);
    CommandMailbox(&mut block[..]).set_sig(whole);
    block
}

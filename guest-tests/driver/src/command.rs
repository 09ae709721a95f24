//! Commands: slots of the queue, chains of mailboxes, tokens, and what must be true of a reply.

use layouts::{CommandMailbox, CommandQueueEntry, DeliveryStatus, MboxIn};

use crate::memory::{Allocator, PAGE};
use crate::port::{Memory, Result, broken};

/// The slot that is kept for MANAGE_PAGES, so that a command that waits for pages can't keep the
/// pages from coming.
pub const PAGES_SLOT: u8 = 31;

const ENTRY: u64 = CommandQueueEntry::SIZE as u64;
const BLOCK: usize = CommandMailbox::SIZE;
/// Blocks lie this far apart in their page.
const BLOCK_STRIDE: u64 = 1024;
const DATA: usize = 512;
const INLINE: usize = 16;
/// PCI_CMD_XPORT.
const TYPE: u8 = 7;
/// Lengths of the chains that a driver keeps ready, in blocks. A message takes the next longer one,
/// and the blocks that it does not need keep the token of another message.
const CACHED_CHAINS: [usize; 5] = [1, 2, 16, 256, 512];

/// A command on its way.
#[derive(Debug, Default)]
struct InFlight {
    opcode: u16,
    token: u8,
    outlen: usize,
    /// Blocks of the input and of the output, in order.
    input: Vec<u64>,
    output: Vec<u64>,
}

/// The command queue.
#[derive(Debug)]
pub(crate) struct Commands {
    queue: u64,
    token: u8,
    slots: [Option<InFlight>; 32],
    free_blocks: Vec<u64>,
}

impl Commands {
    /// A queue in the page at `queue`, all of its slots the driver's.
    pub(crate) fn new(queue: u64) -> Self {
        Self { queue, token: 0, slots: Default::default(), free_blocks: Vec::new() }
    }

    /// A slot that holds no command.
    pub(crate) fn free_slot(&self) -> Option<u8> {
        (0..PAGES_SLOT).find(|&slot| !self.in_flight(slot))
    }

    /// The slot for page commands, if it holds none.
    pub(crate) fn free_pages_slot(&self) -> Option<u8> {
        (!self.in_flight(PAGES_SLOT)).then_some(PAGES_SLOT)
    }

    /// Whether a slot holds a command that has not been taken back.
    fn in_flight(&self, slot: u8) -> bool {
        self.slots.get(usize::from(slot)).is_some_and(Option::is_some)
    }

    /// Opcode of the command in a slot.
    pub(crate) fn opcode(&self, slot: u8) -> u16 {
        self.slots.get(usize::from(slot)).and_then(Option::as_ref).map_or(0, |cmd| cmd.opcode)
    }

    fn entry_at(&self, slot: u8) -> u64 {
        self.queue + u64::from(slot) * ENTRY
    }

    /// Writes a command into a slot; the doorbell is the caller's.
    pub(crate) fn prepare(
        &mut self,
        memory: &dyn Memory,
        allocator: &mut Allocator,
        slot: u8,
        input: &[u8],
        outlen: usize,
    ) -> Result<()> {
        assert!(!self.in_flight(slot), "slot {slot} is in use");
        self.token = self.token.checked_add(1).unwrap_or(1);
        let token = self.token;
        let needed = blocks(input.len());
        let kept = CACHED_CHAINS.into_iter().find(|&kept| kept >= needed).unwrap_or(needed);
        let in_chain = self.chain(allocator, if needed == 0 { 0 } else { kept })?;
        let out_chain = self.chain(allocator, blocks(outlen))?;
        let data = input.get(INLINE..).unwrap_or_default();
        write_chain(memory, &in_chain, |n| if n < needed { token } else { token ^ 0x55 }, data)?;
        write_chain(memory, &out_chain, |_| token, &[])?;

        let mut bytes = [0; ENTRY as usize];
        let mut entry = CommandQueueEntry(&mut bytes[..]);
        entry.set_type(TYPE);
        entry.set_inlen(input.len() as u32);
        entry.set_in_ptr(in_chain.first().copied().unwrap_or(0));
        entry.set_out_ptr(out_chain.first().copied().unwrap_or(0));
        entry.set_outlen(outlen as u32);
        entry.set_token(token);
        entry.set_ownership(true);
        let inline = input.len().min(INLINE);
        bytes[0x10..0x10 + inline].copy_from_slice(&input[..inline]);
        let signature = !bytes.iter().fold(0, |sum, byte| sum ^ byte);
        CommandQueueEntry(&mut bytes[..]).set_sig(signature);
        memory.write(self.entry_at(slot), &bytes)?;
        self.slots[usize::from(slot)] = Some(InFlight {
            opcode: MboxIn(input).opcode(),
            token,
            outlen,
            input: in_chain,
            output: out_chain,
        });
        Ok(())
    }

    /// Whether the card has handed a slot back, and with what delivery status.
    pub(crate) fn poll(&self, memory: &dyn Memory, slot: u8) -> Result<Option<DeliveryStatus>> {
        let mut bytes = [0; ENTRY as usize];
        // The last byte alone first: the rest is only good after it.
        let (_, status_own) = bytes.split_at_mut(ENTRY as usize - 1);
        memory.read(self.entry_at(slot) + ENTRY - 1, status_own)?;
        let entry = CommandQueueEntry(&bytes);
        Ok((!entry.ownership()).then(|| DeliveryStatus(entry.status())))
    }

    /// The part of a command's output that is in its entry.
    pub(crate) fn inline_output(&self, memory: &dyn Memory, slot: u8) -> Result<[u8; INLINE]> {
        let mut bytes = [0; ENTRY as usize];
        memory.read(self.entry_at(slot), &mut bytes)?;
        Ok(CommandQueueEntry(&bytes).out())
    }

    /// Hands a slot to the card as it is.
    pub(crate) fn hand_over(&self, memory: &dyn Memory, slot: u8) -> Result<()> {
        let mut bytes = [0; ENTRY as usize];
        CommandQueueEntry(&mut bytes[..]).set_ownership(true);
        memory.write(self.entry_at(slot) + ENTRY - 1, &bytes[ENTRY as usize - 1..])?;
        Ok(())
    }

    /// Takes a command that was handed back out of its slot, with its output.
    pub(crate) fn finish(&mut self, memory: &dyn Memory, slot: u8) -> Result<Vec<u8>> {
        let Some(cmd) = self.slots.get_mut(usize::from(slot)).and_then(Option::take) else {
            return broken(format!("slot {slot} completed without a command in it"));
        };
        let result = read_output(memory, self.entry_at(slot), &cmd);
        self.free_blocks.extend(cmd.input);
        self.free_blocks.extend(cmd.output);
        result
    }

    /// Gives the queue's memory back.
    pub(crate) fn release(self, allocator: &mut Allocator) {
        allocator.free(self.queue, PAGE);
        // Blocks were carved out of whole pages.
        for page in self.free_blocks.into_iter().filter(|block| block.is_multiple_of(PAGE)) {
            allocator.free(page, PAGE);
        }
    }

    fn chain(&mut self, allocator: &mut Allocator, len: usize) -> Result<Vec<u64>> {
        while self.free_blocks.len() < len {
            let page = allocator.alloc(PAGE)?;
            self.free_blocks.extend((0..PAGE / BLOCK_STRIDE).map(|n| page + n * BLOCK_STRIDE));
        }
        Ok(self.free_blocks.split_off(self.free_blocks.len() - len))
    }
}

fn blocks(len: usize) -> usize {
    len.saturating_sub(INLINE).div_ceil(DATA)
}

fn write_chain(
    memory: &dyn Memory,
    chain: &[u64],
    token: impl Fn(usize) -> u8,
    data: &[u8],
) -> Result<()> {
    let mut data = data.chunks(DATA);
    for (n, &at) in chain.iter().enumerate() {
        let mut bytes = [0; BLOCK];
        let data = data.next().unwrap_or_default();
        bytes[..data.len()].copy_from_slice(data);
        let mut block = CommandMailbox(&mut bytes[..]);
        block.set_next(chain.get(n + 1).copied().unwrap_or(0));
        block.set_block_num(n as u32);
        block.set_token(token(n));
        memory.write(at, &bytes)?;
    }
    Ok(())
}

fn read_output(memory: &dyn Memory, entry_at: u64, cmd: &InFlight) -> Result<Vec<u8>> {
    let mut bytes = [0; ENTRY as usize];
    memory.read(entry_at, &mut bytes)?;
    if CommandQueueEntry(&bytes).token() != cmd.token {
        return broken(format!("command {:#x}: its entry has another token", cmd.opcode));
    }
    let mut output = vec![0; cmd.outlen];
    let inline = cmd.outlen.min(INLINE);
    output[..inline].copy_from_slice(&bytes[0x20..0x20 + inline]);
    for (n, (part, &at)) in output[inline..].chunks_mut(DATA).zip(&cmd.output).enumerate() {
        let mut bytes = [0; BLOCK];
        memory.read(at, &mut bytes)?;
        let block = CommandMailbox(&bytes);
        if block.token() != cmd.token || block.block_num() != n as u32 {
            return broken(format!("command {:#x}: output block {n} is not its own", cmd.opcode));
        }
        part.copy_from_slice(&bytes[..part.len()]);
    }
    Ok(output)
}

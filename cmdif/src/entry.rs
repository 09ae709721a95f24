//! A command queue entry: one slot, read once and judged in the copy.

use dma::{Bus, DmaError};
use layouts::{CommandQueueEntry, DeliveryStatus};
use probe::Defect;

use crate::signature;

/// Slots in the queue.
pub(crate) const SLOTS: u32 = 1 << LOG_SLOTS;
/// The same as the power of two that the initialization segment shows.
pub(crate) const LOG_SLOTS: u8 = 5;
/// Size of a slot, as a power of two.
pub(crate) const LOG_STRIDE: u8 = 6;
/// Size of an entry.
const SIZE: usize = CommandQueueEntry::SIZE;
/// Bytes of input and of output that are in the entry itself.
pub(crate) const INLINE: usize = 16;

/// Longest input that is carried, by default: room for a CREATE_MKEY with 64 Mi translation entries
/// (256 GiB of memory in 4 KiB pages).
const MAX_INPUT: usize = 0x110 + (64 << 20) * 8;
/// Longest output: more than any reply of any command.
const MAX_OUTPUT: usize = 1 << 20;
/// PCI_CMD_XPORT, the only type of entry.
const TYPE: u8 = 7;
/// An input holds at least its header.
const MIN_INPUT: usize = 16;
/// An output has room for status and syndrome.
const MIN_OUTPUT: usize = 8;
/// Where the bytes are that the device writes.
const OUTPUT_AT: usize = 0x20;
const LENGTH_AT: usize = 0x38;
const TOKEN_AT: usize = 0x3c;
const SIGNATURE_AT: usize = 0x3d;
const STATUS_AT: usize = 0x3f;

/// What a block's address is a multiple of.
const ALIGN: u64 = 1024;

/// Whether a block can be at this address.
pub(crate) fn aligned(pointer: u64) -> bool {
    pointer.is_multiple_of(ALIGN)
}

/// Lengths above which an entry is malformed, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of an input.
    pub input: usize,
    /// Of an output.
    pub output: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { input: MAX_INPUT, output: MAX_OUTPUT }
    }
}

/// Our copy of an entry.
#[derive(Debug)]
pub(crate) struct Entry {
    at: u64,
    bytes: [u8; SIZE],
}

impl Entry {
    /// Reads the entry in `slot` of the queue at `queue`.
    pub(crate) fn read(bus: &dyn Bus, queue: u64, slot: u8) -> Result<Self, DmaError> {
        let at = queue.wrapping_add(u64::from(slot) << LOG_STRIDE);
        let mut bytes = [0; SIZE];
        bus.read(at, &mut bytes)?;
        Ok(Self { at, bytes })
    }

    /// Its fields.
    pub(crate) fn view(&self) -> CommandQueueEntry<&[u8]> {
        CommandQueueEntry(&self.bytes)
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The part of the input that is in the entry.
    pub(crate) fn inline_input(&self) -> [u8; INLINE] {
        self.view().r#in()
    }

    /// Judges everything that can be judged without looking further.
    pub(crate) fn check(&self, limits: &Limits, checksum: bool) -> Result<(), DeliveryStatus> {
        let entry = self.view();
        if entry.r#type() != TYPE {
            return Err(DeliveryStatus::CMD_DESC_ERR);
        }
        if checksum && !signature::verify(&self.bytes) {
            return Err(DeliveryStatus::SIGNATURE_ERR);
        }
        if self.reserved().any(|byte| byte != 0) {
            return Err(DeliveryStatus::RESERVED_ERR);
        }
        let (input, output) = (entry.inlen() as usize, entry.outlen() as usize);
        if !(MIN_INPUT..=limits.input).contains(&input) {
            return Err(DeliveryStatus::INPUT_LEN_ERR);
        }
        if !(MIN_OUTPUT..=limits.output).contains(&output) {
            return Err(DeliveryStatus::OUTPUT_LEN_ERR);
        }
        if input > INLINE && !aligned(entry.in_ptr()) {
            return Err(DeliveryStatus::IN_PTR_ALIGN_ERR);
        }
        if output > INLINE && !aligned(entry.out_ptr()) {
            return Err(DeliveryStatus::OUT_PTR_ALIGN_ERR);
        }
        Ok(())
    }

    fn reserved(&self) -> impl Iterator<Item = u8> + '_ {
        [1, 2, 3, 0x3e].into_iter().filter_map(|at| self.bytes.get(at)).copied()
    }

    /// Hands the slot back to the driver, with the first bytes of `output` if the command was
    /// carried out.
    pub(crate) fn complete(
        &mut self,
        bus: &dyn Bus,
        status: DeliveryStatus,
        output: &[u8],
        checksum: bool,
        defect: Option<Defect>,
    ) -> Result<(), DmaError> {
        let inline = output.get(..INLINE).unwrap_or(output);
        let mut entry = CommandQueueEntry(&mut self.bytes[..]);
        entry.set_ownership(false);
        entry.set_status(status.0);
        for (to, from) in self.bytes.iter_mut().skip(OUTPUT_AT).zip(inline) {
            *to = *from;
        }
        bus.write(self.at.wrapping_add(OUTPUT_AT as u64), inline)?;
        if checksum {
            CommandQueueEntry(&mut self.bytes[..]).set_sig(0);
            let signature = signature::sign(&self.bytes);
            CommandQueueEntry(&mut self.bytes[..]).set_sig(signature);
            bus.write(self.at.wrapping_add(SIGNATURE_AT as u64), &[signature])?;
        }
        if let Some(defect) = defect {
            self.spoil(bus, defect)?;
        }
        // Last, and alone: a driver that polls takes the slot back as soon as it sees the owner bit
        // clear (cmd.c: poll_timeout), and one that waits for the event reads the delivery status
        // right after it.
        bus.write(self.at.wrapping_add(STATUS_AT as u64), &self.bytes[STATUS_AT..])
    }

    /// Writes over what would be right.
    fn spoil(&mut self, bus: &dyn Bus, defect: Defect) -> Result<(), DmaError> {
        let bytes = match defect {
            Defect::Signature => SIGNATURE_AT..SIGNATURE_AT + 1,
            Defect::Token => TOKEN_AT..TOKEN_AT + 1,
            Defect::Length => LENGTH_AT..LENGTH_AT + 4,
        };
        let at = self.at.wrapping_add(bytes.start as u64);
        let wrong = self.bytes.get_mut(bytes).unwrap_or_default();
        wrong.iter_mut().for_each(|byte| *byte ^= 0x5a);
        bus.write(at, wrong)
    }
}

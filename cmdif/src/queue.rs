//! The command queue: which slots wait, and one command from its entry to its reply.

use std::collections::VecDeque;

use dma::Bus;
use layouts::DeliveryStatus;
use probe::Probe;

use crate::entry::{Entry, SLOTS};
use crate::mailbox::{self, OutBlock};
use crate::points::Points;

/// Longest input that is carried, by default: room for a CREATE_MKEY with 64 Mi translation entries
/// (256 GiB of memory in 4 KiB pages).
const MAX_INPUT: usize = 0x110 + (64 << 20) * 8;
/// Longest output: more than any reply of any command.
const MAX_OUTPUT: usize = 1 << 20;
/// Buffers that grew beyond this for one command are given back after it.
const KEEP: usize = 1 << 20;

/// What commands mean.
pub trait Executor {
    /// Carries out one command. `input` is all of its bytes; `output` is as long as the driver has
    /// room for and zero, and holds the reply, status and syndrome included, afterwards.
    fn execute(&mut self, bus: &dyn Bus, input: &[u8], output: &mut [u8]);
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

/// What became of a slot that was named in the doorbell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Its number.
    pub slot: u8,
    /// What happened to it.
    pub outcome: Outcome,
    /// What the doorbell said: when the slot is completed, tell the driver by an event.
    pub events: bool,
    /// Bytes of input and output, to account for the work that it was.
    pub bytes: usize,
}

/// See [`Completion`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The slot went back to the driver with this status.
    Completed(DeliveryStatus),
    /// The slot is as it was: it did not hold a command or could not be reached.
    Untouched,
}

/// The slots that wait, and the buffers.
pub(crate) struct CommandQueue {
    limits: Limits,
    /// Whether signatures are checked and made.
    pub(crate) checksum: bool,
    /// In the order in which the doorbell named them, so that none starves another.
    waiting: VecDeque<u8>,
    /// The same, a bit each.
    marked: u32,
    /// Which of them are completed with an event.
    events: u32,
    input: Vec<u8>,
    output: Vec<u8>,
    out_blocks: Vec<OutBlock>,
}

impl CommandQueue {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            checksum: false,
            waiting: VecDeque::with_capacity(SLOTS as usize),
            marked: 0,
            events: 0,
            input: Vec::new(),
            output: Vec::new(),
            out_blocks: Vec::new(),
        }
    }

    /// The doorbell names slots, a bit each. A slot that waits already is not taken twice.
    pub(crate) fn doorbell(&mut self, named: u32, events: bool) {
        let mut fresh = named & !self.marked;
        self.marked |= fresh;
        self.events = if events { self.events | fresh } else { self.events & !fresh };
        while fresh != 0 {
            self.waiting.push_back(fresh.trailing_zeros() as u8);
            fresh &= fresh - 1;
        }
    }

    pub(crate) fn pending(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// See [`crate::CommandInterface::run_one`].
    pub(crate) fn run_one(
        &mut self,
        bus: &dyn Bus,
        probe: &Probe,
        queue: Option<u64>,
        executor: &mut impl Executor,
    ) -> Option<Completion> {
        let slot = self.waiting.pop_front()?;
        let bit = 1u32.checked_shl(slot.into()).unwrap_or(0);
        self.marked &= !bit;
        let events = self.events & bit != 0;
        let (outcome, bytes) = self.run(bus, probe, queue, slot, executor);
        self.shrink();
        Some(Completion { slot, outcome, events, bytes })
    }

    fn run(
        &mut self,
        bus: &dyn Bus,
        probe: &Probe,
        queue: Option<u64>,
        slot: u8,
        executor: &mut impl Executor,
    ) -> (Outcome, usize) {
        let Some(queue) = queue else {
            probe.mistake("command without a queue", || {
                format!("slot {slot} was named before the address of the command queue was written")
            });
            return (Outcome::Untouched, 0);
        };
        let mut entry = match Entry::read(bus, queue, slot) {
            Ok(entry) => entry,
            Err(error) => {
                probe.mistake("command queue out of reach", || format!("slot {slot}: {error}"));
                return (Outcome::Untouched, 0);
            }
        };
        if !entry.view().ownership() {
            probe.mistake("command slot not handed over", || {
                format!("slot {slot} was named while its entry belonged to the driver")
            });
            return (Outcome::Untouched, 0);
        }
        let checksum = self.checksum;
        let points = Points { probe, slot };
        let (status, output, bytes) = match self.carry((bus, points), &entry, executor) {
            Ok((output, bytes)) => (DeliveryStatus::OK, output, bytes),
            Err(status) => {
                probe.mistake("malformed command", || {
                    let view = entry.view();
                    format!(
                        "slot {slot}: {status} (inlen {:#x}, in_ptr {:#x}, outlen {:#x}, out_ptr {:#x})",
                        view.inlen(), view.in_ptr(), view.outlen(), view.out_ptr()
                    )
                });
                points.undelivered(entry.bytes(), status);
                (status, &[][..], 0)
            }
        };
        match entry.complete(bus, status, output, checksum) {
            Ok(()) => (Outcome::Completed(status), bytes),
            Err(error) => {
                probe.mistake("command queue out of reach", || format!("slot {slot}: {error}"));
                (Outcome::Untouched, bytes)
            }
        }
    }

    /// Carries a command to the executor and its output, but for what goes into the entry, back.
    fn carry(
        &mut self,
        cx: (&dyn Bus, Points<'_>),
        entry: &Entry,
        executor: &mut impl Executor,
    ) -> Result<(&[u8], usize), DeliveryStatus> {
        let (bus, points) = cx;
        let Self { limits, checksum, input, output, out_blocks, .. } = self;
        entry.check(limits, *checksum)?;
        mailbox::gather(cx, entry, *checksum, input)?;
        mailbox::survey(cx, entry, *checksum, out_blocks)?;
        let view = entry.view();
        let (inlen, outlen) = (view.inlen() as usize, view.outlen() as usize);
        output.clear();
        output.resize(outlen, 0);
        let input = input.get(..inlen).unwrap_or_default();
        points.command(input);
        executor.execute(bus, input, output);
        points.reply(input, output);
        mailbox::scatter(cx, output, *checksum, out_blocks)?;
        Ok((output, inlen + outlen))
    }

    fn shrink(&mut self) {
        if self.input.capacity() > KEEP {
            self.input = Vec::new();
        }
        if self.output.capacity() > KEEP {
            self.output = Vec::new();
            self.out_blocks = Vec::new();
        }
    }

    /// As after power-on.
    pub(crate) fn reset(&mut self) {
        let Self { limits: _, checksum, waiting, marked, events, input, output, out_blocks } = self;
        *checksum = false;
        waiting.clear();
        *marked = 0;
        *events = 0;
        *input = Vec::new();
        *output = Vec::new();
        *out_blocks = Vec::new();
    }
}

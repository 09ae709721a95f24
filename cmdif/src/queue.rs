//! The command queue: which slots wait, and one command from its entry to its reply.

use std::collections::VecDeque;

use dma::Bus;
use layouts::{DeliveryStatus, MboxOut};
use probe::{Action, Defect, Held, Probe, Until};

use crate::entry::{Entry, Limits, SLOTS};
use crate::mailbox::{self, OutBlock};
use crate::points::Points;

/// Buffers that grew beyond this for one command are given back after it.
const KEEP: usize = 1 << 20;

/// What commands mean.
pub trait Executor {
    /// Carries out one command. `input` is all of its bytes; `output` is as long as the driver has
    /// room for and zero, and holds the reply, status and syndrome included, afterwards.
    fn execute(&mut self, bus: &dyn Bus, input: &[u8], output: &mut [u8]);
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
    /// A fault: tell it twice.
    pub twice: bool,
    /// Bytes of input and output, to account for the work that it was.
    pub bytes: usize,
}

/// See [`Completion`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The slot went back to the driver with this status.
    Completed(DeliveryStatus),
    /// The slot is as it was: it did not hold a command or could not be reached; or a fault keeps
    /// it back.
    Untouched,
}

/// A command that a fault keeps back.
#[derive(Debug)]
struct Late {
    slot: u8,
    events: bool,
    then: Then,
}

/// What happens to a command that was kept back.
#[derive(Debug)]
enum Then {
    /// It is carried out.
    Run,
    /// It has been carried out already: this is its reply.
    Reply(Reply),
    /// It goes back with this delivery status, and nothing else.
    Refuse(Entry, DeliveryStatus),
}

/// What goes back to the driver.
#[derive(Debug)]
struct Reply {
    entry: Entry,
    output: Vec<u8>,
    out_blocks: Vec<OutBlock>,
}

/// What became of a command that could be delivered.
enum Carried {
    /// Its reply is in `output`.
    Answered { bytes: usize, defect: Option<Defect>, twice: bool },
    /// It goes back with this delivery status.
    Refused(DeliveryStatus),
    /// It is kept back.
    Late(Until, Afterwards),
    /// It is never answered.
    Lost,
}

/// What is to happen when a command is no longer kept back.
enum Afterwards {
    Run,
    Reply,
    Refuse(DeliveryStatus),
}

/// What one turn of a slot came to.
struct Turn {
    outcome: Outcome,
    bytes: usize,
    twice: bool,
}

impl Turn {
    const NOTHING: Self = Self { outcome: Outcome::Untouched, bytes: 0, twice: false };
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
    /// Doorbells that faults keep back, and what they wanted.
    late_doorbells: Held<(u32, bool)>,
    /// Commands that faults keep back, and whose slots these are, a bit each.
    late: Held<Late>,
    kept: u32,
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
            late_doorbells: Held::new(SLOTS as usize),
            late: Held::new(SLOTS as usize),
            kept: 0,
            input: Vec::new(),
            output: Vec::new(),
            out_blocks: Vec::new(),
        }
    }

    /// The doorbell names slots, a bit each. A slot that waits already, or is kept back,
    /// is not taken twice.
    pub(crate) fn doorbell(&mut self, named: u32, events: bool) {
        let mut fresh = named & !self.marked & !self.kept;
        self.marked |= fresh;
        self.events = if events { self.events | fresh } else { self.events & !fresh };
        while fresh != 0 {
            self.waiting.push_back(fresh.trailing_zeros() as u8);
            fresh &= fresh - 1;
        }
    }

    /// The same, which a fault keeps back. One for which there is no room is lost.
    pub(crate) fn doorbell_late(&mut self, until: Until, named: u32, events: bool) {
        let _ = self.late_doorbells.push(until, (named, events));
    }

    pub(crate) fn pending(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// When the next command that is kept back goes on.
    pub(crate) fn deadline(&self) -> Option<u64> {
        [self.late.next(), self.late_doorbells.next()].into_iter().flatten().min()
    }

    /// What a fault rule keeps back goes on. Returns how many commands that are.
    pub(crate) fn release(&mut self, rule: u32, now: u64) -> u64 {
        self.late.release(rule, now) + self.late_doorbells.release(rule, now)
    }

    /// See [`crate::CommandInterface::run_one`].
    pub(crate) fn run_one(
        &mut self,
        bus: &dyn Bus,
        probe: &Probe,
        queue: Option<u64>,
        executor: &mut impl Executor,
    ) -> Option<Completion> {
        while let Some((named, events)) = self.late_doorbells.due(probe.now()) {
            self.doorbell(named, events);
        }
        let (slot, events, turn) = match self.late.due(probe.now()) {
            Some(Late { slot, events, then }) => {
                self.kept &= !bit(slot);
                let cx = (bus, Points { probe, slot });
                let turn = match then {
                    Then::Run => self.run(cx, queue, events, true, executor),
                    Then::Reply(reply) => self.reply_late(cx, reply),
                    Then::Refuse(entry, status) => {
                        let outcome = hand_back(cx, entry, status, &[], (self.checksum, None));
                        Turn { outcome, bytes: 0, twice: false }
                    }
                };
                (slot, events, turn)
            }
            None => {
                let slot = self.waiting.pop_front()?;
                self.marked &= !bit(slot);
                let events = self.events & bit(slot) != 0;
                let turn = self.run((bus, Points { probe, slot }), queue, events, false, executor);
                (slot, events, turn)
            }
        };
        self.shrink();
        let Turn { outcome, bytes, twice } = turn;
        Some(Completion { slot, outcome, events, twice, bytes })
    }

    /// One command. `again`: it was kept back, and whoever decided that is not asked again.
    fn run(
        &mut self,
        cx: (&dyn Bus, Points<'_>),
        queue: Option<u64>,
        events: bool,
        again: bool,
        executor: &mut impl Executor,
    ) -> Turn {
        let (bus, points) = cx;
        let Points { probe, slot } = points;
        let Some(queue) = queue else {
            probe.mistake("command without a queue", || {
                format!("slot {slot} was named before the address of the command queue was written")
            });
            return Turn::NOTHING;
        };
        let entry = match Entry::read(bus, queue, slot) {
            Ok(entry) => entry,
            Err(error) => {
                probe.mistake("command queue out of reach", || format!("slot {slot}: {error}"));
                return Turn::NOTHING;
            }
        };
        if !entry.view().ownership() {
            probe.mistake("command slot not handed over", || {
                format!("slot {slot} was named while its entry belonged to the driver")
            });
            return Turn::NOTHING;
        }
        let (status, len, defect, twice) = match self.carry(cx, &entry, again, executor) {
            Ok(Carried::Answered { bytes, defect, twice }) => {
                (DeliveryStatus::OK, bytes, defect, twice)
            }
            Ok(Carried::Refused(status)) => (status, 0, None, false),
            Ok(Carried::Late(until, afterwards)) => {
                let then = match afterwards {
                    Afterwards::Run => Then::Run,
                    Afterwards::Refuse(status) => Then::Refuse(entry, status),
                    Afterwards::Reply => Then::Reply(Reply {
                        entry,
                        output: std::mem::take(&mut self.output),
                        out_blocks: std::mem::take(&mut self.out_blocks),
                    }),
                };
                self.keep(until, Late { slot, events, then });
                return Turn::NOTHING;
            }
            Ok(Carried::Lost) => return Turn::NOTHING,
            Err(status) => {
                probe.mistake("malformed command", || {
                    let view = entry.view();
                    format!(
                        "slot {slot}: {status} (inlen {:#x}, in_ptr {:#x}, outlen {:#x}, out_ptr {:#x})",
                        view.inlen(), view.in_ptr(), view.outlen(), view.out_ptr()
                    )
                });
                points.undelivered(entry.bytes(), status);
                (status, 0, None, false)
            }
        };
        let output = if status == DeliveryStatus::OK { &self.output[..] } else { &[] };
        let outcome = hand_back(cx, entry, status, output, (self.checksum, defect));
        Turn { outcome, bytes: len, twice }
    }

    /// Carries a command to the executor and its output, but for what goes into the entry, back.
    fn carry(
        &mut self,
        cx: (&dyn Bus, Points<'_>),
        entry: &Entry,
        again: bool,
        executor: &mut impl Executor,
    ) -> Result<Carried, DeliveryStatus> {
        let (bus, points) = cx;
        let now = points.probe.now();
        let Self { limits, checksum, input, output, out_blocks, .. } = self;
        entry.check(limits, *checksum)?;
        mailbox::gather(cx, entry, *checksum, input)?;
        mailbox::survey(cx, entry, *checksum, out_blocks)?;
        let view = entry.view();
        let (inlen, outlen) = (view.inlen() as usize, view.outlen() as usize);
        output.clear();
        output.resize(outlen, 0);
        let input = input.get(..inlen).unwrap_or_default();
        let mut defect = None;
        let mut twice = false;
        match if again { None } else { points.command(input) } {
            Some(Action::Status { status, syndrome, executed }) => {
                if executed {
                    executor.execute(bus, input, output);
                }
                answer(output, status, syndrome);
            }
            Some(Action::Delivery(status)) => return Ok(Carried::Refused(DeliveryStatus(status))),
            Some(Action::Lose) => return Ok(Carried::Lost),
            Some(action) if let Some(until) = Until::asked(&action, now) => {
                return Ok(Carried::Late(
                    until,
                    match action {
                        Action::HoldDelivery(_, status) => {
                            Afterwards::Refuse(DeliveryStatus(status))
                        }
                        _ => Afterwards::Run,
                    },
                ));
            }
            _ => executor.execute(bus, input, output),
        }
        match points.reply(input, output) {
            Some(Action::Status { status, syndrome, .. }) => answer(output, status, syndrome),
            Some(Action::Set(patches)) => probe::apply(&patches, output),
            Some(Action::Delivery(status)) => return Ok(Carried::Refused(DeliveryStatus(status))),
            Some(Action::Lose) => return Ok(Carried::Lost),
            Some(Action::Defect(wrong)) => defect = Some(wrong),
            Some(Action::Twice) => twice = true,
            Some(action) if let Some(until) = Until::asked(&action, now) => {
                return Ok(Carried::Late(until, Afterwards::Reply));
            }
            _ => {}
        }
        mailbox::scatter(cx, output, *checksum, out_blocks)?;
        Ok(Carried::Answered { bytes: inlen + outlen, defect, twice })
    }

    fn keep(&mut self, until: Until, late: Late) {
        let slot = late.slot;
        // There is room for every slot, and none is kept twice.
        if self.late.push(until, late).is_ok() {
            self.kept |= bit(slot);
        }
    }

    /// Writes a reply that was kept back.
    fn reply_late(&mut self, cx: (&dyn Bus, Points<'_>), reply: Reply) -> Turn {
        let Reply { entry, output, out_blocks } = reply;
        let written = mailbox::scatter(cx, &output, self.checksum, &out_blocks);
        let status = written.err().unwrap_or(DeliveryStatus::OK);
        let outcome = hand_back(cx, entry, status, &output, (self.checksum, None));
        Turn { outcome, bytes: output.len(), twice: false }
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
        let Self {
            limits: _,
            checksum,
            waiting,
            marked,
            events,
            late_doorbells,
            late,
            kept,
            input,
            output,
            out_blocks,
        } = self;
        *checksum = false;
        waiting.clear();
        late_doorbells.clear();
        late.clear();
        *kept = 0;
        *marked = 0;
        *events = 0;
        *input = Vec::new();
        *output = Vec::new();
        *out_blocks = Vec::new();
    }
}

/// The bit of a slot.
fn bit(slot: u8) -> u32 {
    1u32.checked_shl(slot.into()).unwrap_or(0)
}

/// A reply that says nothing but this.
fn answer(output: &mut [u8], status: u8, syndrome: u32) {
    output.fill(0);
    let mut reply = MboxOut(output);
    reply.set_status(status);
    reply.set_syndrome(syndrome);
}

fn hand_back(
    (bus, points): (&dyn Bus, Points<'_>),
    mut entry: Entry,
    status: DeliveryStatus,
    output: &[u8],
    (checksum, defect): (bool, Option<Defect>),
) -> Outcome {
    match entry.complete(bus, status, output, checksum, defect) {
        Ok(()) => Outcome::Completed(status),
        Err(error) => {
            let Points { probe, slot } = points;
            probe.mistake("command queue out of reach", || format!("slot {slot}: {error}"));
            Outcome::Untouched
        }
    }
}

//! How a command travels: initialization segment, command queue, mailboxes.
//!
//! A driver writes a command into one of 32 slots in its own memory, input and output spilling into
//! chains of mailboxes, and names the slot in the doorbell. [`CommandInterface`] takes the slots in
//! the order in which they were named, judges each entry in its own copy, hands the whole input to an
//! [`Executor`] and carries the reply back. An entry that can't be carried is answered with the
//! delivery status for its defect; one that can't even be read is left as it is.
//!
//! Nothing here knows what a command means.
#![forbid(unsafe_code)]

mod entry;
mod init_segment;
mod mailbox;
mod points;
mod queue;
mod signature;

pub use entry::Limits;
pub use init_segment::{Identity, InitSegment, SEGMENT_SIZE, Timeouts};
pub use queue::{Completion, Executor, Outcome};

use dma::Bus;
use probe::{Action, Probe, Until};

use queue::CommandQueue;

/// The initialization segment and the command queue that its registers name.
pub struct CommandInterface {
    /// The registers.
    pub segment: InitSegment,
    queue: CommandQueue,
}

impl CommandInterface {
    /// As after power-on.
    pub fn new(identity: Identity, limits: Limits) -> Self {
        Self { segment: InitSegment::new(identity), queue: CommandQueue::new(limits) }
    }

    /// Reads `data.len()` bytes of the segment at `offset`; `now` is in ns.
    pub fn read(&mut self, now: u64, probe: &Probe, offset: u64, data: &mut [u8]) {
        self.segment.read(now, probe, offset, data);
    }

    /// Writes the segment at `offset`. Slots named in the doorbell wait for [`Self::run_one`];
    /// `events` is handed back with each of them, see [`Completion::events`].
    pub fn write(&mut self, probe: &Probe, offset: u64, data: &[u8], events: bool) {
        let named = self.segment.write(probe, offset, data);
        if named == 0 {
            return;
        }
        match probe::ask!(probe, Doorbell, slots = named) {
            Some(Action::Lose) => {}
            Some(action) if let Some(until) = Until::asked(&action, probe.now()) => {
                self.queue.doorbell_late(until, named, events);
            }
            _ => self.queue.doorbell(named, events),
        }
    }

    /// Whether a named slot waits.
    pub fn pending(&self) -> bool {
        self.queue.pending()
    }

    /// When a command that a fault keeps back goes on, in ns of the probe's clock.
    pub fn deadline(&self) -> Option<u64> {
        self.queue.deadline()
    }

    /// What a fault rule keeps back goes on. Returns how many commands that are.
    pub fn release(&mut self, rule: u32, now: u64) -> u64 {
        self.queue.release(rule, now)
    }

    /// Whether entries, mailboxes and replies carry signatures. Off after power-on.
    pub fn set_checksum(&mut self, on: bool) {
        self.queue.checksum = on;
    }

    /// Carries out the command in the slot that has waited longest; `None` if none waits. One that
    /// a fault has kept back and whose time has come goes first.
    pub fn run_one(
        &mut self,
        bus: &dyn Bus,
        probe: &Probe,
        executor: &mut impl Executor,
    ) -> Option<Completion> {
        self.queue.run_one(bus, probe, self.segment.queue_address(), executor)
    }

    /// Function-level reset: as after power-on.
    pub fn reset(&mut self) {
        let Self { segment, queue } = self;
        segment.reset();
        queue.reset();
    }
}

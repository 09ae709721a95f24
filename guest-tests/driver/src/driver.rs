//! The driver itself: waiting, commands by polling and by event, and what events tell.

use std::time::Duration;

use layouts::{DeliveryStatus, Eqe, EventType, MboxIn, MboxOut, Opcode, Status};

use crate::command::{Commands, PAGES_SLOT};
use crate::eq::EventQueue;
use crate::memory::Allocator;
use crate::pages::Pages;
use crate::port::{Error, Port, Result, broken};

/// How long the card may take for anything.
const LIMIT: Duration = Duration::from_secs(10);

/// A driver for the card behind `P`.
pub struct Driver<P> {
    /// The way to the card.
    pub port: P,
    /// Guest memory that is not in use.
    pub memory: Allocator,
    /// Pages that the card was given.
    pub pages: Pages,
    pub(crate) commands: Option<Commands>,
    /// Commands are completed by event from now on.
    pub(crate) by_event: bool,
    /// Slots that were submitted to be completed by event, and those of them that were.
    waiting: u32,
    done: u32,
    pub(crate) eqs: Vec<EventQueue>,
    /// Completion queues that have reported, in order.
    pub(crate) completions: Vec<u32>,
    /// Events that the driver does not act on itself, in order.
    pub events: Vec<Event>,
    vectors: Vec<u16>,
    /// Every command's input and length of output, in order, if they are wanted: to be played again.
    pub history: Option<Vec<(Vec<u8>, usize)>>,
    /// Variant byte of the key that was made last.
    pub(crate) variant: u8,
}

/// An event that was not a completion and not about commands or pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Its type.
    pub event: EventType,
    /// Its subtype.
    pub sub_type: u8,
    /// The whole entry.
    pub entry: [u8; Eqe::SIZE],
}

impl<P: Port> Driver<P> {
    /// A driver that has not yet touched the card.
    pub fn new(port: P) -> Self {
        Self {
            memory: Allocator::new(port.memory_range()),
            port,
            pages: Pages::default(),
            commands: None,
            by_event: false,
            waiting: 0,
            done: 0,
            eqs: Vec::new(),
            completions: Vec::new(),
            events: Vec::new(),
            vectors: Vec::new(),
            history: None,
            variant: 0,
        }
    }

    /// Lets the card work until `done` gives something.
    pub fn wait<T>(
        &mut self,
        what: &str,
        mut done: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<T> {
        let start = self.port.now();
        loop {
            if let Some(value) = done(self)? {
                return Ok(value);
            }
            let waited = self.port.now().saturating_sub(start);
            if waited > LIMIT {
                return Err(Error::Timeout { what: what.into(), waited });
            }
            self.port.relax()?;
        }
    }

    fn commands(&mut self) -> Result<&mut Commands> {
        match &mut self.commands {
            Some(commands) => Ok(commands),
            None => broken("a command before the command queue was set up"),
        }
    }

    /// Issues a command and does not wait for it. Returns its slot.
    pub fn submit(&mut self, input: &[u8], outlen: usize) -> Result<u8> {
        let slot = self.prepare(input, outlen)?;
        self.ring(1 << slot)?;
        Ok(slot)
    }

    /// Writes a command into a free slot, which it returns; [`Self::ring`] issues it.
    pub fn prepare(&mut self, input: &[u8], outlen: usize) -> Result<u8> {
        if let Some(history) = &mut self.history {
            history.push((input.to_vec(), outlen));
        }
        let pages = MboxIn(input).opcode() == Opcode::MANAGE_PAGES.0;
        let slot = self.wait("a free command slot", |driver| {
            driver.service()?;
            let commands = driver.commands()?;
            Ok(if pages { commands.free_pages_slot() } else { commands.free_slot() })
        })?;
        let Self { port, memory, commands: Some(commands), .. } = self else {
            return broken("a command before the command queue was set up");
        };
        commands.prepare(port.memory(), memory, slot, input, outlen)?;
        Ok(slot)
    }

    /// From now on commands are polled for; for when the queue of their events is to go.
    pub fn use_polling(&mut self) {
        self.by_event = false;
    }

    /// Issues the commands in these slots, a bit each, with one doorbell.
    pub fn ring(&mut self, slots: u32) -> Result<()> {
        if self.by_event {
            self.waiting |= slots;
        }
        self.ring_command_doorbell(slots)
    }

    /// Waits for the command in `slot` and takes its output.
    pub fn complete(&mut self, slot: u8) -> Result<Vec<u8>> {
        let opcode = self.commands()?.opcode(slot);
        let delivery = self.wait_for(slot)?;
        let Self { port, commands: Some(commands), .. } = self else {
            return broken("the command queue went away");
        };
        let output = commands.finish(port.memory(), slot)?;
        judge(opcode, delivery, &output)?;
        Ok(output)
    }

    /// Waits for the command in `slot`, and leaves it there: [`Self::again`] prepares it once more
    /// as it was, mailboxes and all. Returns the part of the output that is in the entry.
    pub fn complete_in_place(&mut self, slot: u8) -> Result<[u8; 16]> {
        let delivery = self.wait_for(slot)?;
        let Self { port, commands: Some(commands), .. } = self else {
            return broken("the command queue went away");
        };
        let output = commands.inline_output(port.memory(), slot)?;
        judge(commands.opcode(slot), delivery, &output)?;
        Ok(output)
    }

    /// Hands a command that is completed, but was left in its slot, to the card once more.
    pub fn again(&mut self, slot: u8) -> Result<()> {
        let Self { port, commands: Some(commands), .. } = self else {
            return broken("the command queue went away");
        };
        commands.hand_over(port.memory(), slot)
    }

    fn wait_for(&mut self, slot: u8) -> Result<DeliveryStatus> {
        let bit = 1 << slot;
        let opcode = Opcode(self.commands()?.opcode(slot));
        let what = format!("command {opcode} in slot {slot}");
        if self.waiting & bit == 0 {
            return self.wait(&what, |driver| driver.delivery(slot));
        }
        self.wait(&what, |driver| {
            driver.service()?;
            Ok((driver.done & bit != 0).then_some(()))
        })?;
        self.waiting &= !bit;
        self.done &= !bit;
        match self.delivery(slot)? {
            Some(delivery) => Ok(delivery),
            None => broken(format!("{what}: event before the slot was handed back")),
        }
    }

    fn delivery(&mut self, slot: u8) -> Result<Option<DeliveryStatus>> {
        let Self { port, commands: Some(commands), .. } = self else { return Ok(None) };
        commands.poll(port.memory(), slot)
    }

    /// Carries out a command, and what the card asked for meanwhile.
    pub fn command(&mut self, input: &[u8], outlen: usize) -> Result<Vec<u8>> {
        let slot = self.submit(input, outlen)?;
        let output = self.complete(slot);
        if slot != PAGES_SLOT {
            self.serve_page_requests()?;
        }
        output
    }

    /// The same with the header filled in: `input` is the command's whole structure.
    pub fn exec(
        &mut self,
        opcode: Opcode,
        op_mod: u16,
        mut input: impl AsMut<[u8]>,
        outlen: usize,
    ) -> Result<Vec<u8>> {
        let input = input.as_mut();
        let mut header = MboxIn(&mut *input);
        header.set_opcode(opcode.0);
        header.set_op_mod(op_mod);
        self.command(input, outlen)
    }

    /// Takes interrupts, and the events that they are for.
    pub fn service(&mut self) -> Result<()> {
        let mut vectors = std::mem::take(&mut self.vectors);
        self.port.take_interrupts(&mut vectors)?;
        vectors.sort_unstable();
        vectors.dedup();
        for vector in vectors.drain(..) {
            for index in 0..self.eqs.len() {
                if self.eqs.get(index).is_some_and(|eq| eq.vector == vector) {
                    self.drain(index)?;
                }
            }
        }
        self.vectors = vectors;
        Ok(())
    }

    /// Takes all events of one queue, and arms it again.
    fn drain(&mut self, index: usize) -> Result<()> {
        while let Some(eq) = self.eqs.get_mut(index) {
            let Some(entry) = eq.next(self.port.memory())? else {
                return eq.arm(&mut self.port);
            };
            self.handle(entry)?;
        }
        Ok(())
    }

    fn handle(&mut self, entry: [u8; Eqe::SIZE]) -> Result<()> {
        let eqe = Eqe(&entry);
        match EventType(eqe.r#type()) {
            EventType::CMD => self.commands_done(eqe.cmd().vector()),
            EventType::COMP => {
                self.completions.push(eqe.comp().cqn());
                Ok(())
            }
            EventType::PAGE_REQUEST => {
                let request = eqe.req_pages();
                self.pages.requests.push_back(request.num_pages() as i32);
                Ok(())
            }
            event => {
                self.events.push(Event { event, sub_type: eqe.sub_type(), entry });
                Ok(())
            }
        }
    }

    /// An event says that these slots, a bit each, are completed.
    fn commands_done(&mut self, vector: u32) -> Result<()> {
        if vector == 0 {
            return broken("a command event that names no slot");
        }
        for slot in (0..32).filter(|slot| vector >> slot & 1 == 1) {
            let bit = 1 << slot;
            if self.waiting & bit == 0 || self.done & bit != 0 {
                return broken(format!("a command event for slot {slot}, which waits for none"));
            }
            if self.delivery(slot)?.is_none() {
                return broken(format!(
                    "a command event for slot {slot} before it was handed back"
                ));
            }
            self.done |= bit;
        }
        Ok(())
    }
}

/// The error that a reply reports.
fn judge(opcode: u16, delivery: DeliveryStatus, output: &[u8]) -> Result<()> {
    if delivery != DeliveryStatus::OK {
        return Err(Error::Delivery { opcode, status: delivery });
    }
    let reply = MboxOut(output);
    match Status(reply.status()) {
        Status::OK => Ok(()),
        status => Err(Error::Command { opcode, status, syndrome: reply.syndrome() }),
    }
}

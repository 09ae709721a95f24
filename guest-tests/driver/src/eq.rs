//! Event queues, from the driver's side.

use layouts::{
    CreateEqIn, CreateEqOut, DestroyEqIn, DestroyEqOut, EqDoorbell, Eqe, EventType, Opcode,
    UAR_EQ_ARM,
};

use crate::driver::Driver;
use crate::memory::PAGE;
use crate::port::{Memory, Port, Result, broken};
use crate::uar;

const ENTRY: u64 = Eqe::SIZE as u64;
const OWNER_AT: u64 = ENTRY - 1;

/// Sizes that the stock driver uses, as powers of two of entries.
pub mod log_size {
    /// Command queue.
    pub const COMMAND: u8 = 8;
    /// Asynchronous events.
    pub const ASYNC: u8 = 13;
    /// Page requests.
    pub const PAGES: u8 = 8;
    /// Completions.
    pub const COMPLETION: u8 = 11;
}

/// The events that go to the queue for asynchronous ones, whatever the capabilities are.
pub const ASYNC_EVENTS: &[EventType] = &[
    EventType::PATH_MIG,
    EventType::COMM_EST,
    EventType::SQ_DRAINED,
    EventType::CQ_ERROR,
    EventType::WQ_CATAS_ERROR,
    EventType::PATH_MIG_FAILED,
    EventType::PORT_CHANGE,
    EventType::WQ_INVAL_REQ_ERROR,
    EventType::WQ_ACCESS_ERROR,
    EventType::SRQ_CATAS_ERROR,
    EventType::SRQ_LAST_WQE,
    EventType::SRQ_RQ_LIMIT,
];

/// One event queue.
#[derive(Debug)]
pub struct EventQueue {
    /// Its number.
    pub eqn: u8,
    /// The vector that it interrupts with.
    pub vector: u16,
    uar: u32,
    log_size: u8,
    at: u64,
    consumer: u32,
}

impl EventQueue {
    /// The next event, if the card has written one.
    pub(crate) fn next(&mut self, memory: &dyn Memory) -> Result<Option<[u8; Eqe::SIZE]>> {
        let slot = u64::from(self.consumer) & ((1 << self.log_size) - 1);
        let at = self.at + slot * ENTRY;
        let mut owner = [0];
        memory.read(at + OWNER_AT, &mut owner)?;
        let pass = (self.consumer >> self.log_size) as u8;
        if (owner[0] ^ pass) & 1 != 0 {
            return Ok(None);
        }
        // Only now: the owner bit is written last.
        let mut entry = [0; Eqe::SIZE];
        memory.read(at, &mut entry)?;
        self.consumer = (self.consumer + 1) & uar::INDEX_MASK;
        Ok(Some(entry))
    }

    /// Says what was consumed, and that there shall be an interrupt for what comes.
    pub(crate) fn arm(&self, port: &mut impl Port) -> Result<()> {
        let mut word = [0; EqDoorbell::SIZE];
        let mut doorbell = EqDoorbell(&mut word[..]);
        doorbell.set_eqn(self.eqn);
        doorbell.set_ci(self.consumer);
        port.write32(uar::register(self.uar, UAR_EQ_ARM), u32::from_be_bytes(word))
    }

    fn bytes(&self) -> u64 {
        ENTRY << self.log_size
    }
}

impl<P: Port> Driver<P> {
    /// Makes an event queue for `events` and arms it.
    pub fn create_eq(
        &mut self,
        uar: u32,
        vector: u16,
        log_size: u8,
        events: &[EventType],
    ) -> Result<u8> {
        self.create_eq_of(uar, vector, log_size, events, 0)
    }

    /// Makes an event queue for completions, which belongs to user context `uid`, and arms it.
    pub fn create_completion_eq(
        &mut self,
        uar: u32,
        vector: u16,
        log_size: u8,
        uid: u16,
    ) -> Result<u8> {
        self.create_eq_of(uar, vector, log_size, &[], uid)
    }

    fn create_eq_of(
        &mut self,
        uar: u32,
        vector: u16,
        log_size: u8,
        events: &[EventType],
        uid: u16,
    ) -> Result<u8> {
        let bytes = ENTRY << log_size;
        let at = self.memory.alloc(bytes)?;
        // Every entry is the card's to begin with: the owner bit of the pass before the first.
        for entry in 0..1u64 << log_size {
            self.port.memory().write(at + entry * ENTRY + OWNER_AT, &[1])?;
        }
        let pages = bytes.div_ceil(PAGE);
        let mut input = vec![0; CreateEqIn::SIZE + 8 * pages as usize];
        let mut view = CreateEqIn(&mut input[..]);
        view.set_uid(uid);
        let mut mask = [0u64; 4];
        for event in events {
            mask[usize::from(event.0) / 64] |= 1 << (event.0 % 64);
        }
        view.set_event_bitmask(&mask);
        for page in 0..pages {
            view.set_pas(page as usize, at + page * PAGE);
        }
        let mut eqc = view.eq_context_entry_mut();
        eqc.set_log_eq_size(log_size);
        eqc.set_uar_page(uar);
        eqc.set_intr(vector);
        let reply = self.exec(Opcode::CREATE_EQ, 0, input, CreateEqOut::SIZE)?;
        let eqn = CreateEqOut(&reply[..]).eq_number();
        if self.eqs.iter().any(|eq| eq.eqn == eqn) {
            return broken(format!("event queue number {eqn} is given out twice"));
        }
        let eq = EventQueue { eqn, vector, uar, log_size, at, consumer: 0 };
        eq.arm(&mut self.port)?;
        self.eqs.push(eq);
        Ok(eqn)
    }

    /// Destroys an event queue. Events that wait in it are taken first.
    pub fn destroy_eq(&mut self, eqn: u8) -> Result<()> {
        self.service()?;
        let mut input = [0; DestroyEqIn::SIZE];
        DestroyEqIn(&mut input[..]).set_eq_number(eqn);
        self.exec(Opcode::DESTROY_EQ, 0, input, DestroyEqOut::SIZE)?;
        if let Some(index) = self.eqs.iter().position(|eq| eq.eqn == eqn) {
            let eq = self.eqs.remove(index);
            self.memory.free(eq.at, eq.bytes());
        }
        Ok(())
    }
}

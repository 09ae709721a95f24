//! Event queues: rings in guest memory that the device writes and the driver reads.

use dma::{Bus, Table};
use layouts::{CreateEqIn, CreateEqOut, DestroyEqIn, Eqe, EventType, QueryEqIn, QueryEqOut};
use probe::{Action, Held, Probe, Until, ask};

use crate::error::{self, CmdError};
use crate::ring::PageList;
use crate::{Cx, Firmware};

/// Size of an event queue entry (struct mlx5_eqe), as a power of two.
const LOG_EQE: u32 = 6;
const EQE: usize = 1 << LOG_EQE;
/// Most events that faults keep back; what comes on top is not kept back.
const MOST_LATE: usize = 4096;
/// Producer and consumer indices are 24 bits wide.
const INDEX_MASK: u32 = 0xff_ffff;
/// Owner bit, in the last byte of an entry.
const OWNER_AT: usize = 0x3f;

/// One event queue.
#[derive(Debug)]
pub struct Eq {
    ring: PageList,
    log_size: u8,
    /// MSI-X vector.
    pub vector: u16,
    /// UAR page whose doorbells are this queue's.
    pub uar: u32,
    event_mask: [u64; 4],
    producer: u32,
    consumer: u32,
    armed: bool,
}

impl Eq {
    fn wants(&self, event: EventType) -> bool {
        let bit = event.0 as usize;
        self.event_mask.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    /// The owner byte of the next entry.
    fn owner(&self) -> u8 {
        (self.producer >> self.log_size & 1) as u8
    }

    fn pending(&self) -> u32 {
        self.producer.wrapping_sub(self.consumer) & INDEX_MASK
    }
}

/// All event queues.
#[derive(Debug)]
pub struct Eqs {
    table: Table<Eq>,
    /// Events lost because a queue was full or out of reach.
    pub lost: u64,
    /// What faults keep back.
    late: Held<Late>,
}

/// What faults keep back.
#[derive(Debug)]
enum Late {
    /// An event, and its queue.
    Event(u32, [u8; EQE]),
    /// The owner byte of an entry that was written without, and where it is.
    Owner(u64, u8),
}

/// How an entry is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// As it should be.
    Plain,
    /// Although the queue is full.
    Over,
    /// Its owner byte is right so many ns later.
    OwnerLate(u64),
}

impl Eqs {
    /// No queues; at most `limit` of them.
    pub fn new(limit: u32) -> Self {
        // EQ numbers are 8 bits wide.
        Self { table: Table::new(1, limit.min(255)), lost: 0, late: Held::new(MOST_LATE) }
    }

    /// The queue with this number.
    pub fn get(&self, eqn: u32) -> Option<&Eq> {
        self.table.get(eqn)
    }

    /// Notes that a completion queue reports to `eqn`; false if there is no such queue.
    #[must_use]
    pub fn hold(&mut self, eqn: u32) -> bool {
        self.table.hold(eqn)
    }

    /// Takes such a note back.
    pub fn release(&mut self, eqn: u32) {
        self.table.release(eqn);
    }

    /// How many queues exist.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no queue exists.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Writes one event to queue `eqn`; `fill` writes its data. A queue that is full loses it.
    pub fn post(
        &mut self,
        cx: (&dyn Bus, &Probe),
        eqn: u32,
        event: EventType,
        sub_type: u8,
        fill: impl FnOnce(&mut Eqe<&mut [u8]>),
    ) {
        let Some(eq) = self.table.get(eqn) else { return };
        let mut bytes = [0; EQE];
        let mut eqe = Eqe(&mut bytes[..]);
        eqe.set_type(event.0);
        eqe.set_sub_type(sub_type);
        fill(&mut eqe);
        bytes[OWNER_AT] = eq.owner();
        let probe = cx.1;
        let action = ask!(probe, Event, (&Eqe::INFO, &bytes), eqn = eqn, index = eq.producer);
        match action {
            None => {}
            Some(Action::Lose) => return,
            Some(Action::Set(patches)) => probe::apply(&patches, &mut bytes),
            Some(Action::Twice) => self.write(cx, eqn, bytes, How::Plain),
            Some(Action::Overwrite) => return self.write(cx, eqn, bytes, How::Over),
            Some(Action::OwnerLate(ns)) => return self.write(cx, eqn, bytes, How::OwnerLate(ns)),
            Some(action) => {
                if let Some(until) = Until::asked(&action, probe.now())
                    && self.late.push(until, Late::Event(eqn, bytes)).is_ok()
                {
                    return;
                }
            }
        }
        self.write(cx, eqn, bytes, How::Plain);
    }

    /// Writes an entry.
    fn write(
        &mut self,
        (bus, probe): (&dyn Bus, &Probe),
        eqn: u32,
        mut bytes: [u8; EQE],
        how: How,
    ) {
        let Some(eq) = self.table.get_mut(eqn) else { return };
        let event = EventType(Eqe(&bytes[..]).r#type());
        if eq.pending() >= 1 << eq.log_size && how != How::Over {
            self.lost += 1;
            probe.mistake("event queue overflow", || {
                format!("EQ {eqn} is full ({} entries): {event} event lost", 1u32 << eq.log_size)
            });
            return;
        }
        let slots = (1u64 << eq.log_size) - 1;
        let owner = eq.owner();
        bytes[OWNER_AT] = if let How::OwnerLate(_) = how { owner ^ 1 } else { owner };
        let written = eq.ring.entry(u64::from(eq.producer) & slots, LOG_EQE).and_then(|at| {
            // The owner bit last: it hands the entry to the driver (mlx5_eq_async_int and
            // next_eqe_sw read the rest only after it).
            bus.write(at, &bytes[..OWNER_AT]).ok()?;
            bus.write(at + OWNER_AT as u64, &bytes[OWNER_AT..]).ok()?;
            if let How::OwnerLate(ns) = how {
                let until = Until::Time(probe.now().saturating_add(ns));
                let late = Late::Owner(at + OWNER_AT as u64, owner);
                // Without room for it the entry never becomes right.
                let _ = self.late.push(until, late);
            }
            Some(())
        });
        if written.is_none() {
            self.lost += 1;
            probe.mistake("event queue out of reach", || {
                format!("EQ {eqn}: its buffer is not mapped: {event} event lost")
            });
            return;
        }
        eq.producer = eq.producer.wrapping_add(1) & INDEX_MASK;
        if eq.armed {
            eq.armed = false;
            bus.interrupt(eq.vector);
        }
    }

    /// Writes events that faults have kept back and whose time has come.
    pub fn go_on(&mut self, cx: (&dyn Bus, &Probe)) {
        while let Some(late) = self.late.due(cx.1.now()) {
            match late {
                Late::Event(eqn, bytes) => self.write(cx, eqn, bytes, How::Plain),
                // The queue may be gone: then this is what a card does that does not know it.
                Late::Owner(at, owner) => drop(cx.0.write(at, &[owner])),
            }
        }
    }

    /// When the next of them is written, in ns of the probe's clock.
    pub fn deadline(&self) -> Option<u64> {
        self.late.next()
    }

    /// What a fault rule keeps back goes on. Returns how many events that are.
    pub fn release_late(&mut self, rule: u32, now: u64) -> u64 {
        self.late.release(rule, now)
    }

    /// Writes one event to the queue that was made for events of its type, if there is one.
    pub fn post_async(
        &mut self,
        cx: (&dyn Bus, &Probe),
        event: EventType,
        sub_type: u8,
        fill: impl FnOnce(&mut Eqe<&mut [u8]>),
    ) -> bool {
        let Some((eqn, _)) = self.table.iter().find(|(_, eq)| eq.wants(event)) else {
            return false;
        };
        self.post(cx, eqn, event, sub_type, fill);
        true
    }

    /// Whether some queue was made for events of this type.
    pub fn wanted(&self, event: EventType) -> bool {
        self.table.iter().any(|(_, eq)| eq.wants(event))
    }

    /// A doorbell: the driver has consumed entries up to `consumer`, and with `arm` wants an
    /// interrupt for what comes after. Entries it has not seen yet interrupt at once.
    pub fn doorbell(
        &mut self,
        cx: (&dyn Bus, &Probe),
        uar: u32,
        eqn: u32,
        consumer: u32,
        arm: bool,
    ) {
        let (bus, probe) = cx;
        let Some(eq) = self.table.get_mut(eqn).filter(|eq| eq.uar == uar) else {
            probe.mistake("event queue doorbell", || {
                format!("UAR {uar} rings for EQ {eqn}, which is not one of its own")
            });
            return;
        };
        let ahead = eq.producer.wrapping_sub(consumer) & INDEX_MASK;
        if ahead > eq.pending() {
            probe.mistake("event queue consumer index", || {
                format!(
                    "EQ {eqn}: consumer index {consumer:#x} is not between {:#x} and {:#x}",
                    eq.consumer, eq.producer
                )
            });
            return;
        }
        eq.consumer = consumer & INDEX_MASK;
        eq.armed = arm;
        if arm && eq.pending() > 0 {
            eq.armed = false;
            bus.interrupt(eq.vector);
        }
    }

    /// Forgets every queue.
    pub fn reset(&mut self) {
        let Self { table, lost, late } = self;
        table.clear();
        late.clear();
        *lost = 0;
    }
}

/// CREATE_EQ.
pub fn create(
    fw: &mut Firmware,
    _cx: &Cx,
    input: CreateEqIn<&[u8]>,
    mut out: CreateEqOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let eqc = input.eq_context_entry();
    let log_size = eqc.log_eq_size();
    if log_size > fw.limits.log_max_eq_size {
        return Err(error::BAD_QUEUE_SIZE.with(format!("2^{log_size} entries")));
    }
    if eqc.intr() >= u16::from(fw.limits.vectors) {
        return Err(error::BAD_VECTOR.with(format!("vector {}", eqc.intr())));
    }
    let uar = eqc.uar_page();
    let ring = PageList::new(
        &fw.page_budget,
        crate::tail(input.0, CreateEqIn::SIZE),
        eqc.log_page_size(),
        crate::ring::page_offset(eqc.page_offset(), eqc.log_page_size()),
        1 << (u32::from(log_size) + LOG_EQE),
    )?;
    let event_mask = input.event_bitmask();
    if !fw.uars.hold(uar) {
        return Err(error::NO_SUCH_UAR.with(format!("UAR {uar}")));
    }
    let eq = Eq {
        ring,
        log_size,
        vector: eqc.intr(),
        uar,
        event_mask,
        producer: 0,
        consumer: 0,
        armed: false,
    };
    match fw.eqs.table.insert(eq) {
        Ok(eqn) => {
            out.set_eq_number(eqn as u8);
            Ok(())
        }
        Err(full) => {
            fw.uars.release(uar);
            Err(error::TABLE_FULL.with(full.to_string()))
        }
    }
}

/// DESTROY_EQ.
pub fn destroy(fw: &mut Firmware, _cx: &Cx, input: DestroyEqIn<&[u8]>) -> Result<(), CmdError> {
    let eq = fw
        .eqs
        .table
        .remove(input.eq_number().into())
        .map_err(|e| error::removal(e, &error::NO_SUCH_EQ))?;
    fw.uars.release(eq.uar);
    Ok(())
}

/// QUERY_EQ.
pub fn query(
    fw: &mut Firmware,
    _cx: &Cx,
    input: QueryEqIn<&[u8]>,
    mut out: QueryEqOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let eqn = u32::from(input.eq_number());
    let eq = fw.eqs.get(eqn).ok_or_else(|| error::NO_SUCH_EQ.with(format!("EQ {eqn}")))?;
    let mut eqc = out.eq_context_entry_mut();
    // ST: 9 armed, 0xa fired (PRM, event queue context).
    eqc.set_st(if eq.armed { 9 } else { 0xa });
    eqc.set_log_eq_size(eq.log_size);
    eqc.set_uar_page(eq.uar);
    eqc.set_intr(eq.vector);
    eqc.set_consumer_counter(eq.consumer);
    eqc.set_producer_counter(eq.producer);
    Ok(())
}

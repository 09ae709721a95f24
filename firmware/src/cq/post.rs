//! How entries get into a completion queue and how the driver is told of them.
//!
//! An entry's owner bit, the lowest bit of its last byte, is written after the rest: it hands the
//! entry over (`next_cqe_sw` and `mlx5_poll_one` read the rest only after it). It alternates with
//! every lap. The driver says how far it has read in the doorbell record, which is looked at when
//! the queue seems full, and whenever it arms.
//!
//! An arm request is honoured whatever its sequence number: the number lets a device drop a
//! request that it has answered already, and answering it again costs one event.

use dma::Bus;
use layouts::{CqDoorbell, CqDoorbellRecord, Cqe64, CqeOpcode, ErrCqe, EventType};
use probe::{Action, Counter, Point, Probe, Site, Until, Value};

use super::{Armed, Cq, Health};
use crate::Firmware;
use crate::error::{self, CmdError};
use crate::ring::PageList;

/// Producer and consumer indices are 24 bits wide.
const INDEX_MASK: u32 = 0xff_ffff;
/// Bytes of an entry proper: the last of one of 128.
pub(super) const ENTRY: usize = Cqe64::SIZE;
/// The owner bit in the last byte of an entry.
const OWNER: u8 = 1;
/// Values of an entry's `format` (MLX5_INLINE_DATA32_SEG, MLX5_INLINE_DATA64_SEG).
const DATA_32: u8 = 1;
const DATA_64: u8 = 2;
/// Syndromes of a CQ_ERROR event.
const OVERRUN: u8 = 1;
const ACCESS: u8 = 2;

/// An entry could not be written, because its queue is in error (now, or since long).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

/// What is to be done for a queue that is armed.
enum Due {
    Nothing,
    Event,
    At(u64),
}

impl Cq {
    fn pending(&self) -> u32 {
        self.producer.wrapping_sub(self.consumer) & INDEX_MASK
    }

    /// Takes over a consumer index, if it can be one.
    fn consumed(&mut self, to: u32) -> bool {
        let ahead = self.producer.wrapping_sub(to) & INDEX_MASK;
        let possible = ahead <= self.pending();
        if possible {
            self.consumer = to & INDEX_MASK;
            let since = |told| self.producer.wrapping_sub(told) & INDEX_MASK;
            self.told = self.told.filter(|&told| since(told) < ahead);
        }
        possible
    }

    fn is_full(&mut self, bus: &dyn Bus) -> bool {
        if self.pending() >= self.size() {
            self.look_at_record(bus);
        }
        self.pending() >= self.size()
    }

    /// Learns from the doorbell record how far the driver has read.
    fn look_at_record(&mut self, bus: &dyn Bus) {
        let mut record = [0; CqDoorbellRecord::SIZE];
        if bus.read(self.doorbell_record, &mut record).is_ok() {
            self.consumed(CqDoorbellRecord(record).ci());
        }
    }

    /// Writes an entry at the producer index, and the data that it carries: into the first half of
    /// one of 128 bytes, or where one of 64 bytes says nothing that matters to who wants data.
    fn write(&self, bus: &dyn Bus, entry: &mut Cqe64<[u8; ENTRY]>, data: &[u8]) -> Option<()> {
        let slot = u64::from(self.producer & (self.size() - 1));
        let begin = slot << self.log_stride;
        let first_half = self.entry_size() - ENTRY;
        // The halves of an entry of 128 bytes may be in different pages.
        let (at, _) = self.ring.locate(begin + first_half as u64)?;
        if !data.is_empty() {
            if first_half == 0 {
                entry.set_format(DATA_32);
                entry.0.get_mut(..data.len()).filter(|_| data.len() <= 32)?.copy_from_slice(data);
            } else {
                entry.set_format(DATA_64);
                let (half, _) = self.ring.locate(begin)?;
                bus.write(half, data.get(..ENTRY.min(data.len()))?).ok()?;
            }
        }
        entry.set_owner(self.producer >> self.log_size & 1 == 1);
        let (last, body) = entry.0.split_last()?;
        bus.write(at, body).ok()?;
        bus.write(at.checked_add(body.len() as u64)?, &[*last]).ok()
    }

    /// The last byte of the entry at an index, and where it is.
    fn last_byte(&self, bus: &dyn Bus, index: u32) -> Option<(u64, u8)> {
        let end = (u64::from(index & (self.size() - 1)) + 1) << self.log_stride;
        let (at, _) = self.ring.locate(end - 1)?;
        let mut byte = [0];
        bus.read(at, &mut byte).ok()?;
        Some((at, byte[0]))
    }

    /// Ends the old buffer with an entry that says so, and goes on in the new one.
    pub(super) fn switch_buffer(
        &mut self,
        bus: &dyn Bus,
        ring: PageList,
        log_size: u8,
    ) -> Result<(), CmdError> {
        self.look_at_record(bus);
        // The entries that the driver has not read and the one that ends them are copied over.
        if self.pending() >= self.size().min(1 << log_size) {
            return Err(error::CQES_OUTSTANDING.with(format!(
                "{} of {} entries, 2^{log_size} wanted",
                self.pending(),
                self.size()
            )));
        }
        let mut entry = Cqe64([0; ENTRY]);
        entry.set_opcode(CqeOpcode::RESIZE_CQ.0);
        self.write(bus, &mut entry, &[])
            .ok_or_else(|| error::BAD_PAGE_LIST.with("the old buffer is not mapped"))?;
        self.producer = self.producer.wrapping_add(1) & INDEX_MASK;
        self.ring = ring;
        self.log_size = log_size;
        Ok(())
    }

    /// What an armed queue needs, after an entry (`new`) or an arm request.
    fn due(&mut self, now: u64, new: bool) -> Due {
        match self.armed {
            Armed::Fired => Due::Nothing,
            Armed::Solicited => {
                let since = self.producer.wrapping_sub(self.armed_at) & INDEX_MASK;
                let seen = self.last_solicited.is_some_and(|at| {
                    (1..=since).contains(&(self.producer.wrapping_sub(at) & INDEX_MASK))
                });
                if seen { Due::Event } else { Due::Nothing }
            }
            Armed::Next => {
                let waiting = self.producer.wrapping_sub(self.armed_at) & INDEX_MASK;
                let rule = self.moderation;
                if waiting == 0 {
                    return Due::Nothing;
                }
                if rule.period == 0 && rule.count == 0
                    || rule.count != 0 && waiting >= rule.count.into()
                {
                    return Due::Event;
                }
                if rule.period == 0 || (self.deadline.is_some() && !(rule.from_cqe && new)) {
                    return Due::Nothing;
                }
                let deadline = now.saturating_add(u64::from(rule.period) * 1000);
                self.deadline = Some(deadline);
                Due::At(deadline)
            }
        }
    }
}

/// Writes an entry to queue `cqn`, with up to 32 bytes of data, or 64 in an entry of 128 bytes. If
/// the driver is to be told of it only later, returns when:
/// then [`event_due`] wants to be called.
pub fn post(
    fw: &mut Firmware,
    cx: (&dyn Bus, &Probe),
    cqn: u32,
    entry: Cqe64<[u8; ENTRY]>,
    data: &[u8],
) -> Result<Option<u64>, Lost> {
    if cx.1.armed(Point::Completion) {
        return post_watched(fw, cx, cqn, entry, data);
    }
    put(fw, cx, cqn, entry, data)
}

/// The same while somebody wants to know, or a fault may hit the entry.
#[cold]
fn post_watched(
    fw: &mut Firmware,
    cx: (&dyn Bus, &Probe),
    cqn: u32,
    mut entry: Cqe64<[u8; ENTRY]>,
    data: &[u8],
) -> Result<Option<u64>, Lost> {
    let (bus, probe) = cx;
    let Some(cq) = fw.cqs.get_mut(cqn).filter(|cq| !cq.is_broken()) else { return Err(Lost) };
    let index = cq.producer;
    let action = probe.ask(&site(&entry, &values(cqn, index, &entry)));
    let until = action.as_ref().and_then(|action| Until::asked(action, probe.now()));
    if let Some(until) = until
        && fw.late_completions.entry(until, cqn, &entry, data)
    {
        return Ok(None);
    }
    match action {
        Some(Action::Lose) => return Ok(None),
        Some(Action::Set(patches)) => probe::apply(&patches, &mut entry.0),
        Some(Action::Twice) => {
            // Whether there is room shows with the second.
            let _ = put(fw, cx, cqn, entry, data);
        }
        Some(Action::OwnerLate(ns)) => {
            let put = put(fw, cx, cqn, entry, data);
            if put.is_ok()
                && let Some(cq) = fw.cqs.get(cqn)
                && let Some((at, byte)) = cq.last_byte(bus, index)
                && bus.write(at, &[byte ^ OWNER]).is_ok()
            {
                let until = Until::Time(probe.now().saturating_add(ns));
                fw.late_completions.owner(until, at, byte);
            }
            return put;
        }
        _ => {}
    }
    put(fw, cx, cqn, entry, data)
}

/// Writes an entry, whatever faults there are.
pub(super) fn put(
    fw: &mut Firmware,
    cx: (&dyn Bus, &Probe),
    cqn: u32,
    mut entry: Cqe64<[u8; ENTRY]>,
    data: &[u8],
) -> Result<Option<u64>, Lost> {
    let (bus, probe) = cx;
    let (now, ticks) = (fw.now, ticks(fw.now, fw.profile.device_frequency_khz));
    let Some(cq) = fw.cqs.get_mut(cqn) else { return Err(Lost) };
    if cq.is_broken() {
        return Err(Lost);
    }
    if !cq.ignore_overrun && cq.is_full(bus) {
        fail(fw, cx, cqn, Health::Overrun, OVERRUN);
        return Err(Lost);
    }
    let failed = is_error(&entry);
    if !failed {
        // An entry in error has its syndrome there.
        entry.set_timestamp(ticks);
    }
    if cq.write(bus, &mut entry, data).is_none() {
        fail(fw, cx, cqn, Health::WriteFailed, ACCESS);
        return Err(Lost);
    }
    probe.count(Counter::Cqe);
    if probe.armed(Point::Completion) {
        told(probe, cqn, cq.producer, &entry);
    }
    if entry.se() || failed {
        cq.last_solicited = Some(cq.producer);
    }
    cq.producer = cq.producer.wrapping_add(1) & INDEX_MASK;
    let due = cq.due(now, true);
    Ok(tell(fw, cx, cqn, due))
}

fn is_error(entry: &Cqe64<[u8; ENTRY]>) -> bool {
    matches!(CqeOpcode(entry.opcode()), CqeOpcode::REQ_ERR | CqeOpcode::RESP_ERR)
}

/// An entry was written.
#[cold]
fn told(probe: &Probe, cqn: u32, index: u32, entry: &Cqe64<[u8; ENTRY]>) {
    probe.tell(&site(entry, &values(cqn, index, entry)));
}

fn values(cqn: u32, index: u32, entry: &Cqe64<[u8; ENTRY]>) -> [(&'static str, Value); 3] {
    [("cqn", cqn.into()), ("index", index.into()), ("qpn", entry.qpn().into())]
}

fn site<'a>(entry: &'a Cqe64<[u8; ENTRY]>, values: &'a [(&'static str, Value)]) -> Site<'a> {
    let info = if is_error(entry) { &ErrCqe::INFO } else { &Cqe64::INFO };
    Site { point: Point::Completion, layout: Some(info), bytes: &entry.0, values }
}

/// The time as the device's internal timer shows it.
fn ticks(now: u64, khz: u32) -> u64 {
    let (ms, ns) = (now / 1_000_000, now % 1_000_000);
    ms.wrapping_mul(khz.into()).wrapping_add(ns * u64::from(khz) / 1_000_000)
}

/// A queue that takes no more entries: the driver is told once.
fn fail(fw: &mut Firmware, cx: (&dyn Bus, &Probe), cqn: u32, health: Health, syndrome: u8) {
    let Some(cq) = fw.cqs.get_mut(cqn) else { return };
    cq.health = health;
    cq.deadline = None;
    let size = cq.size();
    cx.1.mistake("completion queue error", || match health {
        Health::Overrun => format!("CQ {cqn:#x}: overrun ({size} entries)"),
        _ => format!("CQ {cqn:#x}: its buffer is not mapped"),
    });
    fw.eqs.post_async(cx, EventType::CQ_ERROR, 0, |eqe| {
        let mut data = eqe.cq_err_mut();
        data.set_cqn(cqn);
        data.set_syndrome(syndrome);
    });
}

/// Sends the event that is due, if one is.
fn tell(fw: &mut Firmware, cx: (&dyn Bus, &Probe), cqn: u32, due: Due) -> Option<u64> {
    match due {
        Due::Nothing => None,
        Due::At(deadline) => Some(deadline),
        Due::Event => {
            let cq = fw.cqs.get_mut(cqn)?;
            cq.armed = Armed::Fired;
            cq.deadline = None;
            cq.last_notified = cq.producer;
            cq.told = Some(cq.producer);
            let eqn = cq.eqn;
            fw.eqs.post(cx, eqn, EventType::COMP, 0, |eqe| eqe.comp_mut().set_cqn(cqn));
            None
        }
    }
}

/// A doorbell of UAR page `uar` for completion queues. Entries beyond the consumer index of which the
/// driver has not been told are told of at once. Returns when [`event_due`] wants to be called, as
/// [`post`] does.
pub fn arm(
    fw: &mut Firmware,
    cx: (&dyn Bus, &Probe),
    uar: u32,
    doorbell: CqDoorbell<&[u8]>,
) -> Option<u64> {
    let (cqn, consumer, now) = (doorbell.cqn(), doorbell.ci(), fw.now);
    let Some(cq) = fw.cqs.get_mut(cqn).filter(|cq| cq.uar == uar) else {
        cx.1.mistake("completion queue doorbell", || {
            format!("UAR {uar} rings for CQ {cqn:#x}, which is not one of its own")
        });
        return None;
    };
    if !cq.consumed(consumer) {
        let (from, to) = (cq.consumer, cq.producer);
        cx.1.mistake("completion queue consumer index", || {
            format!(
                "CQ {cqn:#x}: consumer index {consumer:#x} is not between {from:#x} and {to:#x}"
            )
        });
        return None;
    }
    cq.armed = if doorbell.solicited() { Armed::Solicited } else { Armed::Next };
    // Who arms before reading, as perftest does, would get a second event for the same entry.
    cq.armed_at = match cq.armed {
        Armed::Next => cq.told.unwrap_or(consumer),
        _ => consumer,
    };
    cq.deadline = None;
    let due = cq.due(now, false);
    tell(fw, cx, cqn, due)
}

/// The time has come that [`post`] or [`arm`] named: tells of the entries that have waited since,
/// unless something else has told of them.
pub fn event_due(fw: &mut Firmware, cx: (&dyn Bus, &Probe), cqn: u32) {
    let now = fw.now;
    let ripe = |cq: &Cq| cq.deadline.is_some_and(|deadline| deadline <= now);
    if fw.cqs.get(cqn).is_some_and(ripe) {
        tell(fw, cx, cqn, Due::Event);
    }
}

/// Tells of entries that wait for more to come, without waiting longer.
pub(super) fn flush_event(fw: &mut Firmware, cx: (&dyn Bus, &Probe), cqn: u32) {
    let waits = |cq: &Cq| {
        cq.armed == Armed::Next && cq.producer.wrapping_sub(cq.armed_at) & INDEX_MASK != 0
    };
    if fw.cqs.get(cqn).is_some_and(waits) {
        tell(fw, cx, cqn, Due::Event);
    }
}

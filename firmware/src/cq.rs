//! Completion queues: what one is, and the commands that make, show, change and destroy it. How
//! entries get into it and how the driver is told of them is in [`post`].

mod late;
mod post;

use layouts::{
    Cqc, Cqe64, CreateCqIn, CreateCqOut, DestroyCqIn, ModifyCqIn, QueryCqIn, QueryCqOut,
};

use crate::error::{self, CmdError};
use crate::ring::{PageList, doorbell_record, page_offset};
use crate::umem::Place;
use crate::{Cx, Firmware, tail, umem};

pub use late::{Late, go_on};
pub use post::{Lost, arm, event_due, post};

/// Largest queue, as a power of two of entries (log_max_cq_sz). Producer and consumer indices have
/// 24 bits, and twice the size must fit them, or the owner bit would not alternate.
pub const LOG_MAX_SIZE: u8 = 22;

/// Operation modifier of MODIFY_CQ: the queue gets another buffer.
const OP_MOD_RESIZE: u16 = 1;

/// Fields that MODIFY_CQ can change (MLX5_CQ_MODIFY_*), a bit each.
const MODIFY_PERIOD: u32 = 1 << 0;
const MODIFY_COUNT: u32 = 1 << 1;
const MODIFY_OVERRUN: u32 = 1 << 2;
const MODIFY_PERIOD_MODE: u32 = 1 << 4;

/// What a resize must name (MLX5_MODIFY_CQ_MASK_*): size, and with it where the new buffer is.
const RESIZE_SIZE: u32 = 1 << 0;

/// Values of the context's `status`: how the queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Good = 0x0,
    Overrun = 0x9,
    WriteFailed = 0xa,
}

/// Values of the context's `st`: what the driver waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Armed {
    /// Nothing: it has been told, or never asked.
    Fired = 0xa,
    /// The next entry.
    Next = 0x9,
    /// The next entry that is solicited or an error.
    Solicited = 0x6,
}

/// When a queue that is armed tells of new entries: at once, or when there are `count`, or `period`
/// after the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Moderation {
    /// Microseconds; 0: no timer.
    period: u16,
    /// Entries; 0: not counted.
    count: u16,
    /// The period begins anew with every entry.
    from_cqe: bool,
}

/// One completion queue.
#[derive(Debug)]
pub struct Cq {
    ring: PageList,
    log_size: u8,
    log_stride: u8,
    /// The UAR page whose doorbells are this queue's.
    pub uar: u32,
    /// The event queue that is told of completions.
    pub eqn: u32,
    doorbell_record: u64,
    ignore_overrun: bool,
    moderation: Moderation,
    health: Health,
    armed: Armed,
    /// The index from which on entries are told of: the consumer index that the driver armed with, or
    /// what it had been told of before.
    armed_at: u32,
    /// When the entries that are waiting are told of.
    deadline: Option<u64>,
    producer: u32,
    consumer: u32,
    /// Index of the last entry that is solicited or an error.
    last_solicited: Option<u32>,
    last_notified: u32,
    /// The same, while the driver has not read that far.
    told: Option<u32>,
    /// User context that it belongs to.
    pub uid: u16,
    /// The context as CREATE_CQ and MODIFY_CQ gave it, for QUERY_CQ.
    context: [u8; Cqc::SIZE],
}

impl Cq {
    /// How many entries it holds.
    pub fn size(&self) -> u32 {
        1 << self.log_size
    }

    /// Bytes of an entry.
    pub fn entry_size(&self) -> usize {
        1 << self.log_stride
    }

    /// Whether it takes no more entries.
    pub fn is_broken(&self) -> bool {
        self.health != Health::Good
    }
}

/// The buffer that a context and what follows it describe: a page list, or a place in user memory.
fn buffer(
    fw: &Firmware,
    uid: u16,
    cqc: &Cqc<&[u8]>,
    place: Option<Place>,
    pas: &[u8],
    log_stride: u8,
) -> Result<PageList, CmdError> {
    let log_size = cqc.log_cq_size();
    if log_size > LOG_MAX_SIZE {
        return Err(error::BAD_QUEUE_SIZE.with(format!("2^{log_size} entries")));
    }
    let size = 1 << (u32::from(log_size) + u32::from(log_stride));
    let ring = match place {
        Some(place) => umem::buffer(fw, uid, place, size, true)?,
        None => {
            let offset = page_offset(cqc.page_offset(), cqc.log_page_size());
            PageList::new(&fw.page_budget, pas, cqc.log_page_size(), offset, size)?
        }
    };
    // No half of an entry, which is all that is written at once, lies across two pages.
    if !ring.offset().is_multiple_of(Cqe64::SIZE as u32) {
        return Err(error::BAD_PAGE_LIST.with(format!("entries from byte {} on", ring.offset())));
    }
    Ok(ring)
}

impl Cq {
    /// User memory that it lies in.
    fn umems(&self) -> [Option<u32>; 2] {
        let context = Cqc(&self.context[..]);
        let record = context.dbr_umem_valid().then(|| context.dbr_umem_id());
        [self.ring.umem(), record]
    }
}

/// The size of an entry, as a power of two, that a context asks for.
fn log_stride(cqc: &Cqc<&[u8]>) -> Result<u8, CmdError> {
    match cqc.cqe_sz() {
        0 => Ok(6),
        // 2: 64 bytes of entry in 128. The entry is the second half in either case.
        1 | 2 => Ok(7),
        other => Err(error::BAD_VALUE.with(format!("cqe_sz {other}"))),
    }
}

/// CREATE_CQ.
pub fn create(
    fw: &mut Firmware,
    cx: &Cx,
    input: CreateCqIn<&[u8]>,
    mut out: CreateCqOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let cqc = input.cq_context();
    if cqc.cqe_comp_en() || cqc.cc() {
        return Err(error::BAD_ATTRIBUTE.with("compressed or collapsed entries"));
    }
    let log_stride = log_stride(&cqc)?;
    let place = Place { umem: input.cq_umem_id(), at: input.cq_umem_offset() };
    let place = input.cq_umem_valid().then_some(place);
    let pas = tail(input.0, CreateCqIn::SIZE);
    let ring = buffer(fw, cx.uid, &cqc, place, pas, log_stride)?;
    let doorbell_record = if cqc.dbr_umem_valid() {
        let place = Place { umem: cqc.dbr_umem_id(), at: cqc.dbr_addr() };
        umem::doorbell_record(fw, cx.uid, place)?
    } else {
        doorbell_record(cqc.dbr_addr())?
    };
    let (uar, eqn) = (cqc.uar_page(), cqc.c_eqn_or_apu_element());
    let mut context = [0; Cqc::SIZE];
    copy(&mut context, cqc.0);
    if !fw.eqs.hold(eqn) {
        return Err(error::NO_SUCH_EQ.with(format!("EQ {eqn}")));
    }
    let own = |owner| cx.uid == 0 || owner == cx.uid;
    if !(fw.uars.get(uar).is_some_and(|uar| own(uar.uid)) && fw.uars.hold(uar)) {
        fw.eqs.release(eqn);
        return Err(error::NO_SUCH_UAR.with(format!("UAR {uar}")));
    }
    let cq = Cq {
        ring,
        log_size: cqc.log_cq_size(),
        log_stride,
        uar,
        eqn,
        doorbell_record,
        ignore_overrun: cqc.oi(),
        moderation: Moderation {
            period: cqc.cq_period(),
            count: cqc.cq_max_count(),
            from_cqe: cqc.cq_period_mode() == 1,
        },
        health: Health::Good,
        armed: Armed::Fired,
        armed_at: 0,
        deadline: None,
        producer: 0,
        consumer: 0,
        last_solicited: None,
        last_notified: 0,
        told: None,
        uid: cx.uid,
        context,
    };
    let umems = cq.umems();
    match fw.cqs.insert(cq) {
        Ok(cqn) => {
            hold_umems(fw, umems);
            out.set_cqn(cqn);
            Ok(())
        }
        Err(full) => {
            fw.eqs.release(eqn);
            fw.uars.release(uar);
            Err(error::TABLE_FULL.with(full.to_string()))
        }
    }
}

/// Refers to user memory that was looked up just now.
fn hold_umems(fw: &mut Firmware, umems: [Option<u32>; 2]) {
    for umem in umems.into_iter().flatten() {
        let held = fw.umems.hold(umem);
        debug_assert!(held, "umem {umem:#x} is there");
    }
}

/// The queue with this number, if the command's user context may reach it.
fn find<'a>(fw: &'a mut Firmware, cx: &Cx, cqn: u32) -> Result<&'a mut Cq, CmdError> {
    let cq = fw.cqs.get_mut(cqn);
    error::owned(cq.as_ref().map(|cq| cq.uid), cx.uid, cqn, &error::NO_SUCH_CQ)?;
    cq.ok_or_else(|| error::NO_SUCH_CQ.with(format!("CQ {cqn:#x}")))
}

/// Copies what both have.
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

/// DESTROY_CQ.
pub fn destroy(fw: &mut Firmware, cx: &Cx, input: DestroyCqIn<&[u8]>) -> Result<(), CmdError> {
    find(fw, cx, input.cqn())?;
    let cq = fw.cqs.remove(input.cqn()).map_err(|e| error::removal(e, &error::NO_SUCH_CQ))?;
    fw.eqs.release(cq.eqn);
    fw.uars.release(cq.uar);
    cq.umems().into_iter().flatten().for_each(|umem| fw.umems.release(umem));
    Ok(())
}

/// QUERY_CQ.
pub fn query(
    fw: &mut Firmware,
    cx: &Cx,
    input: QueryCqIn<&[u8]>,
    mut out: QueryCqOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let cq = find(fw, cx, input.cqn())?;
    let mut cqc = out.cq_context_mut();
    copy(cqc.0, &cq.context);
    cqc.set_status(cq.health as u8);
    cqc.set_st(cq.armed as u8);
    cqc.set_producer_counter(cq.producer);
    cqc.set_consumer_counter(cq.consumer);
    cqc.set_last_notified_index(cq.last_notified);
    cqc.set_last_solicit_index(cq.last_solicited.unwrap_or(0));
    Ok(())
}

/// MODIFY_CQ: moderation, or with the operation modifier for it another buffer.
pub fn modify(fw: &mut Firmware, cx: &Cx, input: ModifyCqIn<&[u8]>) -> Result<(), CmdError> {
    find(fw, cx, input.cqn())?;
    match cx.op_mod {
        0 => moderate(fw, cx, &input),
        OP_MOD_RESIZE => resize(fw, cx, &input),
        other => Err(error::BAD_OP_MOD.with(format!("op_mod {other:#x}"))),
    }
}

fn moderate(fw: &mut Firmware, cx: &Cx, input: &ModifyCqIn<&[u8]>) -> Result<(), CmdError> {
    const KNOWN: u32 = MODIFY_PERIOD | MODIFY_COUNT | MODIFY_OVERRUN | MODIFY_PERIOD_MODE;
    let (cqn, new) = (input.cqn(), input.cq_context());
    let chosen = input.modify_field_select().modify_field_select();
    if chosen & !KNOWN != 0 {
        return Err(error::BAD_ATTRIBUTE.with(format!("field select {chosen:#x}")));
    }
    let Some(cq) = fw.cqs.get_mut(cqn) else { return Ok(()) };
    let mut context = Cqc(&mut cq.context[..]);
    if chosen & MODIFY_PERIOD != 0 {
        cq.moderation.period = new.cq_period();
        context.set_cq_period(new.cq_period());
    }
    if chosen & MODIFY_COUNT != 0 {
        cq.moderation.count = new.cq_max_count();
        context.set_cq_max_count(new.cq_max_count());
    }
    if chosen & MODIFY_OVERRUN != 0 {
        cq.ignore_overrun = new.oi();
        context.set_oi(new.oi());
    }
    if chosen & MODIFY_PERIOD_MODE != 0 {
        cq.moderation.from_cqe = new.cq_period_mode() == 1;
        context.set_cq_period_mode(new.cq_period_mode());
    }
    // What has been held back under the old rule is told of now rather than timed again.
    post::flush_event(fw, (cx.bus, cx.probe), cqn);
    Ok(())
}

fn resize(fw: &mut Firmware, cx: &Cx, input: &ModifyCqIn<&[u8]>) -> Result<(), CmdError> {
    let (cqn, new) = (input.cqn(), input.cq_context());
    let chosen = input.resize_field_select().resize_field_select();
    if chosen & RESIZE_SIZE == 0 {
        return Err(error::BAD_ATTRIBUTE.with(format!("resize field select {chosen:#x}")));
    }
    let stride = log_stride(&new)?;
    let place = Place { umem: input.cq_umem_id(), at: input.cq_umem_offset() };
    let place = input.cq_umem_valid().then_some(place);
    let ring = buffer(fw, cx.uid, &new, place, tail(input.0, ModifyCqIn::SIZE), stride)?;
    let Some(cq) = fw.cqs.get_mut(cqn) else { return Ok(()) };
    if stride != cq.log_stride {
        return Err(error::BAD_ATTRIBUTE.with("another entry size"));
    }
    let (old, next) = (cq.ring.umem(), ring.umem());
    cq.switch_buffer(cx.bus, ring, new.log_cq_size())?;
    let mut context = Cqc(&mut cq.context[..]);
    context.set_log_cq_size(new.log_cq_size());
    context.set_log_page_size(new.log_page_size());
    context.set_page_offset(new.page_offset());
    hold_umems(fw, [next, None]);
    old.into_iter().for_each(|umem| fw.umems.release(umem));
    Ok(())
}

//! Shared receive queues: basic ones (CREATE_SRQ where the interface step sequence is 0, CREATE_RMP
//! where it is 1) and those of XRC. All share one space of numbers.
//!
//! The queue is a list in guest memory: every WQE names the one that comes after it, the first is
//! number 0, and the doorbell record counts how many were ever posted.

use dma::Bus;
use layouts::{
    ArmRqIn, ArmXrcSrqIn, CreateRmpIn, CreateRmpOut, CreateSrqIn, CreateSrqOut, CreateXrcSrqIn,
    CreateXrcSrqOut, DestroyRmpIn, DestroySrqIn, DestroyXrcSrqIn, EventType, ModifyRmpIn,
    QueryRmpIn, QueryRmpOut, QuerySrqIn, QuerySrqOut, QueryXrcSrqIn, QueryXrcSrqOut,
};
use probe::Probe;

use crate::cq::copy;
use crate::error::{self, CmdError};
use crate::references::{self, Reference};
use crate::ring::{PageList, doorbell_record, page_offset};
use crate::umem::Place;
use crate::{Cx, Firmware, tail, umem};

/// Largest queue, as a power of two of WQEs (log_max_srq_sz).
pub const LOG_MAX_SIZE: u8 = 15;
/// Bytes of a WQE, as a power of two: the segment that names the next and one data segment at
/// least, and at most what the drivers round the largest (max_wqe_sz_rq and that segment) up to.
const LOG_MIN_STRIDE: u8 = 5;
/// The largest WQE, the same way.
pub const LOG_MAX_STRIDE: u8 = 10;
/// log_rq_stride 0 is a WQE of 16 bytes.
const LOG_STRIDE_UNIT: u8 = 4;
/// Bytes of a context of any kind.
const CONTEXT: usize = 0x40;
/// States of an RMP (MLX5_RMPC_STATE_*).
const RMP_READY: u8 = 1;
const RMP_ERROR: u8 = 3;

/// Which command made a queue; the others do not know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// CREATE_SRQ.
    Basic,
    /// CREATE_XRC_SRQ.
    Xrc,
    /// CREATE_RMP.
    Rmp,
}

/// One shared receive queue.
#[derive(Debug)]
pub struct Srq {
    /// Which command made it.
    pub kind: Kind,
    /// The list of WQEs.
    pub buffer: PageList,
    /// Size in WQEs, as a power of two.
    pub log_size: u8,
    /// Bytes of a WQE, as a power of two.
    pub log_stride: u8,
    /// Protection domain of what its WQEs name.
    pub pd: u32,
    /// Completion queue of what it receives, for an XRC SRQ.
    pub cqn: Option<u32>,
    /// XRC domain, for an XRC SRQ.
    pub xrcd: Option<u32>,
    /// What completions name beside its number.
    pub user_index: u32,
    /// Counter of posted WQEs, in guest memory.
    pub doorbell_record: u64,
    /// User memory that it is in.
    record_umem: Option<u32>,
    /// The WQE that is used next.
    pub head: u16,
    /// How many WQEs were used.
    pub used: u16,
    /// The list can't be followed any more.
    pub broken: bool,
    /// The driver is told when fewer WQEs than this are left; 0: never.
    limit: u16,
    /// User context that it belongs to.
    pub uid: u16,
    /// The context as the command gave it: [`Srqc`], [`XrcSrqc`] or [`Rmpc`].
    context: [u8; CONTEXT],
}

impl Srq {
    /// How many WQEs are posted and not used, by the doorbell record. None: that can't be.
    pub fn available(&self, bus: &dyn Bus) -> Option<u16> {
        // 16 bits of the counter count.
        let posted = bus.read_be32(self.doorbell_record).ok()? as u16;
        let left = posted.wrapping_sub(self.used);
        (u32::from(left) <= 1 << self.log_size).then_some(left)
    }

    /// Reads the WQE with this number.
    pub fn read(&self, bus: &dyn Bus, index: u16, to: &mut [u8]) -> Option<()> {
        self.buffer.read(bus, u64::from(index) << self.log_stride, to)
    }

    fn references(&self) -> [Option<Reference>; 5] {
        [
            Some(Reference::Pd(self.pd)),
            self.cqn.map(Reference::Cq),
            self.xrcd.map(Reference::Xrcd),
            self.buffer.umem().map(Reference::Umem),
            self.record_umem.map(Reference::Umem),
        ]
    }
}

/// What all kinds of context have.
struct Parts<'a> {
    kind: Kind,
    log_size: u8,
    log_stride: u8,
    page_offset: u8,
    log_page_size: u8,
    pas: &'a [u8],
    /// Where the queue lies in user memory, instead of the pages.
    place: Option<Place>,
    pd: u32,
    cqn: Option<u32>,
    xrcd: Option<u32>,
    user_index: u32,
    doorbell_record: u64,
    /// User memory in which `doorbell_record` is an offset.
    record_umem: Option<u32>,
    limit: u16,
    context: &'a [u8],
}

fn make(fw: &mut Firmware, cx: &Cx, parts: &Parts) -> Result<u32, CmdError> {
    let &Parts {
        kind, log_size, log_stride, pd, cqn, xrcd, user_index, record_umem, limit, ..
    } = parts;
    if log_size > LOG_MAX_SIZE || !(LOG_MIN_STRIDE..=LOG_MAX_STRIDE).contains(&log_stride) {
        return Err(
            error::BAD_QUEUE_SIZE.with(format!("2^{log_size} receives of 2^{log_stride} bytes"))
        );
    }
    judge_limit(limit, log_size)?;
    let size = 1 << (log_size + log_stride);
    let buffer = match parts.place {
        // The device only reads it.
        Some(place) => umem::buffer(fw, cx.uid, place, size, false)?,
        None => {
            let offset = page_offset(parts.page_offset, parts.log_page_size);
            PageList::new(&fw.page_budget, parts.pas, parts.log_page_size, offset, size)?
        }
    };
    let doorbell_record = match record_umem {
        Some(umem) => umem::doorbell_record(fw, cx.uid, Place { umem, at: parts.doorbell_record })?,
        None => doorbell_record(parts.doorbell_record)?,
    };
    let mut context = [0; CONTEXT];
    copy(&mut context, parts.context);
    let srq = Srq {
        kind,
        buffer,
        log_size,
        log_stride,
        pd,
        cqn,
        xrcd,
        user_index,
        doorbell_record,
        record_umem,
        head: 0,
        used: 0,
        broken: false,
        limit,
        uid: cx.uid,
        context,
    };
    let needs = srq.references();
    references::hold(fw, cx.uid, &needs)?;
    fw.srqs.insert(srq).map_err(|full| {
        references::release(fw, &needs);
        error::TABLE_FULL.with(full.to_string())
    })
}

/// The queue with this number, if it was made by this kind's command, and the command's user
/// context may reach it.
fn find<'a>(fw: &'a mut Firmware, cx: &Cx, kind: Kind, srqn: u32) -> Result<&'a mut Srq, CmdError> {
    let srq = fw.srqs.get_mut(srqn).filter(|srq| srq.kind == kind);
    error::owned(srq.as_ref().map(|srq| srq.uid), cx.uid, srqn, &error::NO_SUCH_SRQ)?;
    srq.ok_or_else(|| error::NO_SUCH_SRQ.with(format!("{kind:?} {srqn:#x}")))
}

fn remove(fw: &mut Firmware, cx: &Cx, kind: Kind, srqn: u32) -> Result<(), CmdError> {
    find(fw, cx, kind, srqn)?;
    let srq = fw.srqs.remove(srqn).map_err(|e| error::removal(e, &error::NO_SUCH_SRQ))?;
    references::release(fw, &srq.references());
    Ok(())
}

fn judge_limit(limit: u16, log_size: u8) -> Result<(), CmdError> {
    if u32::from(limit) > 1 << log_size {
        return Err(error::BAD_VALUE.with(format!("limit {limit} of 2^{log_size} WQEs")));
    }
    Ok(())
}

fn set_limit(
    fw: &mut Firmware,
    cx: &Cx,
    kind: Kind,
    srqn: u32,
    limit: u16,
) -> Result<(), CmdError> {
    let srq = find(fw, cx, kind, srqn)?;
    judge_limit(limit, srq.log_size)?;
    srq.limit = limit;
    check_limit(fw, (cx.bus, cx.probe), srqn);
    Ok(())
}

/// Tells the driver, once, when fewer WQEs are left than it wants to be told of.
pub fn check_limit(fw: &mut Firmware, cx: (&dyn Bus, &Probe), srqn: u32) {
    let Some(srq) = fw.srqs.get_mut(srqn).filter(|srq| srq.limit != 0) else { return };
    if srq.available(cx.0).is_some_and(|left| left < srq.limit) {
        srq.limit = 0;
        fw.eqs.post_async(cx, EventType::SRQ_RQ_LIMIT, 0, |eqe| {
            eqe.qp_srq_mut().set_qp_srq_n(srqn);
        });
    }
}

/// A queue whose list can't be followed: the driver is told once.
pub fn break_down(fw: &mut Firmware, cx: (&dyn Bus, &Probe), srqn: u32, why: &'static str) {
    let Some(srq) = fw.srqs.get_mut(srqn).filter(|srq| !srq.broken) else { return };
    srq.broken = true;
    cx.1.mistake("shared receive queue error", || format!("SRQ {srqn:#x}: {why}"));
    fw.eqs.post_async(cx, EventType::SRQ_CATAS_ERROR, 0, |eqe| {
        eqe.qp_srq_mut().set_qp_srq_n(srqn);
    });
}

/// CREATE_SRQ.
pub fn create(
    fw: &mut Firmware,
    cx: &Cx,
    input: CreateSrqIn<&[u8]>,
    mut out: CreateSrqOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let context = input.srq_context_entry();
    let parts = Parts {
        kind: Kind::Basic,
        log_size: context.log_srq_size(),
        log_stride: context.log_rq_stride() + LOG_STRIDE_UNIT,
        page_offset: context.page_offset(),
        log_page_size: context.log_page_size(),
        pas: tail(input.0, CreateSrqIn::SIZE),
        place: None,
        pd: context.pd(),
        cqn: None,
        xrcd: None,
        user_index: 0,
        doorbell_record: context.dbr_addr(),
        record_umem: None,
        limit: context.lwm(),
        context: context.0,
    };
    out.set_srqn(make(fw, cx, &parts)?);
    Ok(())
}

/// CREATE_XRC_SRQ.
pub fn create_xrc(
    fw: &mut Firmware,
    cx: &Cx,
    input: CreateXrcSrqIn<&[u8]>,
    mut out: CreateXrcSrqOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let context = input.xrc_srq_context_entry();
    let on_umem = context.dbr_umem_valid() || input.xrc_srq_umem_valid();
    if context.wq_signature() || context.basic_cyclic_rcv_wqe() || on_umem {
        return Err(error::BAD_ATTRIBUTE.with("signed WQEs, a cyclic queue, or a umem"));
    }
    let parts = Parts {
        kind: Kind::Xrc,
        log_size: context.log_xrc_srq_size(),
        log_stride: context.log_rq_stride() + LOG_STRIDE_UNIT,
        page_offset: context.page_offset(),
        log_page_size: context.log_page_size(),
        pas: tail(input.0, CreateXrcSrqIn::SIZE),
        place: None,
        pd: context.pd(),
        cqn: Some(context.cqn()),
        xrcd: Some(context.xrcd()),
        user_index: context.user_index(),
        doorbell_record: u64::from(context.db_record_addr_h()) << 32
            | u64::from(context.db_record_addr_l()) << 2,
        record_umem: None,
        limit: context.lwm(),
        context: context.0,
    };
    out.set_xrc_srqn(make(fw, cx, &parts)?);
    Ok(())
}

/// CREATE_RMP.
pub fn create_rmp(
    fw: &mut Firmware,
    cx: &Cx,
    input: CreateRmpIn<&[u8]>,
    mut out: CreateRmpOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let context = input.ctx();
    let wq = context.wq();
    let not_a_list = wq.wq_type() != 0 || context.basic_cyclic_rcv_wqe();
    if not_a_list || wq.wq_signature() {
        return Err(error::BAD_ATTRIBUTE.with("a queue that is not a list, or signed WQEs"));
    }
    let place = Place { umem: wq.wq_umem_id(), at: wq.wq_umem_offset() };
    let parts = Parts {
        kind: Kind::Rmp,
        log_size: wq.log_wq_sz(),
        log_stride: wq.log_wq_stride(),
        page_offset: wq.page_offset(),
        log_page_size: wq.log_wq_pg_sz(),
        pas: tail(input.0, CreateRmpIn::SIZE),
        place: wq.wq_umem_valid().then_some(place),
        pd: wq.pd(),
        cqn: None,
        xrcd: None,
        user_index: 0,
        doorbell_record: wq.dbr_addr(),
        record_umem: wq.dbr_umem_valid().then_some(wq.dbr_umem_id()),
        limit: wq.lwm(),
        context: wq.0,
    };
    out.set_rmpn(make(fw, cx, &parts)?);
    Ok(())
}

/// DESTROY_SRQ.
pub fn destroy(fw: &mut Firmware, cx: &Cx, input: DestroySrqIn<&[u8]>) -> Result<(), CmdError> {
    remove(fw, cx, Kind::Basic, input.srqn())
}

/// DESTROY_XRC_SRQ.
pub fn destroy_xrc(
    fw: &mut Firmware,
    cx: &Cx,
    input: DestroyXrcSrqIn<&[u8]>,
) -> Result<(), CmdError> {
    remove(fw, cx, Kind::Xrc, input.xrc_srqn())
}

/// DESTROY_RMP.
pub fn destroy_rmp(fw: &mut Firmware, cx: &Cx, input: DestroyRmpIn<&[u8]>) -> Result<(), CmdError> {
    remove(fw, cx, Kind::Rmp, input.rmpn())
}

/// QUERY_SRQ.
pub fn query(
    fw: &mut Firmware,
    cx: &Cx,
    input: QuerySrqIn<&[u8]>,
    mut out: QuerySrqOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let srq = find(fw, cx, Kind::Basic, input.srqn())?;
    let mut context = out.srq_context_entry_mut();
    copy(context.0, &srq.context);
    context.set_state(srq.broken.into());
    context.set_lwm(srq.limit);
    context.set_wqe_cnt(srq.available(cx.bus).unwrap_or(0));
    Ok(())
}

/// QUERY_XRC_SRQ.
pub fn query_xrc(
    fw: &mut Firmware,
    cx: &Cx,
    input: QueryXrcSrqIn<&[u8]>,
    mut out: QueryXrcSrqOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let srq = find(fw, cx, Kind::Xrc, input.xrc_srqn())?;
    let mut context = out.xrc_srq_context_entry_mut();
    copy(context.0, &srq.context);
    context.set_state(srq.broken.into());
    context.set_lwm(srq.limit);
    context.set_wqe_cnt(srq.available(cx.bus).unwrap_or(0));
    Ok(())
}

/// QUERY_RMP.
pub fn query_rmp(
    fw: &mut Firmware,
    cx: &Cx,
    input: QueryRmpIn<&[u8]>,
    mut out: QueryRmpOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let srq = find(fw, cx, Kind::Rmp, input.rmpn())?;
    let mut context = out.rmp_context_mut();
    context.set_state(if srq.broken { RMP_ERROR } else { RMP_READY });
    let mut wq = context.wq_mut();
    copy(wq.0, &srq.context);
    wq.set_lwm(srq.limit);
    wq.set_hw_counter(srq.used.into());
    Ok(())
}

/// ARM_RQ: the limit of a basic SRQ.
pub fn arm(fw: &mut Firmware, cx: &Cx, input: ArmRqIn<&[u8]>) -> Result<(), CmdError> {
    expect_op_mod(cx, 1)?;
    set_limit(fw, cx, Kind::Basic, input.srq_number(), input.lwm())
}

/// ARM_XRC_SRQ: the limit of an XRC SRQ.
pub fn arm_xrc(fw: &mut Firmware, cx: &Cx, input: ArmXrcSrqIn<&[u8]>) -> Result<(), CmdError> {
    expect_op_mod(cx, 1)?;
    set_limit(fw, cx, Kind::Xrc, input.xrc_srqn(), input.lwm())
}

fn expect_op_mod(cx: &Cx, op_mod: u16) -> Result<(), CmdError> {
    if cx.op_mod == op_mod {
        Ok(())
    } else {
        Err(error::BAD_OP_MOD.with(format!("op_mod {:#x}", cx.op_mod)))
    }
}

/// MODIFY_RMP: the limit.
pub fn modify_rmp(fw: &mut Firmware, cx: &Cx, input: ModifyRmpIn<&[u8]>) -> Result<(), CmdError> {
    let rmpn = input.rmpn();
    find(fw, cx, Kind::Rmp, rmpn)?;
    if input.rmp_state() != RMP_READY {
        return Err(error::BAD_VALUE.with(format!("RMP state {}", input.rmp_state())));
    }
    if input.bitmask().lwm() {
        set_limit(fw, cx, Kind::Rmp, rmpn, input.ctx().wq().lwm())?;
    }
    Ok(())
}

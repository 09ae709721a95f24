//! CREATE_QP: judging a context, and the references to other objects that it makes.

use layouts::{CreateQpIn, CreateQpOut, Qpc};

use super::connection::{Requester, Responder};
use super::{
    LOG_MAX_RECEIVE_WQE, LOG_MAX_SIZE, LOG_WQEBB, Qp, ReceiveQueue, Receives, SendQueue, Service,
    State,
};
use crate::cq::copy;
use crate::error::{self, CmdError};
use crate::references::{self, Reference};
use crate::ring::{PageList, doorbell_record, page_offset};
use crate::umem::Place;
use crate::{Cx, Firmware, tail, umem};

/// Values of the context's `rq_type`.
const RQ_OWN: u8 = 0;
const RQ_SHARED: u8 = 1;
const RQ_NONE: u8 = 3;
/// log_rq_stride 0 is a WQE of 16 bytes.
const LOG_STRIDE_UNIT: u8 = 4;

/// CREATE_QP.
pub fn create(
    fw: &mut Firmware,
    cx: &Cx,
    input: CreateQpIn<&[u8]>,
    mut out: CreateQpOut<&mut [u8]>,
) -> Result<(), CmdError> {
    if input.qpc_ext() {
        return Err(error::BAD_ATTRIBUTE.with("an extended context"));
    }
    let qp = judge(fw, cx.uid, &input)?;
    let needs = references(&qp);
    references::hold(fw, cx.uid, &needs)?;
    match fw.qps.insert(qp) {
        Ok(qpn) => {
            out.set_qpn(qpn);
            Ok(())
        }
        Err(full) => {
            references::release(fw, &needs);
            Err(error::TABLE_FULL.with(full.to_string()))
        }
    }
}

/// The queue pair that a context describes.
fn judge(fw: &Firmware, uid: u16, input: &CreateQpIn<&[u8]>) -> Result<Qp, CmdError> {
    let qpc = &input.qpc();
    let service = Service::from_code(qpc.st())
        .ok_or_else(|| error::BAD_ATTRIBUTE.with(format!("service type {:#x}", qpc.st())))?;
    // Users reach no other ports and no keys but their own.
    if uid != 0 && matches!(service, Service::RegUmr | Service::Qp0 | Service::Qp1) {
        return Err(error::BAD_ATTRIBUTE.with(format!("{} for a user", service.name())));
    }
    // What would change how WQEs are read, and is not offered.
    let refused = [
        ("signed WQEs", qpc.wq_signature()),
        ("stateless offloads", qpc.ulp_stateless_offload_mode() != 0),
        ("a cross channel", qpc.cd_master() || qpc.cd_slave_send() || qpc.cd_slave_receive()),
    ];
    if let Some((what, _)) = refused.iter().find(|(_, asked)| *asked) {
        return Err(error::BAD_ATTRIBUTE.with(*what));
    }
    let receives = receives(service, qpc)?;
    let receive_bytes = match receives {
        Receives::Own(rq) => 1 << (u32::from(rq.log_size) + u32::from(rq.log_stride)),
        _ => 0,
    };
    let sq = if qpc.no_sq() { None } else { Some(send_queue(qpc, receive_bytes)?) };
    let send_bytes = sq.map_or(0, |sq| 1u64 << (u32::from(sq.log_size) + LOG_WQEBB));
    let log_page_size = qpc.log_page_size();
    let buffer = match receive_bytes + send_bytes {
        0 => None,
        // The device only reads it.
        size if input.wq_umem_valid() => {
            let place = Place { umem: input.wq_umem_id(), at: input.wq_umem_offset() };
            Some(umem::buffer(fw, uid, place, size, false)?)
        }
        size => {
            let pas = tail(input.0, CreateQpIn::SIZE);
            let offset = page_offset(qpc.page_offset(), log_page_size);
            Some(PageList::new(&fw.page_budget, pas, log_page_size, offset, size)?)
        }
    };
    let doorbell_record = if qpc.dbr_umem_valid() {
        umem::doorbell_record(fw, uid, Place { umem: qpc.dbr_umem_id(), at: qpc.dbr_addr() })?
    } else {
        doorbell_record(qpc.dbr_addr())?
    };
    let mut context = [0; Qpc::SIZE];
    copy(&mut context, qpc.0);
    Ok(Qp {
        service,
        state: State::Reset,
        // The UMR queue pair's comes with RST2INIT.
        pd: Some(qpc.pd()).filter(|&pd| service != Service::RegUmr || pd != 0),
        // Who sends nothing needs none: an XRC target names none.
        uar: Some(qpc.uar_page()).filter(|&uar| sq.is_some() || uar != 0),
        sq,
        receives,
        receive_cqn: Some(qpc.cqn_rcv()).filter(|&cqn| receives != Receives::None || cqn != 0),
        xrcd: (service == Service::Xrc).then_some(qpc.xrcd()),
        user_index: qpc.user_index(),
        doorbell_record,
        buffer,
        queued: false,
        last_wqe_told: false,
        requester: Requester::default(),
        responder: Responder::default(),
        uid,
        context,
    })
}

fn receives(service: Service, qpc: &Qpc<&[u8]>) -> Result<Receives, CmdError> {
    match qpc.rq_type() {
        // The shared queue of an XRC message is named by its packets.
        RQ_OWN | RQ_SHARED | RQ_NONE if service == Service::Xrc => Ok(Receives::None),
        RQ_NONE => Ok(Receives::None),
        RQ_SHARED => Ok(Receives::Shared(qpc.srqn_rmpn_xrqn())),
        RQ_OWN => {
            let (log_size, log_stride) = (qpc.log_rq_size(), qpc.log_rq_stride() + LOG_STRIDE_UNIT);
            if log_size > LOG_MAX_SIZE || log_stride > LOG_MAX_RECEIVE_WQE {
                return Err(error::BAD_QUEUE_SIZE
                    .with(format!("2^{log_size} receives of 2^{log_stride} bytes")));
            }
            Ok(Receives::Own(ReceiveQueue { log_size, log_stride, next: 0 }))
        }
        other => Err(error::BAD_ATTRIBUTE.with(format!("rq_type {other}"))),
    }
}

fn send_queue(qpc: &Qpc<&[u8]>, offset: u64) -> Result<SendQueue, CmdError> {
    let log_size = qpc.log_sq_size();
    if log_size > LOG_MAX_SIZE {
        return Err(error::BAD_QUEUE_SIZE.with(format!("2^{log_size} basic blocks")));
    }
    let cqn = qpc.cqn_snd();
    Ok(SendQueue { log_size, offset, cqn, next: 0, posted: 0 })
}

type References = [Option<Reference>; 8];

fn references(qp: &Qp) -> References {
    let srq = match qp.receives {
        Receives::Shared(srqn) => Some(Reference::Srq(srqn)),
        _ => None,
    };
    let context = qp.context();
    [
        qp.pd.map(Reference::Pd),
        qp.uar.map(Reference::Uar),
        qp.sq.map(|sq| Reference::Cq(sq.cqn)),
        qp.receive_cqn.map(Reference::Cq),
        srq,
        qp.xrcd.map(Reference::Xrcd),
        qp.buffer.as_ref().and_then(PageList::umem).map(Reference::Umem),
        context.dbr_umem_valid().then(|| Reference::Umem(context.dbr_umem_id())),
    ]
}

/// Takes all of a queue pair's references back.
pub(super) fn release(fw: &mut Firmware, qp: &Qp) {
    references::release(fw, &references(qp));
}

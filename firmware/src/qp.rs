//! Queue pairs: what one is, and the commands that make, show and destroy it. The commands that
//! change its state are in [`state`]. What its queues hold is executed by the engine, which keeps
//! where it is in [`SendQueue`] and [`ReceiveQueue`].

pub mod connection;
mod create;
mod fields;
pub mod state;

use dma::Bus;
use layouts::{DestroyQpIn, QpDoorbellRecord, QpType, Qpc, QueryQpIn, QueryQpOut};

use crate::cq::copy;
use crate::error::{self, CmdError};
use crate::ring::PageList;
use crate::{Cx, Firmware};

use connection::{Requester, Responder};

pub use create::create;
pub use state::{
    State, init2init, init2rtr, rst2init, rtr2rts, rts2rts, sqd2rts, sqerr2rts, to_err, to_rst,
};

/// Largest queue, as a power of two of send WQE basic blocks or of receive WQEs (log_max_qp_sz).
pub const LOG_MAX_SIZE: u8 = 15;
/// Bytes of a send WQE basic block, as a power of two.
pub const LOG_WQEBB: u32 = 6;
/// Largest send WQE in bytes (max_wqe_sz_sq): what the six bits of a WQE's size can say, rounded up
/// to basic blocks.
pub const MAX_SEND_WQE: u16 = 1024;
/// Largest receive WQE in bytes (max_wqe_sz_rq), as a power of two.
pub const LOG_MAX_RECEIVE_WQE: u8 = 9;

/// Kind of service (the context's `st`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Extended reliable connection, initiator or target.
    Xrc,
    /// Queue pair 0: subnet management packets.
    Qp0,
    /// Queue pair 1: general services.
    Qp1,
    /// The driver's own queue for UMR work requests, which no packet leaves or reaches.
    RegUmr,
}

impl Service {
    /// The kind that a context's `st` names, if it is offered.
    pub fn from_code(st: u8) -> Option<Self> {
        Some(match QpType(st) {
            QpType::RC => Self::Rc,
            QpType::UC => Self::Uc,
            QpType::UD => Self::Ud,
            QpType::XRC => Self::Xrc,
            QpType::QP0 => Self::Qp0,
            QpType::QP1 => Self::Qp1,
            QpType::REG_UMR => Self::RegUmr,
            _ => return None,
        })
    }

    /// Whether a failed send stops the send queue only (SQER), or the queue pair (IBA 10.3.1.6:
    /// unreliable services go on receiving).
    pub fn survives_send_error(self) -> bool {
        match self {
            Self::Uc | Self::Ud | Self::Qp0 | Self::Qp1 => true,
            Self::Rc | Self::Xrc | Self::RegUmr => false,
        }
    }

    /// Whether it sends datagrams: each names its destination, none has an acknowledgement.
    pub fn is_datagram(self) -> bool {
        matches!(self, Self::Ud | Self::Qp0 | Self::Qp1)
    }

    /// Whether it sends messages to one peer, in numbered packets.
    pub fn is_connected(self) -> bool {
        matches!(self, Self::Rc | Self::Uc | Self::Xrc)
    }

    /// Whether its peer acknowledges what it receives.
    pub fn is_reliable(self) -> bool {
        matches!(self, Self::Rc | Self::Xrc)
    }

    /// Name for people and the control socket.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rc => "RC",
            Self::Uc => "UC",
            Self::Ud => "UD",
            Self::Xrc => "XRC",
            Self::Qp0 => "QP0",
            Self::Qp1 => "QP1",
            Self::RegUmr => "REG_UMR",
        }
    }
}

/// A send queue and how far it is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendQueue {
    /// Size in basic blocks, as a power of two.
    pub log_size: u8,
    /// Where it begins in the buffer.
    pub offset: u64,
    /// Completion queue.
    pub cqn: u32,
    /// Index of the basic block at which the next WQE begins.
    pub next: u16,
    /// Index behind the last basic block that was posted, when that was last looked at.
    pub posted: u16,
}

/// A queue pair's own receive queue and how far it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveQueue {
    /// Size in WQEs, as a power of two.
    pub log_size: u8,
    /// Bytes of a WQE, as a power of two.
    pub log_stride: u8,
    /// Index of the next WQE.
    pub next: u16,
}

/// Where a queue pair's receive WQEs come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receives {
    /// It receives nothing that needs one.
    None,
    /// Its own queue.
    Own(ReceiveQueue),
    /// A shared receive queue.
    Shared(u32),
}

/// One queue pair.
#[derive(Debug)]
pub struct Qp {
    /// Kind of service.
    pub service: Service,
    /// State.
    pub state: State,
    /// Protection domain; the UMR queue pair has none before RST2INIT.
    pub pd: Option<u32>,
    /// UAR page whose doorbells are this queue pair's.
    pub uar: Option<u32>,
    /// Send queue.
    pub sq: Option<SendQueue>,
    /// Receive queue.
    pub receives: Receives,
    /// Completion queue of receives.
    pub receive_cqn: Option<u32>,
    /// XRC domain.
    pub xrcd: Option<u32>,
    /// What completions name beside the queue pair's number.
    pub user_index: u32,
    /// Counters of posted work, in guest memory.
    pub doorbell_record: u64,
    /// Both queues: receives first.
    pub buffer: Option<PageList>,
    /// It waits for its turn in the engine.
    pub queued: bool,
    /// The driver has been told that it takes no more of its shared receive queue's WQEs.
    pub last_wqe_told: bool,
    /// What a connected service remembers of the requests that it sends.
    pub requester: Requester,
    /// What it remembers of those that it executes.
    pub responder: Responder,
    /// User context that it belongs to.
    pub uid: u16,
    /// The context as the commands gave it.
    context: [u8; Qpc::SIZE],
}

impl Qp {
    /// The context as the commands gave it.
    pub fn context(&self) -> Qpc<&[u8]> {
        Qpc(&self.context)
    }

    fn read_doorbell_record(&self, bus: &dyn Bus) -> Option<QpDoorbellRecord<[u8; 8]>> {
        let mut record = [0; 8];
        bus.read(self.doorbell_record, &mut record).ok()?;
        Some(QpDoorbellRecord(record))
    }

    /// Index behind the last basic block that is posted, by the doorbell record. None: it can't be
    /// read, or can't be.
    pub fn sends_posted(&self, bus: &dyn Bus, sq: &SendQueue) -> Option<u16> {
        let posted = self.read_doorbell_record(bus)?.snd();
        (u32::from(posted.wrapping_sub(sq.next)) <= 1 << sq.log_size).then_some(posted)
    }

    /// How many receives are posted and not used, by the doorbell record. None: it can't be read,
    /// or can't be.
    pub fn receives_held(&self, bus: &dyn Bus, rq: &ReceiveQueue) -> Option<u16> {
        let held = self.read_doorbell_record(bus)?.rcv().wrapping_sub(rq.next);
        (u32::from(held) <= 1 << rq.log_size).then_some(held)
    }

    /// Reads the send queue from basic block `block` on, across its end if need be.
    pub fn read_send(
        &self,
        bus: &dyn Bus,
        sq: &SendQueue,
        block: u16,
        to: &mut [u8],
    ) -> Option<()> {
        let buffer = self.buffer.as_ref()?;
        let size = 1u64 << (u32::from(sq.log_size) + LOG_WQEBB);
        let at = u64::from(block) << LOG_WQEBB & (size - 1);
        let before_end = to.len().min(usize::try_from(size - at).ok()?);
        let (first, wrapped) = to.split_at_mut_checked(before_end)?;
        buffer.read(bus, sq.offset + at, first)?;
        buffer.read(bus, sq.offset, wrapped)
    }

    /// Reads the next receive WQE of its own queue.
    pub fn read_receive(&self, bus: &dyn Bus, rq: &ReceiveQueue, to: &mut [u8]) -> Option<()> {
        let index = u64::from(rq.next) & ((1 << rq.log_size) - 1);
        self.buffer.as_ref()?.read(bus, index << rq.log_stride, to)
    }
}

/// The queue pair with this number, if the command's user context may reach it.
pub(crate) fn find<'a>(fw: &'a mut Firmware, cx: &Cx, qpn: u32) -> Result<&'a mut Qp, CmdError> {
    let qp = fw.qps.get_mut(qpn);
    error::owned(qp.as_ref().map(|qp| qp.uid), cx.uid, qpn, &error::NO_SUCH_QP)?;
    qp.ok_or_else(|| error::NO_SUCH_QP.with(format!("QP {qpn:#x}")))
}

/// DESTROY_QP.
pub fn destroy(fw: &mut Firmware, cx: &Cx, input: DestroyQpIn<&[u8]>) -> Result<(), CmdError> {
    find(fw, cx, input.qpn())?;
    let qp = fw.qps.remove(input.qpn()).map_err(|e| error::removal(e, &error::NO_SUCH_QP))?;
    create::release(fw, &qp);
    Ok(())
}

/// QUERY_QP.
pub fn query(
    fw: &mut Firmware,
    cx: &Cx,
    input: QueryQpIn<&[u8]>,
    mut out: QueryQpOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let qp = find(fw, cx, input.qpn())?;
    let mut qpc = out.qpc_mut();
    copy(qpc.0, &qp.context);
    qpc.set_state(qp.state as u8);
    if let Some(sq) = &qp.sq {
        qpc.set_hw_sq_wqebb_counter(sq.next);
        qpc.set_sw_sq_wqebb_counter(sq.posted);
    }
    if let Receives::Own(rq) = &qp.receives {
        qpc.set_hw_rq_counter(rq.next.into());
    }
    if qp.service.is_connected() {
        let (requester, responder) = (&qp.requester, &qp.responder);
        if qp.state.sends() {
            qpc.set_next_send_psn(requester.next.get());
            qpc.set_last_acked_psn(requester.unacknowledged().plus(u32::MAX).get());
            qpc.set_cur_retry_count(requester.retries);
            qpc.set_cur_rnr_retry(requester.rnr_retries);
        }
        if qp.state.receives() {
            qpc.set_next_rcv_psn(responder.expected.get());
            qpc.set_rmsn(responder.msn);
        }
    }
    Ok(())
}

//! What the driver is told in the end: completions, and why work failed.

use std::fmt;

use firmware::{Firmware, cq};
use layouts::{Cqe64, CqeOpcode, CqeSyndrome, ErrCqe, EventQueueType, EventType};
use mtt::Cause;

use crate::timers::Timer;
use crate::{Cx, Engine};

/// Why a work request failed: the syndrome, and the vendor's byte beside it.
///
/// Where a public report of a real card ties a vendor byte to a syndrome, it is that one. Which of
/// the three that are seen with a local protection error stands for which cause is our choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    pub syndrome: CqeSyndrome,
    pub vendor: u8,
}

/// A WQE that is none, or is none for this queue pair. (0x61: seen on cards.)
pub const BAD_WQE: Failure = Failure { syndrome: CqeSyndrome::LOCAL_QP_OP_ERR, vendor: 0x61 };
/// Flushed. (0xf9: seen on cards.)
pub const FLUSHED: Failure = Failure { syndrome: CqeSyndrome::WR_FLUSH_ERR, vendor: 0xf9 };
/// A UMR that the key does not permit. (0x78: seen on cards.)
pub const BAD_UMR: Failure = Failure { syndrome: CqeSyndrome::MW_BIND_ERR, vendor: 0x78 };
/// A message longer than it may be, or than the receive that it met. (Vendor byte: ours.)
pub const BAD_LENGTH: Failure = Failure { syndrome: CqeSyndrome::LOCAL_LENGTH_ERR, vendor: 0x01 };
/// A local key that can't be used, or memory that is not there.
pub const NO_MEMORY: Failure = Failure { syndrome: CqeSyndrome::LOCAL_PROT_ERR, vendor: 0x51 };
/// A local key that does not permit it.
const FORBIDDEN: Failure = Failure { syndrome: CqeSyndrome::LOCAL_PROT_ERR, vendor: 0x52 };
/// A responder refused the request. (0x8a: seen on cards.)
pub const REMOTE_INVALID_REQUEST: Failure =
    Failure { syndrome: CqeSyndrome::REMOTE_INVAL_REQ_ERR, vendor: 0x8a };
/// A remote key refused. (0x88: seen on cards.)
pub const REMOTE_ACCESS: Failure =
    Failure { syndrome: CqeSyndrome::REMOTE_ACCESS_ERR, vendor: 0x88 };
/// A responder failed. (Vendor byte: ours.)
pub const REMOTE_OPERATION: Failure =
    Failure { syndrome: CqeSyndrome::REMOTE_OP_ERR, vendor: 0x89 };
/// Nobody answered. (0x81: seen on cards.)
pub const RETRIES_EXCEEDED: Failure =
    Failure { syndrome: CqeSyndrome::TRANSPORT_RETRY_EXC_ERR, vendor: 0x81 };
/// The responder had no receive for too long. (Vendor byte: ours.)
pub const NOT_READY_EXCEEDED: Failure =
    Failure { syndrome: CqeSyndrome::RNR_RETRY_EXC_ERR, vendor: 0x82 };
/// An answer that does not fit its request. (Vendor byte: ours.)
pub const BAD_RESPONSE: Failure = Failure { syndrome: CqeSyndrome::BAD_RESP_ERR, vendor: 0x85 };
/// An address that a local key does not cover.
const OUT_OF_BOUNDS: Failure = Failure { syndrome: CqeSyndrome::LOCAL_PROT_ERR, vendor: 0x53 };

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, vendor byte {:#04x}", self.syndrome, self.vendor)
    }
}

impl Failure {
    /// The kind of mistake that led to it.
    pub fn kind(&self) -> &'static str {
        self.syndrome.name().unwrap_or("work request error")
    }

    /// For a local key that refuses.
    pub fn refused(cause: Cause) -> Self {
        match cause {
            Cause::PdMismatch { .. }
            | Cause::QpMismatch { .. }
            | Cause::RightMissing
            | Cause::EntryRightMissing { .. }
            | Cause::InvalidationForbidden => FORBIDDEN,
            Cause::OutOfBounds { .. } => OUT_OF_BOUNDS,
            Cause::NoSuchKey
            | Cause::WrongVariant { .. }
            | Cause::Free
            | Cause::EntryNotPresent { .. }
            | Cause::BadStrideBlock { .. }
            | Cause::TooDeep
            | Cause::TooMuchWork => NO_MEMORY,
        }
    }
}

/// What every completion says.
#[derive(Debug, Clone, Copy)]
pub struct Completion {
    pub qpn: u32,
    /// The queue pair's or shared receive queue's.
    pub user_index: u32,
    /// Index of the WQE.
    pub wqe: u16,
    /// The WQE's opcode, for a send.
    pub opcode: u8,
}

impl Completion {
    /// The entry for success.
    pub fn done(&self, kind: CqeOpcode) -> Cqe64<[u8; 64]> {
        let mut cqe = Cqe64([0; 64]);
        cqe.set_srqn(self.user_index);
        cqe.set_sop(self.opcode);
        cqe.set_qpn(self.qpn);
        cqe.set_wqe_counter(self.wqe);
        cqe.set_opcode(kind.0);
        cqe
    }

    /// The entry for failure.
    pub fn failed(&self, kind: CqeOpcode, why: Failure) -> Cqe64<[u8; 64]> {
        let mut cqe = self.done(kind);
        let mut error = ErrCqe(&mut cqe.0[..]);
        error.set_vendor_err_synd(why.vendor);
        error.set_syndrome(why.syndrome.0);
        cqe
    }
}

impl Engine {
    /// Writes a completion, and the data that it carries. False: its queue takes none any more.
    #[must_use]
    pub(crate) fn complete(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        cqn: u32,
        entry: Cqe64<[u8; 64]>,
        inline: &[u8],
    ) -> bool {
        let qpn = entry.qpn();
        match cq::post(fw, cx, cqn, entry, inline) {
            Ok(None) => true,
            Ok(Some(deadline)) => {
                self.timers.set(Timer::CompletionEvent(cqn), deadline, 0);
                true
            }
            Err(cq::Lost) => {
                fw.count(qpn, |counters| counters.cq_overflow += 1);
                false
            }
        }
    }
}

/// How many bytes of data a completion may carry. `chosen` is a context's `cs_req` or `cs_res`
/// (MLX5_REQ_SCAT_DATA32_CQE and its like): 32 or 64 bytes in its lower half.
pub fn room(fw: &Firmware, cqn: u32, chosen: u8) -> u64 {
    match chosen & 0xf {
        1 => 32,
        2 if fw.cqs.get(cqn).is_some_and(|cq| cq.entry_size() == 128) => 64,
        _ => 0,
    }
}

/// Tells of what happened to a queue pair.
pub fn event(fw: &mut Firmware, cx: Cx, event: EventType, qpn: u32) {
    fw.eqs.post_async(cx, event, 0, |eqe| {
        let mut data = eqe.qp_srq_mut();
        data.set_type(EventQueueType::QP.0);
        data.set_qp_srq_n(qpn);
    });
}

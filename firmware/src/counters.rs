//! What the card counts: requests and errors of queue pairs, by counter set (QUERY_Q_COUNTER), and
//! packets of the port (QUERY_VPORT_COUNTER, PPCNT, performance datagrams).
//!
//! The engine counts; here is where, and how it is told.

use layouts::{
    AllocQCounterOut, CqeSyndrome, DeallocQCounterIn, QueryQCounterIn, QueryQCounterOut,
};

use crate::error::{self, CmdError};
use crate::{Cx, Firmware};

/// Declares the counters of a set, each with the reply's field that tells it.
macro_rules! q_counters {
    ($( $(#[$doc:meta])* $name:ident $set:ident; )*) => {
        /// What the queue pairs of one counter set did and met.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct QCounters {
            $( $(#[$doc])* pub $name: u64, )*
        }

        impl QCounters {
            /// Fills a reply, whose fields have 32 bits and wrap.
            fn tell(&self, out: &mut QueryQCounterOut<&mut [u8]>) {
                $( out.$set(self.$name as u32); )*
            }
        }
    };
}

q_counters! {
    /// RDMA writes that came in.
    rx_write_requests set_rx_write_requests;
    /// RDMA reads that came in.
    rx_read_requests set_rx_read_requests;
    /// Atomic operations that came in.
    rx_atomic_requests set_rx_atomic_requests;
    /// Packets that met an empty receive queue.
    out_of_buffer set_out_of_buffer;
    /// Requests whose PSN was beyond the one expected.
    out_of_sequence set_out_of_sequence;
    /// Requests that had been carried out before.
    duplicate_request set_duplicate_request;
    /// "Receiver not ready" that came back.
    rnr_nak_retry_err set_rnr_nak_retry_err;
    /// "PSN sequence error" that came back.
    packet_seq_err set_packet_seq_err;
    /// Responses to a later request where one to an earlier was expected.
    implied_nak_seq_err set_implied_nak_seq_err;
    /// Requests that nobody acknowledged in time.
    local_ack_timeout_err set_local_ack_timeout_err;
    /// Requests given up after the last "receiver not ready".
    req_rnr_retries_exceeded set_req_rnr_retries_exceeded;
    /// Receives that a message did not fit in.
    resp_local_length_error set_resp_local_length_error;
    /// Requests longer than the service carries.
    req_local_length_error set_req_local_length_error;
    /// Receives that failed for their queue pair.
    resp_local_qp_error set_resp_local_qp_error;
    /// Requests that failed for their queue pair.
    local_operation_error set_local_operation_error;
    /// Receives whose local key refused.
    resp_local_protection set_resp_local_protection;
    /// Requests whose local key refused.
    req_local_protection set_req_local_protection;
    /// Receives that completed with an error, flushed ones too.
    resp_cqe_error set_resp_cqe_error;
    /// Requests that completed with an error, flushed ones too.
    req_cqe_error set_req_cqe_error;
    /// Windows that were not bound.
    req_mw_binding set_req_mw_binding;
    /// Responses that no request fits.
    req_bad_response set_req_bad_response;
    /// "Invalid request" that came back.
    req_remote_invalid_request set_req_remote_invalid_request;
    /// Requests refused as invalid.
    resp_remote_invalid_request set_resp_remote_invalid_request;
    /// "Remote access error" that came back.
    req_remote_access_errors set_req_remote_access_errors;
    /// Requests whose remote key refused.
    resp_remote_access_errors set_resp_remote_access_errors;
    /// "Remote operational error" that came back.
    req_remote_operation_errors set_req_remote_operation_errors;
    /// Requests given up after the last retry.
    req_transport_retries_exceeded set_req_transport_retries_exceeded;
    /// Completions that found their queue full.
    cq_overflow set_cq_overflow;
    /// Receives that were flushed.
    resp_cqe_flush_error set_resp_cqe_flush_error;
    /// Requests that were flushed.
    req_cqe_flush_error set_req_cqe_flush_error;
}

/// Which half of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It sends requests.
    Requester,
    /// It answers them.
    Responder,
}

impl QCounters {
    /// Counts a completion with an error: in the sum of its side, and by its syndrome. What a
    /// responder refuses without a completion, or a queue that is full, is counted where it happens.
    pub fn failed(&mut self, side: Side, syndrome: CqeSyndrome) {
        use CqeSyndrome as S;
        use Side::{Requester, Responder};
        match side {
            Requester => self.req_cqe_error += 1,
            Responder => self.resp_cqe_error += 1,
        }
        let by_syndrome = match (side, syndrome) {
            (Requester, S::LOCAL_LENGTH_ERR) => &mut self.req_local_length_error,
            (Responder, S::LOCAL_LENGTH_ERR) => &mut self.resp_local_length_error,
            (Requester, S::LOCAL_QP_OP_ERR) => &mut self.local_operation_error,
            (Responder, S::LOCAL_QP_OP_ERR) => &mut self.resp_local_qp_error,
            (Requester, S::LOCAL_PROT_ERR) => &mut self.req_local_protection,
            (Responder, S::LOCAL_PROT_ERR) => &mut self.resp_local_protection,
            (Requester, S::WR_FLUSH_ERR) => &mut self.req_cqe_flush_error,
            (Responder, S::WR_FLUSH_ERR) => &mut self.resp_cqe_flush_error,
            (Requester, S::MW_BIND_ERR) => &mut self.req_mw_binding,
            (Requester, S::BAD_RESP_ERR) => &mut self.req_bad_response,
            (Requester, S::REMOTE_INVAL_REQ_ERR) => &mut self.req_remote_invalid_request,
            (Requester, S::REMOTE_ACCESS_ERR) => &mut self.req_remote_access_errors,
            (Requester, S::REMOTE_OP_ERR) => &mut self.req_remote_operation_errors,
            (Requester, S::TRANSPORT_RETRY_EXC_ERR) => &mut self.req_transport_retries_exceeded,
            (Requester, S::RNR_RETRY_EXC_ERR) => &mut self.req_rnr_retries_exceeded,
            _ => return,
        };
        *by_syndrome += 1;
    }
}

/// One counter set.
#[derive(Debug)]
pub struct CounterSet {
    /// User context that it belongs to.
    uid: u16,
    /// What it counts.
    counters: QCounters,
}

/// Packets, and their bytes from the local route header to the invariant CRC (IBA 16.1.3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub octets: u64,
}

impl Traffic {
    /// Counts packets of together `octets` bytes.
    pub fn add(&mut self, packets: u64, octets: u64) {
        self.packets = self.packets.wrapping_add(packets);
        self.octets = self.octets.wrapping_add(octets);
    }
}

/// What went through the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortCounters {
    /// Packets to one destination that came in.
    pub received_unicast: Traffic,
    /// Packets to one destination that went out.
    pub transmitted_unicast: Traffic,
    /// Packets to a group that came in.
    pub received_multicast: Traffic,
    /// Packets to a group that went out.
    pub transmitted_multicast: Traffic,
}

impl Firmware {
    /// The counters of a set, by the id that a queue pair's context names. None: no such set.
    pub fn q_counters(&mut self, counter_set_id: u8) -> Option<&mut QCounters> {
        Some(&mut self.objects.counters.get_mut(counter_set_id.into())?.counters)
    }

    /// Counts something that happened to a queue pair, if it counts at all.
    pub fn count(&mut self, qpn: u32, count: impl FnOnce(&mut QCounters)) {
        let Some(qp) = self.qps.get(qpn) else { return };
        let id = qp.context().counter_set_id();
        if let Some(counters) = self.q_counters(id) {
            count(counters);
        }
    }
}

/// ALLOC_Q_COUNTER.
pub fn alloc(
    fw: &mut Firmware,
    cx: &Cx,
    mut out: AllocQCounterOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let set = CounterSet { uid: cx.uid, counters: QCounters::default() };
    let id = fw.objects.counters.insert(set).map_err(|e| error::TABLE_FULL.with(e.to_string()))?;
    out.set_counter_set_id(id as u8);
    Ok(())
}

/// The set with this id, if the command's user context may reach it.
fn find<'a>(fw: &'a mut Firmware, cx: &Cx, id: u8) -> Result<&'a mut CounterSet, CmdError> {
    let set = fw.objects.counters.get_mut(id.into());
    error::owned(set.as_ref().map(|set| set.uid), cx.uid, id.into(), &error::NO_SUCH_COUNTER)?;
    set.ok_or_else(|| error::NO_SUCH_COUNTER.with(format!("set {id}")))
}

/// DEALLOC_Q_COUNTER.
pub fn dealloc(
    fw: &mut Firmware,
    cx: &Cx,
    input: DeallocQCounterIn<&[u8]>,
) -> Result<(), CmdError> {
    let id = input.counter_set_id();
    find(fw, cx, id)?;
    fw.objects
        .counters
        .remove(id.into())
        .map_err(|e| error::removal(e, &error::NO_SUCH_COUNTER))?;
    Ok(())
}

/// QUERY_Q_COUNTER, and clearing what was told.
pub fn query(
    fw: &mut Firmware,
    cx: &Cx,
    input: QueryQCounterIn<&[u8]>,
    mut out: QueryQCounterOut<&mut [u8]>,
) -> Result<(), CmdError> {
    // Sums, and other functions' counters: q_counter_aggregation and q_counter_other_vport are 0.
    if input.aggregate() || input.other_vport() {
        return Err(error::BAD_ATTRIBUTE.with("a sum, or another vport's counters"));
    }
    let set = find(fw, cx, input.counter_set_id())?;
    set.counters.tell(&mut out);
    if input.clear() {
        set.counters = QCounters::default();
    }
    Ok(())
}

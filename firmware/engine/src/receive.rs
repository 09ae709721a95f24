//! Where a packet's bytes go: the next WQE of a receive queue, the queue pair's own or a shared one.

use firmware::Firmware;
use firmware::qp::{Receives, State};
use firmware::srq;
use layouts::{CqeOpcode, WqeDataSeg, WqeSrqNextSeg};
use mtt::Access;

use crate::completion::{BAD_LENGTH, Completion, FLUSHED, Failure};
use crate::memory::{Owner, Range, write_all};
use crate::wqe::LONGEST;
use crate::{Cx, Engine};

/// A data segment with this key and no length ends a list
/// (MLX5_TERMINATE_SCATTER_LIST_LKEY; terminate_scatter_list_mkey is not offered).
const TERMINATOR: u32 = 0x100;
/// The largest receive WQE.
const MAX: usize = 1 << srq::LOG_MAX_STRIDE;
/// Bytes of a segment.
const UNIT: usize = 16;
/// How many receives are flushed in one go.
const FLUSH: usize = 64;

/// A receive WQE, taken from its queue.
pub struct Receive {
    bytes: [u8; MAX],
    len: usize,
    /// Where its data segments begin.
    segments: usize,
    owner: Owner,
    /// Its completion, as far as it is known.
    pub completion: Completion,
}

impl Receive {
    fn ranges(&self) -> impl Iterator<Item = Range> {
        let segments = self.bytes.get(self.segments..self.len).unwrap_or_default();
        segments
            .chunks_exact(UNIT)
            .map(WqeDataSeg)
            .take_while(|segment| segment.byte_count() != 0 || segment.lkey() != TERMINATOR)
            .map(|segment| {
                let len = match segment.byte_count() {
                    0 => LONGEST,
                    count => count.into(),
                };
                Range { key: segment.lkey(), addr: segment.addr(), len }
            })
    }
}

impl Engine {
    /// Takes the next receive WQE of a queue pair. None: there is none.
    pub(crate) fn take_receive(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32) -> Option<Receive> {
        let qp = fw.qps.get_mut(qpn)?;
        let cqn = qp.receive_cqn?;
        let completion = Completion { cqn, qpn, user_index: qp.user_index, wqe: 0, opcode: 0 };
        let owner = Owner { pd: qp.pd, qpn };
        let mut receive = Receive { bytes: [0; MAX], len: 0, segments: 0, owner, completion };
        match qp.receives {
            Receives::None => None,
            Receives::Shared(srqn) => take_shared(fw, cx, srqn, &mut receive).then_some(receive),
            Receives::Own(mut rq) => {
                if qp.receives_held(cx.0, &rq)? == 0 {
                    return None;
                }
                receive.len = 1 << rq.log_stride;
                let bytes = receive.bytes.get_mut(..receive.len)?;
                if qp.read_receive(cx.0, &rq, bytes).is_none() {
                    self.break_down(fw, cx, qpn, "its buffer is not mapped");
                    return None;
                }
                receive.completion.wqe = rq.next;
                rq.next = rq.next.wrapping_add(1);
                qp.receives = Receives::Own(rq);
                Some(receive)
            }
        }
    }

    /// Writes `data` to where a receive says, from `skip` bytes on.
    pub(crate) fn scatter(
        &mut self,
        fw: &Firmware,
        cx: Cx,
        receive: &Receive,
        mut skip: u64,
        mut data: &[u8],
    ) -> Result<(), Failure> {
        for range in receive.ranges() {
            let before = skip.min(range.len);
            skip -= before;
            let len = (range.len - before).min(data.len() as u64);
            if len == 0 {
                continue;
            }
            let (now, later) = data.split_at_checked(len as usize).unwrap_or((data, &[]));
            data = later;
            let addr = range.addr.wrapping_add(before);
            let part = Range { key: range.key, addr, len };
            let pieces = &mut self.scratch.pieces;
            receive.owner.translate(fw, part, Access::LocalWrite, pieces)?;
            write_all(cx.0, pieces, now)?;
        }
        if skip == 0 && data.is_empty() { Ok(()) } else { Err(BAD_LENGTH) }
    }

    /// A receive that failed: it is completed so, and its queue pair goes to the error state.
    pub(crate) fn fail_receive(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        receive: &Receive,
        why: Failure,
    ) {
        let Completion { qpn, cqn, .. } = receive.completion;
        cx.1.mistake(why.kind(), || format!("QP {qpn:#x}: receive: {why}"));
        let entry = receive.completion.failed(CqeOpcode::RESP_ERR, why);
        if !self.complete(fw, cx, cqn, entry) {
            self.break_down(fw, cx, qpn, "its completion queue takes no more entries");
        }
        if let Some(qp) = fw.qps.get_mut(qpn) {
            qp.state = State::Error;
        }
        self.wake(fw, qpn);
    }

    /// Flushes some of the receives that a queue pair in error holds in its own queue. Returns how
    /// many, and whether there are more.
    pub(crate) fn flush_receives(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32) -> (usize, bool) {
        for done in 0..FLUSH {
            let Some(qp) = fw.qps.get_mut(qpn) else { return (done, false) };
            let Receives::Own(mut rq) = qp.receives else { return (done, false) };
            // A doorbell record that can't be names nothing that could be flushed.
            let held = qp.receives_held(cx.0, &rq).unwrap_or(0);
            let Some(cqn) = qp.receive_cqn.filter(|_| held > 0) else { return (done, false) };
            let user_index = qp.user_index;
            let completion = Completion { cqn, qpn, user_index, wqe: rq.next, opcode: 0 };
            rq.next = rq.next.wrapping_add(1);
            qp.receives = Receives::Own(rq);
            // The queue pair is in error already; there is nothing more to be told.
            let _ = self.complete(fw, cx, cqn, completion.failed(CqeOpcode::RESP_ERR, FLUSHED));
        }
        (FLUSH, true)
    }
}

/// Takes the first WQE of a shared receive queue.
fn take_shared(fw: &mut Firmware, cx: Cx, srqn: u32, receive: &mut Receive) -> bool {
    let Some(srq) = fw.srqs.get_mut(srqn).filter(|srq| !srq.broken) else { return false };
    match srq.available(cx.0) {
        Some(0) => return false,
        Some(_) => {}
        None => {
            srq::break_down(fw, cx, srqn, "its doorbell record can't be");
            return false;
        }
    }
    receive.len = 1 << srq.log_stride;
    let head = srq.head;
    let fetched = receive.bytes.get_mut(..receive.len).and_then(|b| srq.read(cx.0, head, b));
    let next = WqeSrqNextSeg(&receive.bytes).next_wqe_index();
    if fetched.is_none() || next >> srq.log_size != 0 {
        srq::break_down(fw, cx, srqn, "its list leads out of its buffer");
        return false;
    }
    receive.segments = UNIT;
    receive.owner.pd = Some(srq.pd);
    receive.completion.wqe = head;
    if srq.kind == srq::Kind::Xrc {
        receive.completion.user_index = srq.user_index;
    }
    srq.head = next;
    srq.used = srq.used.wrapping_add(1);
    srq::check_limit(fw, cx, srqn);
    true
}

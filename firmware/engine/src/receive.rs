//! Where a message's bytes go: the next WQE of a receive queue, the queue pair's own or a shared
//! one.

use firmware::Firmware;
use firmware::counters::Side;
use firmware::qp::connection::{Arriving, Receive};
use firmware::qp::{Receives, State};
use firmware::srq;
use layouts::{CqeOpcode, WqeDataSeg, WqeSrqNextSeg};
use mtt::Access;

use crate::completion::{self, Completion, FLUSHED, Failure, NO_MEMORY};
use crate::memory::{Fault, Owner, Payload};
use crate::packet::{Part, Tail};
use crate::wqe::{LONGEST, Range};
use crate::{Cx, Engine};

/// A data segment with this key and no length ends a list
/// (MLX5_TERMINATE_SCATTER_LIST_LKEY; terminate_scatter_list_mkey is not offered).
const TERMINATOR: u32 = 0x100;
/// Bytes of a segment.
const UNIT: usize = 16;
/// How many receives are flushed in one go.
const FLUSH: usize = 64;

/// Why bytes could not be put where a receive says.
pub enum Misplaced {
    /// They can't be read where they come from.
    SourceGone,
    /// The receive is at fault.
    Receive(Failure),
}

/// The memory that a receive WQE names.
fn ranges(receive: &Receive) -> impl Iterator<Item = Range> {
    let segments = receive.bytes.get(receive.segments..receive.len).unwrap_or_default();
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

/// What its completion says.
pub fn completion_of(qpn: u32, receive: &Receive) -> Completion {
    let &Receive { user_index, wqe, .. } = receive;
    Completion { qpn, user_index, wqe, opcode: 0 }
}

impl Engine {
    /// Takes the next receive WQE of a queue pair, or of the shared queue that an XRC request
    /// names. None: there is none.
    pub(crate) fn take_receive(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        qpn: u32,
        srqn: Option<u32>,
    ) -> Option<Receive> {
        let qp = fw.qps.get_mut(qpn)?;
        if let Some(spare) = qp.responder.spare.take() {
            return Some(*spare);
        }
        let mut receive = Receive {
            bytes: [0; Receive::MAX],
            len: 0,
            segments: 0,
            pd: qp.pd,
            cqn: qp.receive_cqn.unwrap_or(0),
            user_index: qp.user_index,
            wqe: 0,
        };
        let shared = match qp.receives {
            Receives::Shared(srqn) => Some(srqn),
            _ => srqn,
        };
        if let Some(srqn) = shared {
            return take_shared(fw, cx, srqn, &mut receive).then_some(receive);
        }
        let Receives::Own(mut rq) = qp.receives else { return None };
        if qp.receives_held(cx.0, &rq)? == 0 {
            return None;
        }
        receive.len = 1 << rq.log_stride;
        let bytes = receive.bytes.get_mut(..receive.len)?;
        if qp.read_receive(cx.0, &rq, bytes).is_none() {
            self.break_down(fw, cx, qpn, "its buffer is not mapped");
            return None;
        }
        receive.wqe = rq.next;
        rq.next = rq.next.wrapping_add(1);
        qp.receives = Receives::Own(rq);
        Some(receive)
    }

    /// Puts bytes where a receive says, from `at` bytes on, or into its completion if they are the
    /// whole message and fit.
    pub(crate) fn place(
        &mut self,
        fw: &Firmware,
        cx: Cx,
        qpn: u32,
        receive: &Receive,
        (at, whole): (u64, bool),
        payload: Payload,
    ) -> Result<(), Misplaced> {
        let len = payload.len();
        let owner = Owner { pd: receive.pd, qpn, probe: cx.1 };
        let mut target = std::mem::take(&mut self.scratch.target);
        let list = (&mut target, &mut self.scratch.part);
        let found = owner.translate_list(fw, ranges(receive), (at, len), Access::LocalWrite, list);
        let chosen = fw.qps.get(qpn).map_or(0, |qp| qp.context().cs_res());
        let result = match found {
            Err(why) => Err(Misplaced::Receive(why)),
            Ok(()) if whole && len > 0 && len <= completion::room(fw, receive.cqn, chosen) => {
                self.scratch.inline.clear();
                let inline = &mut self.scratch.inline;
                payload.read_to(cx.0, inline).map_err(|_| {
                    inline.clear();
                    Misplaced::SourceGone
                })
            }
            Ok(()) => payload.write_to(cx.0, &target).map_err(|fault| match fault {
                Fault::Source => Misplaced::SourceGone,
                Fault::Target => Misplaced::Receive(NO_MEMORY),
            }),
        };
        self.scratch.target = target;
        result
    }

    /// Completes a receive with a message of `len` bytes.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn complete_receive(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        qpn: u32,
        receive: &Receive,
        kind: CqeOpcode,
        part: &Part,
        len: u64,
    ) {
        let mut entry = completion_of(qpn, receive).done(kind);
        if let Some(qp) = fw.qps.get(qpn) {
            let context = qp.context();
            let path = context.primary_address_path();
            entry.set_slid(path.rlid());
            entry.set_sl(path.sl());
            entry.set_rqpn(context.remote_qpn());
        }
        entry.set_byte_cnt(len as u32);
        match part.tail {
            Tail::None => {}
            Tail::Immediate(data) => entry.set_immediate(data),
            Tail::Invalidate(key) => entry.set_inval_rkey(key),
        }
        entry.set_se(part.solicited);
        self.finish_receive(fw, cx, qpn, receive.cqn, entry);
    }

    /// Writes a receive's completion, and the data that is waiting for it.
    pub(crate) fn finish_receive(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        qpn: u32,
        cqn: u32,
        entry: layouts::Cqe64<[u8; 64]>,
    ) {
        let inline = std::mem::take(&mut self.scratch.inline);
        if !self.complete(fw, cx, cqn, entry, &inline) {
            self.break_down(fw, cx, qpn, "its completion queue takes no more entries");
        }
        self.scratch.inline = inline;
        self.scratch.inline.clear();
    }

    /// A receive that failed: it is completed so, and its queue pair goes to the error state.
    pub(crate) fn fail_receive(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        qpn: u32,
        receive: &Receive,
        why: Failure,
    ) {
        cx.1.mistake(why.kind(), || format!("QP {qpn:#x}: receive: {why}"));
        self.receive_error(fw, cx, qpn, receive, why);
        if let Some(qp) = fw.qps.get_mut(qpn) {
            qp.state = State::Error;
        }
        self.wake(fw, qpn);
    }

    fn receive_error(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        qpn: u32,
        receive: &Receive,
        why: Failure,
    ) {
        fw.count(qpn, |counters| counters.failed(Side::Responder, why.syndrome));
        // Data that was to go into the completion does not, nor into the next one.
        self.scratch.inline.clear();
        let entry = completion_of(qpn, receive).failed(CqeOpcode::RESP_ERR, why);
        if !self.complete(fw, cx, receive.cqn, entry, &[]) {
            self.break_down(fw, cx, qpn, "its completion queue takes no more entries");
        }
    }

    /// Flushes some of the receives that a queue pair in error holds in its own queue. Returns how
    /// many, and whether there are more.
    pub(crate) fn flush_receives(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32) -> (usize, bool) {
        // The one of a message that has begun to arrive is out of its queue already.
        let begun = fw.qps.get_mut(qpn).and_then(|qp| {
            let responder = &mut qp.responder;
            match responder.arriving.take() {
                Some(Arriving::Send { receive, .. }) => Some(receive),
                _ => responder.spare.take(),
            }
        });
        if let Some(receive) = begun {
            self.receive_error(fw, cx, qpn, &receive, FLUSHED);
        }
        for done in 0..FLUSH {
            let Some(qp) = fw.qps.get_mut(qpn) else { return (done, false) };
            let Receives::Own(mut rq) = qp.receives else { return (done, false) };
            // A doorbell record that can't be names nothing that could be flushed.
            let held = qp.receives_held(cx.0, &rq).unwrap_or(0);
            let Some(cqn) = qp.receive_cqn.filter(|_| held > 0) else { return (done, false) };
            let user_index = qp.user_index;
            let completion = Completion { qpn, user_index, wqe: rq.next, opcode: 0 };
            rq.next = rq.next.wrapping_add(1);
            qp.receives = Receives::Own(rq);
            fw.count(qpn, |counters| counters.failed(Side::Responder, FLUSHED.syndrome));
            // The queue pair is in error already; there is nothing more to be told.
            let entry = completion.failed(CqeOpcode::RESP_ERR, FLUSHED);
            let _ = self.complete(fw, cx, cqn, entry, &[]);
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
    receive.pd = Some(srq.pd);
    receive.wqe = head;
    if srq.kind == srq::Kind::Xrc {
        receive.user_index = srq.user_index;
        receive.cqn = srq.cqn.unwrap_or(0);
    }
    srq.head = next;
    srq.used = srq.used.wrapping_add(1);
    srq::check_limit(fw, cx, srqn);
    true
}

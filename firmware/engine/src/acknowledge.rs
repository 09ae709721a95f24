//! What comes back to the requester: acknowledgements, refusals, data.

use firmware::Firmware;
use firmware::qp::State;
use firmware::qp::connection::{Awaits, Nak, Psn, Sent};
use mtt::Access;

use crate::completion::{
    self, BAD_RESPONSE, BAD_WQE, Failure, NO_MEMORY, NOT_READY_EXCEEDED, REMOTE_ACCESS,
    REMOTE_INVALID_REQUEST, REMOTE_OPERATION,
};
use crate::memory::{Fault, Owner, Payload, SourceGone};
use crate::message::Message;
use crate::packet::{Header, Kind, not_ready_ns};
use crate::requester::path_mtu;
use crate::timers::Timer;
use crate::wqe::Wqe;
use crate::{Cx, Engine};

/// A code of rnr_retry: without end.
const FOR_EVER: u8 = 7;

impl Engine {
    /// An answer arrives at the queue pair that it is for.
    pub(crate) fn answered(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        header: &Header,
        payload: Payload,
    ) -> Result<(), SourceGone> {
        let (qpn, psn) = (header.dest_qpn, header.psn);
        let expected = fw.qps.get(qpn).filter(|qp| qp.state == State::Rts).is_some_and(|qp| {
            let requester = &qp.requester;
            // Of what is in flight, or just before it: anything else is of another time.
            let from = requester.unacknowledged();
            psn.since(from) >= -1 && psn.since(requester.next) < 0
        });
        if !expected {
            return Ok(());
        }
        let result = match header.kind {
            Kind::Ack => {
                self.acknowledge(fw, cx, qpn, psn);
                Ok(())
            }
            Kind::Nak(nak) => {
                self.refused(fw, cx, qpn, psn, nak);
                Ok(())
            }
            Kind::ReadData => self.data(fw, cx, qpn, header, payload),
            Kind::AtomicData(old) => {
                let size = fw.qps.get(qpn).and_then(|qp| {
                    let of_it = |sent: &&Sent| sent.first == psn && sent.packets == 1;
                    qp.requester.in_flight.iter().find(of_it).map(|sent| sent.len as usize)
                });
                // Less significant bytes come first in the host's order.
                let (low, high) = (old.to_le_bytes(), old.to_be_bytes());
                let size = size.unwrap_or(8).min(8);
                let bytes = match fw.caps.atomics_in_host_order() {
                    true => low.get(..size),
                    false => high.get(8 - size..),
                };
                self.data(fw, cx, qpn, header, Payload::Bytes(bytes.unwrap_or_default()))
            }
            _ => Ok(()),
        };
        self.retire(fw, cx, qpn);
        self.wake(fw, qpn);
        result
    }

    /// All packets up to `psn` were executed. False if one of them was to be answered with data: it
    /// is sent again.
    fn acknowledge(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, psn: Psn) -> bool {
        let Some(qp) = fw.qps.get_mut(qpn) else { return false };
        let (retries, rnr_retries) = (qp.context().retry_count(), qp.context().rnr_retry());
        let requester = &mut qp.requester;
        let mut progress = false;
        let mut lost = None;
        for sent in &mut requester.in_flight {
            let reached = psn.since(sent.first);
            if sent.packets == 0 {
                continue;
            }
            if reached < 0 {
                break;
            }
            match sent.awaits {
                Awaits::Nothing => {}
                Awaits::Data => {
                    if reached as u32 >= sent.answered {
                        lost = Some(sent.first.plus(sent.answered));
                    }
                    break;
                }
                Awaits::Ack => {
                    let answered = (reached as u32 + 1).min(sent.packets);
                    progress |= answered > sent.answered;
                    sent.answered = sent.answered.max(answered);
                    if sent.answered == sent.packets {
                        sent.awaits = Awaits::Nothing;
                        sent.sent = sent.packets;
                    }
                }
            }
        }
        if progress {
            requester.progress(retries, rnr_retries);
        }
        self.retire(fw, cx, qpn);
        if let Some(psn) = lost {
            self.overtaken(fw, cx, qpn, psn);
        }
        lost.is_none()
    }

    /// A later packet was answered before this one, whose data must have been lost (IBA 9.9.2.4.3).
    fn overtaken(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, psn: Psn) {
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        if qp.requester.overtaken.replace(psn) == Some(psn) {
            return;
        }
        fw.count(qpn, |counters| counters.implied_nak_seq_err += 1);
        self.send_again(fw, cx, qpn);
    }

    /// The packet with this PSN was not executed, those before it were.
    fn refused(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, psn: Psn, nak: Nak) {
        if !self.acknowledge(fw, cx, qpn, psn.plus(u32::MAX)) {
            return;
        }
        let why = match nak {
            Nak::Sequence => {
                fw.count(qpn, |counters| counters.packet_seq_err += 1);
                self.send_again(fw, cx, qpn);
                return;
            }
            Nak::NotReady(code) => {
                fw.count(qpn, |counters| counters.rnr_nak_retry_err += 1);
                match self.not_ready(fw, qpn, psn, code) {
                    true => return,
                    false => NOT_READY_EXCEEDED,
                }
            }
            Nak::InvalidRequest => REMOTE_INVALID_REQUEST,
            Nak::RemoteAccess => REMOTE_ACCESS,
            Nak::RemoteOperation => REMOTE_OPERATION,
        };
        self.fail_oldest(fw, cx, qpn, why);
    }

    /// The responder has no receive: it is asked again later. False: that was tried too often.
    fn not_ready(&mut self, fw: &mut Firmware, qpn: u32, psn: Psn, code: u8) -> bool {
        let now = fw.now;
        let Some(qp) = fw.qps.get_mut(qpn) else { return true };
        let for_ever = qp.context().rnr_retry() == FOR_EVER;
        let requester = &mut qp.requester;
        match requester.rnr_retries.checked_sub(1) {
            _ if for_ever => {}
            Some(left) => requester.rnr_retries = left,
            None => return false,
        }
        requester.rnr_wait = true;
        requester.deadline = None;
        let at = now.saturating_add(not_ready_ns(code));
        self.timers.set(Timer::NotReady(qpn), at, 0);
        self.go_back(fw, qpn, psn);
        true
    }

    /// The time is over that a responder without receives asked for.
    pub(crate) fn ready_again(&mut self, fw: &mut Firmware, qpn: u32) {
        if let Some(qp) = fw.qps.get_mut(qpn) {
            qp.requester.rnr_wait = false;
            self.wake(fw, qpn);
        }
    }

    /// Data of a read or an atomic.
    fn data(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        qpn: u32,
        header: &Header,
        payload: Payload,
    ) -> Result<(), SourceGone> {
        // Whatever was sent before has been executed.
        let psn = header.psn;
        if !self.acknowledge(fw, cx, qpn, psn.plus(u32::MAX)) {
            return Ok(());
        }
        let Some(qp) = fw.qps.get(qpn) else { return Ok(()) };
        let mtu = path_mtu(qp);
        let oldest = qp.requester.in_flight.front().copied();
        let Some(sent) = oldest.filter(|sent| sent.awaits == Awaits::Data && sent.sent > 0) else {
            return Ok(());
        };
        let expected = sent.first.plus(sent.answered);
        match psn.since(expected) {
            0 => {}
            // Seen already.
            ..0 => return Ok(()),
            1.. => {
                self.overtaken(fw, cx, qpn, expected);
                return Ok(());
            }
        }
        let at = u64::from(sent.answered) * mtu;
        let whole = sent.answered == 0 && header.packets == sent.packets;
        let fits = header.packets <= sent.packets - sent.answered
            && payload.len() == (u64::from(header.packets) * mtu).min(sent.len.saturating_sub(at));
        let result = match fits {
            true => self.keep_data(fw, cx, qpn, &sent, (at, whole), payload),
            false => Ok(Err(BAD_RESPONSE)),
        };
        match result {
            Err(SourceGone) => return Err(SourceGone),
            Ok(Err(why)) => {
                self.fail_oldest(fw, cx, qpn, why);
                return Ok(());
            }
            Ok(Ok(())) => {}
        }
        let Some(qp) = fw.qps.get_mut(qpn) else { return Ok(()) };
        let (retries, rnr_retries) = (qp.context().retry_count(), qp.context().rnr_retry());
        let requester = &mut qp.requester;
        requester.progress(retries, rnr_retries);
        if let Some(oldest) = requester.in_flight.front_mut() {
            oldest.answered += header.packets;
            if oldest.answered == oldest.packets {
                oldest.awaits = Awaits::Nothing;
            }
        }
        Ok(())
    }

    /// Puts data where its WQE says: into memory, or into the completion if it is all and fits.
    fn keep_data(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        qpn: u32,
        sent: &Sent,
        (at, whole): (u64, bool),
        payload: Payload,
    ) -> Result<Result<(), Failure>, SourceGone> {
        let len = payload.len();
        let Some(qp) = fw.qps.get(qpn) else { return Ok(Err(BAD_WQE)) };
        let Some(sq) = qp.sq else { return Ok(Err(BAD_WQE)) };
        if len == 0 {
            return Ok(Ok(()));
        }
        let mut wqe = Wqe::default();
        if wqe.fetch_again(cx.0, qp, sent).is_none() || wqe.opcode() != sent.opcode {
            return Ok(Err(BAD_WQE));
        }
        let Some(Ok(message)) = Message::parse(qp.service, &wqe) else { return Ok(Err(BAD_WQE)) };
        let room = completion_room(fw, qpn, sq.cqn);
        if whole && sent.signalled && len <= room {
            self.scratch.inline.clear();
            return match payload.read_to(cx.0, &mut self.scratch.inline) {
                Ok(()) => Ok(Ok(())),
                Err(_) => {
                    self.scratch.inline.clear();
                    Err(SourceGone)
                }
            };
        }
        let owner = Owner { pd: qp.pd, qpn, probe: cx.1 };
        let mut target = std::mem::take(&mut self.scratch.target);
        let list = (&mut target, &mut self.scratch.part);
        let ranges = wqe.ranges(message.data);
        let found = owner.translate_list(fw, ranges, (at, len), Access::LocalWrite, list);
        let result = match found {
            Err(why) => Ok(Err(why)),
            Ok(()) => match payload.write_to(cx.0, &target) {
                Ok(()) => Ok(Ok(())),
                Err(Fault::Target) => Ok(Err(NO_MEMORY)),
                Err(Fault::Source) => Err(SourceGone),
            },
        };
        self.scratch.target = target;
        result
    }
}

/// How many bytes of an answer go into a send's completion (the context's `cs_req`).
fn completion_room(fw: &Firmware, qpn: u32, cqn: u32) -> u64 {
    let chosen = fw.qps.get(qpn).map_or(0, |qp| qp.context().cs_req());
    completion::room(fw, cqn, chosen)
}

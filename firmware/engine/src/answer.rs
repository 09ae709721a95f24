//! What a responder sends: acknowledgements, refusals, data. Answers go out in the order of their
//! requests; a long read goes out in bursts, a few in each turn of its queue pair.

use firmware::Firmware;
use firmware::qp::connection::{Answer, Nak, Read};
use firmware::qp::{Qp, State};
use layouts::EventType;
use mtt::Access;

use crate::completion;
use crate::memory::{Owner, Payload};
use crate::packet::Kind;
use crate::requester::{burst_packets, header, packets, path_mtu};
use crate::turn::{Turn, WQE_COST};
use crate::wqe::Range;
use crate::{Cx, Engine};

/// Most answers that wait for a read before them; what comes on top is not answered, as if the
/// answer had been lost.
const MOST: usize = 16;

impl Engine {
    /// Answers a request, at once if nothing is before it.
    pub(crate) fn reply(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, answer: Answer) {
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        qp.responder.refused |= matches!(answer, Answer::Nak(_, nak) if nak.is_final());
        let answers = &mut qp.responder.answers;
        if answers.is_empty() && !matches!(answer, Answer::Read(_)) {
            self.send_answer(fw, cx, qpn, answer);
            return;
        }
        let room = answers.len() < MOST;
        match (answers.back_mut(), answer) {
            // One acknowledgement stands for all before it.
            (Some(Answer::Ack(last)), Answer::Ack(psn)) => *last = psn,
            _ if room => answers.push_back(answer),
            _ => return,
        }
        if answers.len() == 1 {
            let turn = self.answer(fw, cx, qpn, WQE_COST);
            if !turn.more {
                return;
            }
        }
        self.wake(fw, qpn);
    }

    /// Sends answers that wait, worth about `budget` bytes.
    pub(crate) fn answer(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, budget: usize) -> Turn {
        let mut cost = 0;
        while let Some(qp) = fw.qps.get_mut(qpn).filter(|qp| answers(qp)) {
            let Some(answer) = qp.responder.answers.front().copied() else { break };
            if cost >= budget {
                return Turn { cost, more: true };
            }
            cost += WQE_COST;
            match answer {
                Answer::Read(read) => cost += self.send_data(fw, cx, qpn, read) as usize,
                _ => {
                    qp.responder.answers.pop_front();
                    self.send_answer(fw, cx, qpn, answer);
                }
            }
        }
        Turn { cost, more: false }
    }

    /// Sends an answer of one packet.
    fn send_answer(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, answer: Answer) {
        let (psn, kind) = match answer {
            Answer::Ack(psn) => (psn, Kind::Ack),
            Answer::Nak(psn, nak) => (psn, Kind::Nak(nak)),
            Answer::Atomic(psn, old) => (psn, Kind::AtomicData(old)),
            Answer::Read(_) => return,
        };
        let Some(qp) = fw.qps.get(qpn) else { return };
        let header = header(fw, qp, psn, 1, kind);
        if let Answer::Nak(_, nak) = answer
            && nak.is_final()
        {
            self.end_connection(fw, cx, qpn, nak);
        }
        // It has no payload that could be gone.
        let _ = self.transmit(fw, cx, &header, Payload::NONE);
    }

    /// Sends the next burst of a read that is first in line. Returns its bytes.
    fn send_data(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, read: Read) -> u64 {
        let Some(qp) = fw.qps.get_mut(qpn) else { return 0 };
        let mtu = path_mtu(qp);
        let watched = || self.wire.is_watched(cx.1);
        let count = burst_packets(packets(read.left, mtu), mtu, watched);
        let len = (u64::from(count) * mtu).min(read.left);
        let rest = Read {
            psn: read.psn.plus(count),
            addr: read.addr.wrapping_add(len),
            left: read.left - len,
            ..read
        };
        let answers = &mut qp.responder.answers;
        match answers.front_mut() {
            Some(front) if rest.left > 0 => *front = Answer::Read(rest),
            _ => drop(answers.pop_front()),
        }
        let Some(qp) = fw.qps.get(qpn) else { return 0 };
        let header = header(fw, qp, read.psn, count, Kind::ReadData);
        let mut source = std::mem::take(&mut self.scratch.source);
        let owner = Owner { pd: read.pd, qpn, probe: cx.1 };
        let range = Range { key: read.key, addr: read.addr, len };
        let found = match len {
            0 => Ok(()),
            _ => owner
                .reach(fw, range, Access::RemoteRead, &mut source)
                .map_err(|_| Nak::RemoteAccess),
        };
        let result = found.and_then(|()| {
            let payload = if len == 0 { Payload::NONE } else { Payload::Pieces(&source) };
            self.transmit(fw, cx, &header, payload).map_err(|_| Nak::RemoteOperation)
        });
        self.scratch.source = source;
        if let Err(nak) = result {
            if let Some(qp) = fw.qps.get_mut(qpn) {
                qp.responder.answers.clear();
            }
            self.send_answer(fw, cx, qpn, Answer::Nak(read.psn, nak));
        }
        len
    }

    /// A responder that refused a request for good goes to the error state; if no completion tells
    /// the driver, an event does.
    fn end_connection(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, nak: Nak) {
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        qp.responder.refused = false;
        if qp.state == State::Error {
            return;
        }
        qp.state = State::Error;
        let event = match nak {
            Nak::RemoteAccess => EventType::WQ_ACCESS_ERROR,
            _ => EventType::WQ_INVAL_REQ_ERROR,
        };
        completion::event(fw, cx, event, qpn);
        self.wake(fw, qpn);
    }
}

/// Whether a queue pair still answers: in the error state it does up to the refusal that led there.
fn answers(qp: &Qp) -> bool {
    qp.state.receives() || qp.responder.refused
}

//! The end of a connected service that executes requests: what comes in order is executed
//! ([`crate::execute`]), what came before is answered again, what came too early is asked for.
//! What a reliable service refuses is answered ([`crate::answer`]), what an unreliable one refuses
//! is dropped.

use firmware::Firmware;
use firmware::qp::State;
use firmware::qp::connection::{Answer, Arriving, Nak, Read};
use layouts::EventType;
use mtt::Access;

use crate::completion;
use crate::execute::{Done, Refusal, asker, judge};
use crate::memory::{Payload, SourceGone};
use crate::packet::{Header, Kind, Reth, Transport};
use crate::requester::packets;
use crate::{Cx, Engine};

impl Engine {
    /// A request arrives at the queue pair that it is for.
    pub(crate) fn request(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        header: &Header,
        payload: Payload,
    ) -> Result<(), SourceGone> {
        let qpn = header.dest_qpn;
        let Some(qp) = fw.qps.get_mut(qpn).filter(|qp| !qp.responder.refused) else {
            return Ok(());
        };
        if qp.state == State::Rtr && !qp.responder.established {
            qp.responder.established = true;
            completion::event(fw, cx, EventType::COMM_EST, qpn);
        }
        match header.transport {
            Transport::Uc => self.unreliable(fw, cx, header, payload),
            _ => self.reliable(fw, cx, header, payload),
        }
    }

    fn reliable(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        header: &Header,
        payload: Payload,
    ) -> Result<(), SourceGone> {
        let qpn = header.dest_qpn;
        let Some(qp) = fw.qps.get_mut(qpn) else { return Ok(()) };
        let responder = &mut qp.responder;
        let expected = responder.expected;
        match header.psn.since(expected) {
            0 => {}
            ..0 => {
                self.duplicate(fw, cx, header);
                return Ok(());
            }
            1.. => {
                let told = std::mem::replace(&mut responder.gap_told, true);
                fw.count(qpn, |counters| counters.out_of_sequence += 1);
                if !told {
                    self.reply(fw, cx, qpn, Answer::Nak(expected, Nak::Sequence));
                }
                return Ok(());
            }
        }
        responder.gap_told = false;
        let answer = match self.execute_request(fw, cx, header, payload) {
            Ok(Done::Ack) => Answer::Ack(expected.plus(header.packets - 1)),
            Ok(Done::Atomic(old)) => Answer::Atomic(expected, old),
            Ok(Done::Read(read)) => Answer::Read(read),
            Err(Refusal::SourceGone) => return Err(SourceGone),
            Err(Refusal::Nak(nak)) => {
                self.count_refusal(fw, qpn, nak);
                Answer::Nak(expected, nak)
            }
        };
        if let Answer::Ack(_) = answer
            && !asks_for_answer(&header.kind)
        {
            return Ok(());
        }
        self.reply(fw, cx, qpn, answer);
        Ok(())
    }

    fn unreliable(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        header: &Header,
        payload: Payload,
    ) -> Result<(), SourceGone> {
        let Some(qp) = fw.qps.get_mut(header.dest_qpn) else { return Ok(()) };
        let first = match header.kind {
            Kind::Send(part) | Kind::Write(part, _) => part.first,
            _ => return Ok(()),
        };
        let gap = header.psn != qp.responder.expected;
        if gap || first {
            // What has arrived of a message is lost with the rest, but not its receive.
            self.start_over(fw, header.dest_qpn);
        }
        if gap && !first {
            return Ok(());
        }
        if let Some(qp) = fw.qps.get_mut(header.dest_qpn) {
            qp.responder.expected = header.psn;
        }
        match self.execute_request(fw, cx, header, payload) {
            Ok(_) => Ok(()),
            Err(Refusal::SourceGone) => Err(SourceGone),
            Err(Refusal::Nak(nak)) => {
                log::trace!("QP {:#x}: a message is dropped: {nak:?}", header.dest_qpn);
                self.start_over(fw, header.dest_qpn);
                if let Some(qp) = fw.qps.get_mut(header.dest_qpn) {
                    qp.responder.expected = header.psn.plus(header.packets);
                }
                Ok(())
            }
        }
    }

    /// What has arrived of an unreliable message is forgotten. Its receive is the next one's.
    fn start_over(&mut self, fw: &mut Firmware, qpn: u32) {
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        let responder = &mut qp.responder;
        if let Some(Arriving::Send { receive, .. }) = responder.arriving.take() {
            responder.spare = Some(receive);
        }
    }

    /// A request that was executed before.
    fn duplicate(&mut self, fw: &mut Firmware, cx: Cx, header: &Header) {
        let (qpn, psn) = (header.dest_qpn, header.psn);
        fw.count(qpn, |counters| counters.duplicate_request += 1);
        let asker = asker(fw, header);
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        let expected = qp.responder.expected;
        match header.kind {
            // Part of it is new: that is to be sent again by itself.
            Kind::Send(_) | Kind::Write(..) if psn.plus(header.packets).since(expected) > 0 => {
                self.reply(fw, cx, qpn, Answer::Nak(expected, Nak::Sequence));
            }
            Kind::Send(_) | Kind::Write(..) if asks_for_answer(&header.kind) => {
                self.reply(fw, cx, qpn, Answer::Ack(expected.plus(u32::MAX)));
            }
            Kind::Atomic(_) => {
                let kept = qp.responder.atomics.iter().find(|(at, _)| *at == psn).copied();
                if let Some((psn, old)) = kept {
                    self.reply(fw, cx, qpn, Answer::Atomic(psn, old));
                }
            }
            Kind::Read(reth) => {
                let Ok(asker) = asker else { return };
                // The requester wants everything from here on again.
                let before = |answer: &Answer| match answer {
                    Answer::Read(read) => read.psn.since(psn) < 0,
                    Answer::Ack(at) | Answer::Nak(at, _) | Answer::Atomic(at, _) => {
                        at.since(psn) < 0
                    }
                };
                qp.responder.answers.retain(before);
                if packets(reth.len, asker.mtu) as i32 <= expected.since(psn)
                    && judge(fw, cx.1, asker, reth, Access::RemoteRead).is_ok()
                {
                    let Reth { addr, key, len } = reth;
                    let read = Read { psn, key, pd: asker.pd, addr, left: len };
                    self.reply(fw, cx, qpn, Answer::Read(read));
                }
            }
            _ => {}
        }
    }

    fn count_refusal(&mut self, fw: &mut Firmware, qpn: u32, nak: Nak) {
        fw.count(qpn, |counters| match nak {
            Nak::InvalidRequest => counters.resp_remote_invalid_request += 1,
            Nak::RemoteAccess => counters.resp_remote_access_errors += 1,
            Nak::NotReady(_) | Nak::Sequence | Nak::RemoteOperation => {}
        });
    }
}

/// Whether a packet asks to be acknowledged: the last of a message does.
fn asks_for_answer(kind: &Kind) -> bool {
    match kind {
        Kind::Send(part) | Kind::Write(part, _) => part.last,
        _ => true,
    }
}

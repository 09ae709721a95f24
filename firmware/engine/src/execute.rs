//! Requests of connected services, executed: judged in the order of IBA 9.7.4 (sequence of packets,
//! operation, receive, key), and then carried out in guest memory.

use firmware::Firmware;
use firmware::qp::connection::{Answer, Arriving, Nak, Psn, Read, Receive};
use firmware::srq;
use layouts::CqeOpcode;
use mtt::{Access, Place};
use probe::Probe;

use crate::atomic;
use crate::completion;
use crate::memory::{Fault, Owner, Payload};
use crate::packet::{Header, Kind, Operation, Part, Reth, Tail, Transport};
use crate::receive::Misplaced;
use crate::requester::{packets, path_mtu};
use crate::wqe::Range;
use crate::{Cx, Engine};

/// Why a request is not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Answered so.
    Nak(Nak),
    /// What it carries can't be read at its source.
    SourceGone,
}

impl From<Nak> for Refusal {
    fn from(nak: Nak) -> Self {
        Self::Nak(nak)
    }
}

/// What an executed request is answered with.
pub enum Done {
    /// An acknowledgement.
    Ack,
    /// What memory held before.
    Atomic(u64),
    /// Data.
    Read(Read),
}

/// Who asks, and with which rights.
#[derive(Clone, Copy)]
pub struct Asker {
    /// The queue pair that executes the request.
    pub qpn: u32,
    /// Protection domain of remote keys.
    pub pd: Option<u32>,
    /// The shared receive queue that an XRC request names.
    pub srqn: Option<u32>,
    /// Bytes of a packet's payload.
    pub mtu: u64,
}

impl Engine {
    /// Executes a request whose PSN is the one expected. When it is refused, nothing has changed
    /// but what a failed receive leads to.
    pub(crate) fn execute_request(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        header: &Header,
        payload: Payload,
    ) -> Result<Done, Refusal> {
        let asker = asker(fw, header)?;
        let qp = fw.qps.get(asker.qpn).ok_or(Nak::InvalidRequest)?;
        let goes_on = qp.responder.arriving.is_some();
        let fits = payload.len() <= u64::from(header.packets) * asker.mtu;
        let (done, packets) = match header.kind {
            Kind::Send(part) if fits => {
                (self.receive_send(fw, cx, asker, part, payload)?, header.packets)
            }
            Kind::Write(part, reth) if fits => {
                (self.write(fw, cx, asker, part, reth, payload)?, header.packets)
            }
            Kind::Read(reth) if !goes_on => {
                let count = packets(reth.len, asker.mtu);
                (read(fw, cx.1, header.psn, asker, reth)?, count)
            }
            Kind::Atomic(operation) if !goes_on => {
                (atomic(fw, cx, header.psn, asker, &operation)?, 1)
            }
            _ => return Err(Nak::InvalidRequest.into()),
        };
        if let Some(qp) = fw.qps.get_mut(asker.qpn) {
            let responder = &mut qp.responder;
            responder.expected = responder.expected.plus(packets);
            let whole = match header.kind {
                Kind::Send(part) | Kind::Write(part, _) => part.last,
                _ => true,
            };
            responder.msn = responder.msn.wrapping_add(whole.into()) & 0xff_ffff;
        }
        Ok(done)
    }

    /// Packets of a send.
    fn receive_send(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        asker: Asker,
        part: Part,
        payload: Payload,
    ) -> Result<Done, Refusal> {
        let qpn = asker.qpn;
        let arriving = fw.qps.get_mut(qpn).and_then(|qp| qp.responder.arriving.take());
        let (receive, at) = match (part.first, arriving) {
            (true, None) => {
                let receive = self.take_receive(fw, cx, qpn, asker.srqn);
                (Box::new(receive.ok_or_else(|| not_ready(fw, qpn))?), 0)
            }
            (false, Some(Arriving::Send { receive, at })) => (receive, at),
            (_, arriving) => {
                if let Some(qp) = fw.qps.get_mut(qpn) {
                    qp.responder.arriving = arriving;
                }
                return Err(Nak::InvalidRequest.into());
            }
        };
        let len = payload.len();
        let whole = part.first && part.last;
        match self.place(fw, cx, qpn, &receive, (at, whole), payload) {
            Ok(()) => {}
            Err(Misplaced::SourceGone) => {
                self.give_back(fw, qpn, receive, at);
                return Err(Refusal::SourceGone);
            }
            Err(Misplaced::Receive(why)) => {
                self.fail_receive(fw, cx, qpn, &receive, why);
                return Err(match why {
                    completion::BAD_LENGTH => Nak::InvalidRequest.into(),
                    _ => Nak::RemoteOperation.into(),
                });
            }
        }
        if !part.last {
            self.give_back(fw, qpn, receive, at + len);
            return Ok(Done::Ack);
        }
        if let Tail::Invalidate(key) = part.tail
            && let Err(cause) =
                fw.mtt.invalidate(key, receive.pd.or(asker.pd).unwrap_or(u32::MAX), qpn)
        {
            log::trace!("QP {qpn:#x}: a peer may not invalidate key {key:#x}: {cause}");
            self.fail_receive(fw, cx, qpn, &receive, completion::Failure::refused(cause));
            return Err(Nak::RemoteAccess.into());
        }
        let kind = match part.tail {
            Tail::None => CqeOpcode::RESP_SEND,
            Tail::Immediate(_) => CqeOpcode::RESP_SEND_IMM,
            Tail::Invalidate(_) => CqeOpcode::RESP_SEND_INV,
        };
        self.complete_receive(fw, cx, qpn, &receive, kind, &part, at + len);
        Ok(Done::Ack)
    }

    /// Keeps the receive of a message of which more is to come.
    fn give_back(&mut self, fw: &mut Firmware, qpn: u32, receive: Box<Receive>, at: u64) {
        if let Some(qp) = fw.qps.get_mut(qpn) {
            qp.responder.arriving = Some(Arriving::Send { receive, at });
        }
    }

    /// Packets of a write.
    fn write(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        asker: Asker,
        part: Part,
        reth: Option<Reth>,
        payload: Payload,
    ) -> Result<Done, Refusal> {
        let qpn = asker.qpn;
        let qp = fw.qps.get(qpn).ok_or(Nak::InvalidRequest)?;
        let (Reth { addr, key, len }, at) = match (&qp.responder.arriving, reth) {
            (None, Some(reth)) if part.first => (reth, 0),
            (&Some(Arriving::Write { key, addr, len, at }), None) if !part.first => {
                (Reth { addr, key, len }, at)
            }
            _ => return Err(Nak::InvalidRequest.into()),
        };
        let end = at + payload.len();
        if !qp.context().rwe() || end > len || part.last != (end == len) {
            return Err(Nak::InvalidRequest.into());
        }
        if part.first && !part.last {
            judge(fw, cx.1, asker, Reth { addr, key, len }, Access::RemoteWrite)?;
        }
        let range = Range { key, addr: addr.wrapping_add(at), len: payload.len() };
        let mut target = std::mem::take(&mut self.scratch.target);
        let result = self.write_range(fw, cx, asker, (part, len), range, payload, &mut target);
        self.scratch.target = target;
        result?;
        let Some(qp) = fw.qps.get_mut(qpn) else { return Ok(Done::Ack) };
        qp.responder.arriving = (!part.last).then_some(Arriving::Write { key, addr, len, at: end });
        if part.last {
            fw.count(qpn, |counters| counters.rx_write_requests += 1);
        }
        Ok(Done::Ack)
    }

    /// Writes a part of a message, and completes a receive if it has immediate data.
    #[allow(clippy::too_many_arguments)]
    fn write_range(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        asker: Asker,
        (part, len): (Part, u64),
        range: Range,
        payload: Payload,
        target: &mut mtt::Pieces,
    ) -> Result<(), Refusal> {
        let qpn = asker.qpn;
        target.clear();
        if range.len > 0 {
            let owner = Owner { pd: asker.pd, qpn, probe: cx.1 };
            owner.reach(fw, range, Access::RemoteWrite, target).map_err(|_| Nak::RemoteAccess)?;
        }
        let receive = match part.tail {
            Tail::Immediate(_) => {
                let receive = self.take_receive(fw, cx, qpn, asker.srqn);
                Some(receive.ok_or_else(|| not_ready(fw, qpn))?)
            }
            _ => None,
        };
        let written = payload.write_to(cx.0, target);
        match (&written, &receive) {
            (Ok(()), Some(receive)) => {
                let kind = CqeOpcode::RESP_WR_IMM;
                self.complete_receive(fw, cx, qpn, receive, kind, &part, len);
            }
            // Its receive is used up all the same.
            (Err(_), Some(receive)) => {
                self.fail_receive(fw, cx, qpn, receive, completion::NO_MEMORY);
            }
            (_, None) => {}
        }
        written.map_err(|fault| match fault {
            Fault::Source => Refusal::SourceGone,
            Fault::Target => Nak::RemoteOperation.into(),
        })
    }
}

/// Who asks. An XRC request has the rights of the shared receive queue that it names.
pub fn asker(fw: &Firmware, header: &Header) -> Result<Asker, Nak> {
    let qpn = header.dest_qpn;
    let qp = fw.qps.get(qpn).ok_or(Nak::InvalidRequest)?;
    let mtu = path_mtu(qp);
    match header.transport {
        Transport::Xrc { srqn } => {
            let here = |srq: &&srq::Srq| srq.kind == srq::Kind::Xrc && srq.xrcd == qp.xrcd;
            let srq = fw.srqs.get(srqn).filter(here).ok_or(Nak::InvalidRequest)?;
            Ok(Asker { qpn, pd: Some(srq.pd), srqn: Some(srqn), mtu })
        }
        _ => Ok(Asker { qpn, pd: qp.pd, srqn: None, mtu }),
    }
}

fn not_ready(fw: &mut Firmware, qpn: u32) -> Nak {
    fw.count(qpn, |counters| counters.out_of_buffer += 1);
    let code = fw.qps.get(qpn).map_or(0, |qp| qp.context().min_rnr_nak());
    Nak::NotReady(code)
}

/// Whether a whole message may reach its memory, as far as its key's context tells.
pub fn judge(
    fw: &Firmware,
    probe: &Probe,
    asker: Asker,
    reth: Reth,
    access: Access,
) -> Result<(), Nak> {
    let Reth { addr, key, len } = reth;
    if len == 0 {
        return Ok(());
    }
    let end = addr.checked_add(len).ok_or(Nak::RemoteAccess)?;
    let owner = Owner { pd: asker.pd, qpn: asker.qpn, probe };
    let mut none = mtt::Pieces::new();
    [addr, end].into_iter().try_for_each(|addr| {
        let range = Range { key, addr, len: 0 };
        owner.reach(fw, range, access, &mut none).map_err(|_| Nak::RemoteAccess)
    })
}

/// A read: judged now, answered piece by piece.
fn read(
    fw: &mut Firmware,
    probe: &Probe,
    psn: Psn,
    asker: Asker,
    reth: Reth,
) -> Result<Done, Refusal> {
    let qp = fw.qps.get(asker.qpn).ok_or(Nak::InvalidRequest)?;
    let context = qp.context();
    let waiting = |answer: &&Answer| matches!(answer, Answer::Read(_));
    let full = qp.responder.answers.iter().filter(waiting).count() >> context.log_rra_max() != 0;
    if !context.rre() || full || reth.len > 1 << firmware::qp::state::LOG_MAX_MESSAGE {
        return Err(Nak::InvalidRequest.into());
    }
    judge(fw, probe, asker, reth, Access::RemoteRead)?;
    fw.count(asker.qpn, |counters| counters.rx_read_requests += 1);
    let Reth { addr, key, len } = reth;
    Ok(Done::Read(Read { psn, key, pd: asker.pd, addr, left: len }))
}

/// An atomic operation.
fn atomic(
    fw: &mut Firmware,
    cx: Cx,
    psn: Psn,
    asker: Asker,
    operation: &Operation,
) -> Result<Done, Refusal> {
    let Operation { addr, key, size, .. } = *operation;
    let qp = fw.qps.get(asker.qpn).ok_or(Nak::InvalidRequest)?;
    let context = qp.context();
    let kept = 1usize << context.log_rra_max().min(firmware::qp::state::LOG_MAX_READS);
    if !context.rae() || !addr.is_multiple_of(size.into()) {
        return Err(Nak::InvalidRequest.into());
    }
    let owner = Owner { pd: asker.pd, qpn: asker.qpn, probe: cx.1 };
    let mut pieces = mtt::Pieces::new();
    let range = Range { key, addr, len: size.into() };
    owner.reach(fw, range, Access::RemoteAtomic, &mut pieces).map_err(|_| Nak::RemoteAccess)?;
    let old = match pieces.as_slice() {
        [piece] => match piece.place {
            Place::Memory(at) if at.is_multiple_of(size.into()) => {
                atomic::execute(cx.0, at, operation).ok().flatten()
            }
            Place::Memory(_) => None,
            Place::Null => Some(0),
        },
        // It can't be done at once on memory that is not together.
        _ => None,
    };
    let old = old.ok_or(Nak::RemoteOperation)?;
    fw.count(asker.qpn, |counters| counters.rx_atomic_requests += 1);
    if let Some(qp) = fw.qps.get_mut(asker.qpn) {
        let atomics = &mut qp.responder.atomics;
        while atomics.len() >= kept {
            atomics.pop_front();
        }
        atomics.push_back((psn, old));
    }
    Ok(Done::Atomic(old))
}

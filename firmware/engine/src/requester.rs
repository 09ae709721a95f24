//! The end of a connected service that sends requests: messages are cut into bursts, and what is
//! not answered is sent again. What comes back is in [`crate::acknowledge`].
//!
//! Nothing of a message is kept but where its WQE is: a packet that is sent again is made from the
//! WQE and memory again, as they are then.

use firmware::Firmware;
use firmware::qp::connection::{Awaits, Cut, Psn, Sent};
use firmware::qp::{Qp, Service};
use layouts::{CqeSyndrome, WqeOpcode};
use mtt::Access;

use crate::completion::{BAD_LENGTH, BAD_WQE, Failure, NO_MEMORY, RETRIES_EXCEEDED};
use crate::memory::{Owner, Payload};
use crate::message::{Kind as Asks, Message};
use crate::packet::{Header, Kind, Part, Reth, Tail, Transport, ack_timeout_ns};
use crate::timers::Timer;
use crate::turn::{Step, TURN, WQE_COST};
use crate::wqe::Wqe;
use crate::{Cx, Engine};

/// Most bytes of a burst.
const BURST: u64 = TURN as u64;

/// Bytes of a packet's payload, for a queue pair.
pub fn path_mtu(qp: &Qp) -> u64 {
    128 << qp.context().mtu().clamp(1, 5)
}

/// How many packets `len` bytes take; none is one packet too.
pub fn packets(len: u64, mtu: u64) -> u32 {
    len.div_ceil(mtu).max(1) as u32
}

/// How many of the `left` packets of a message the next burst has.
pub fn burst_packets(left: u32, mtu: u64, watched: impl FnOnce() -> bool) -> u32 {
    if left <= 1 || watched() { left.min(1) } else { left.min((BURST / mtu).max(1) as u32) }
}

/// A header from this queue pair to its peer.
pub fn header(fw: &Firmware, qp: &Qp, psn: Psn, packets: u32, kind: Kind) -> Header {
    let (context, lid) = (qp.context(), fw.port.identity.lid);
    let path = context.primary_address_path();
    let transport = match qp.service {
        Service::Uc => Transport::Uc,
        Service::Xrc => Transport::Xrc { srqn: 0 },
        _ => Transport::Rc,
    };
    Header {
        src_lid: lid,
        // Loopback may be asked for, whatever the LID.
        dest_lid: if path.fl() { lid } else { path.rlid() },
        pkey: fw.port.pkey(path.pkey_index().into()).unwrap_or(0),
        transport,
        dest_qpn: context.remote_qpn(),
        psn,
        packets,
        kind,
    }
}

impl Engine {
    /// Begins the message of the WQE that is next in the ring.
    pub(crate) fn begin_message(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        qpn: u32,
        wqe: &Wqe,
        message: &Message,
    ) -> Result<Step, Failure> {
        let qp = fw.qps.get(qpn).ok_or(BAD_WQE)?;
        let (context, service) = (qp.context(), qp.service);
        let (listed, _) = wqe.extent(message.data)?;
        let (len, awaits) = match message.kind {
            Asks::Send(_) | Asks::Write { .. } if service == Service::Uc => {
                (listed, Awaits::Nothing)
            }
            Asks::Send(_) | Asks::Write { .. } => (listed, Awaits::Ack),
            Asks::Read { .. } => (listed, Awaits::Data),
            Asks::Atomic(operation) => (operation.size.into(), Awaits::Data),
        };
        if len > 1 << context.log_msg_max().min(firmware::qp::state::LOG_MAX_MESSAGE) {
            return Err(BAD_LENGTH);
        }
        if awaits == Awaits::Data && qp.requester.reads >> context.log_sra_max() != 0 {
            return Ok(Step::Waits);
        }
        let mtu = path_mtu(qp);
        let taken = self.take_from_ring(fw, cx, qpn, wqe).ok_or(BAD_WQE)?;
        let sent = Sent { len, packets: packets(len, mtu), awaits, ..taken };
        let requester = &mut fw.qps.get_mut(qpn).ok_or(BAD_WQE)?.requester;
        requester.next = requester.next.plus(sent.packets);
        requester.reads += u32::from(awaits == Awaits::Data);
        requester.in_flight.push_back(sent);
        Ok(self.push(fw, cx, qpn, wqe, message))
    }

    /// Goes on with the oldest message of which packets are to be sent.
    pub(crate) fn go_on(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32) -> Step {
        let Some(qp) = fw.qps.get_mut(qpn) else { return Step::Empty };
        let requester = &mut qp.requester;
        let Some(sent) = requester.in_flight.get(requester.sending).copied() else {
            return Step::Empty;
        };
        if sent.sent == sent.packets {
            requester.sending += 1;
            return Step::Did(0);
        }
        let mut wqe = Wqe::default();
        if wqe.fetch_again(cx.0, qp, &sent).is_none() {
            self.break_down(fw, cx, qpn, "its buffer is not mapped");
            return Step::Did(WQE_COST);
        }
        // The guest may have written over it since.
        match Message::parse(qp.service, &wqe) {
            Some(Ok(message)) if wqe.opcode() == sent.opcode && !wqe.malformed => {
                self.push(fw, cx, qpn, &wqe, &message)
            }
            _ => self.fail_sending(fw, cx, qpn, &sent, BAD_WQE),
        }
    }

    /// Sends a burst of the message that is being sent.
    fn push(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, wqe: &Wqe, message: &Message) -> Step {
        let Some(qp) = fw.qps.get(qpn) else { return Step::Empty };
        let requester = &qp.requester;
        let Some(sent) = requester.in_flight.get(requester.sending).copied() else {
            return Step::Empty;
        };
        match self.push_burst(fw, cx, qpn, &sent, wqe, message) {
            Err(why) => self.fail_sending(fw, cx, qpn, &sent, why),
            Ok(bytes) => {
                if sent.awaits == Awaits::Nothing {
                    self.retire(fw, cx, qpn);
                }
                Step::Did(WQE_COST + bytes as usize)
            }
        }
    }

    /// Sends the next packets of a message.
    fn push_burst(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        qpn: u32,
        sent: &Sent,
        wqe: &Wqe,
        message: &Message,
    ) -> Result<u64, Failure> {
        let qp = fw.qps.get(qpn).ok_or(BAD_WQE)?;
        let mut left = sent.packets - sent.sent;
        if let Some(cut) = qp.requester.cut.filter(|cut| cut.wqe == sent.wqe) {
            left = left.min(sent.before(&cut));
            if left == 0 {
                let Cut { syndrome, vendor, .. } = cut;
                return Err(Failure { syndrome: CqeSyndrome(syndrome), vendor });
            }
        }
        let (mtu, owner) = (path_mtu(qp), Owner { pd: qp.pd, qpn, probe: cx.1 });
        let done = u64::from(sent.sent) * mtu;
        let (psn, packets, len, kind) = match message.kind {
            Asks::Send(tail) | Asks::Write { tail, .. } => {
                let packets = burst_packets(left, mtu, || self.wire.is_watched(cx.1));
                let last = sent.sent + packets == sent.packets;
                let part = Part {
                    first: sent.sent == 0,
                    last,
                    solicited: last && wqe.ctrl().se(),
                    tail: if last { tail } else { Tail::None },
                };
                let len = (u64::from(packets) * mtu).min(sent.len.saturating_sub(done));
                let kind = match message.kind {
                    Asks::Write { addr, key, .. } => {
                        let reth = Reth { addr, key, len: sent.len };
                        Kind::Write(part, part.first.then_some(reth))
                    }
                    _ => Kind::Send(part),
                };
                (sent.first.plus(sent.sent), packets, len, kind)
            }
            Asks::Read { addr, key } => {
                // Of a read, what was answered already is not asked for again.
                let have = u64::from(sent.answered) * mtu;
                let (addr, len) = (addr.wrapping_add(have), sent.len.saturating_sub(have));
                (sent.first.plus(sent.answered), 1, 0, Kind::Read(Reth { addr, key, len }))
            }
            Asks::Atomic(operation) => (sent.first, 1, 0, Kind::Atomic(operation)),
        };
        let mut header = header(fw, qp, psn, packets, kind);
        if let Some(srqn) = message.srqn {
            header.transport = Transport::Xrc { srqn };
        }
        let mut source = std::mem::take(&mut self.scratch.source);
        let mut bytes = std::mem::take(&mut self.scratch.payload);
        let result = match len {
            0 => Ok(Payload::NONE),
            _ => {
                let span = (done, len);
                self.gather(fw, cx, owner, wqe, message.data, span, (&mut source, &mut bytes))
            }
        };
        let result = result.and_then(|payload| {
            let all = matches!(kind, Kind::Read(_) | Kind::Atomic(_));
            self.note_sent(fw, qpn, sent, if all { sent.packets } else { sent.sent + packets });
            self.transmit(fw, cx, &header, payload).map_err(|_| NO_MEMORY)
        });
        self.scratch.source = source;
        self.scratch.payload = bytes;
        result.map(|()| len)
    }

    /// Where the bytes of a part of a message are.
    #[allow(clippy::too_many_arguments)]
    fn gather<'a>(
        &mut self,
        fw: &Firmware,
        cx: Cx,
        owner: Owner,
        wqe: &'a Wqe,
        data: usize,
        (skip, len): (u64, u64),
        (source, bytes): (&'a mut mtt::Pieces, &'a mut Vec<u8>),
    ) -> Result<Payload<'a>, Failure> {
        let (listed, inline) = wqe.extent(data)?;
        if skip.checked_add(len).is_none_or(|end| end > listed) {
            return Err(BAD_WQE);
        }
        let part = &mut self.scratch.part;
        if !inline {
            let ranges = wqe.ranges(data);
            owner.translate_list(fw, ranges, (skip, len), Access::LocalRead, (source, part))?;
            return Ok(Payload::Pieces(source));
        }
        wqe.copy_data(data, bytes, |range, bytes| {
            owner.translate(fw, range, Access::LocalRead, part)?;
            crate::memory::read_all(cx.0, part, bytes)
        })?;
        let (skip, len) = (skip as usize, len as usize);
        bytes.get(skip..).and_then(|rest| rest.get(..len)).map(Payload::Bytes).ok_or(BAD_WQE)
    }

    /// Notes how many packets of the message that is being sent were sent, before they are: their
    /// answer may come at once.
    fn note_sent(&mut self, fw: &mut Firmware, qpn: u32, sent: &Sent, packets: u32) {
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        let requester = &mut qp.requester;
        if let Some(entry) = requester.in_flight.get_mut(requester.sending) {
            entry.sent = packets;
        }
        requester.sending += usize::from(packets == sent.packets);
    }

    /// A message can't be sent, for a reason of this side. It fails when it is the oldest; until
    /// then it stays as it was.
    fn fail_sending(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        qpn: u32,
        sent: &Sent,
        why: Failure,
    ) -> Step {
        let Some(qp) = fw.qps.get_mut(qpn) else { return Step::Empty };
        let requester = &mut qp.requester;
        let of_it = |other: &Sent| other.wqe == sent.wqe && other.first == sent.first;
        match requester.in_flight.iter().position(of_it) {
            None => Step::Did(WQE_COST),
            Some(0) => {
                self.fail_oldest(fw, cx, qpn, why);
                Step::Did(WQE_COST)
            }
            Some(position) => {
                requester.sending = position;
                if let Some(entry) = requester.in_flight.get_mut(position) {
                    entry.sent = sent.sent;
                }
                Step::Waits
            }
        }
    }

    /// Completes what is done, in order.
    pub(crate) fn retire(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32) {
        while let Some(qp) = fw.qps.get_mut(qpn) {
            let requester = &mut qp.requester;
            let over = |sent: &Sent| sent.awaits == Awaits::Nothing && sent.sent == sent.packets;
            if !requester.in_flight.front().is_some_and(over) {
                return;
            }
            let Some(sent) = requester.in_flight.pop_front() else { return };
            requester.sending = requester.sending.saturating_sub(1);
            requester.reads -= u32::from(is_read(sent.opcode)).min(requester.reads);
            self.complete_send(fw, cx, qpn, &sent);
        }
    }

    /// Sends everything from this packet on again.
    pub(crate) fn go_back(&mut self, fw: &mut Firmware, qpn: u32, psn: Psn) {
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        let requester = &mut qp.requester;
        let mut first = requester.in_flight.len();
        for (n, sent) in requester.in_flight.iter_mut().enumerate() {
            let into = psn.since(sent.first);
            if sent.packets == 0 || into >= sent.packets as i32 || sent.sent == 0 {
                continue;
            }
            first = first.min(n);
            sent.sent = match sent.awaits {
                Awaits::Data => 0,
                _ => into.max(0) as u32,
            };
        }
        requester.sending = requester.sending.min(first);
        self.wake(fw, qpn);
    }

    /// Sees to it that a packet that gets no answer is noticed.
    pub(crate) fn watch(&mut self, fw: &mut Firmware, qpn: u32) {
        let now = fw.now;
        let Some(qp) = fw.qps.get_mut(qpn).filter(|qp| qp.service.is_reliable()) else { return };
        let timeout = ack_timeout_ns(qp.context().primary_address_path().ack_timeout());
        let requester = &mut qp.requester;
        let waits = requester.in_flight.front().is_some_and(|sent| sent.sent > 0)
            && !requester.rnr_wait
            && qp.state.sends();
        match (waits, timeout) {
            (true, Some(timeout)) => {
                let deadline =
                    *requester.deadline.get_or_insert_with(|| now.saturating_add(timeout));
                if !requester.timer {
                    requester.timer = true;
                    self.timers.set(Timer::Unanswered(qpn), deadline, 0);
                }
            }
            _ => requester.deadline = None,
        }
    }

    /// The time has come at which a packet counts as lost, or at which one did that was answered
    /// since.
    pub(crate) fn unanswered(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32) {
        let now = fw.now;
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        let requester = &mut qp.requester;
        requester.timer = false;
        let Some(deadline) = requester.deadline else { return };
        if deadline <= now && qp.state.sends() {
            requester.deadline = None;
            fw.count(qpn, |counters| counters.local_ack_timeout_err += 1);
            self.send_again(fw, cx, qpn);
        }
        self.watch(fw, qpn);
    }

    /// Sends again what was not answered, if that was not tried too often.
    pub(crate) fn send_again(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32) {
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        let requester = &mut qp.requester;
        let Some(oldest) = requester.in_flight.front().copied() else { return };
        match requester.retries.checked_sub(1) {
            Some(left) => {
                requester.retries = left;
                self.go_back(fw, qpn, oldest.first.plus(oldest.answered));
            }
            None => self.fail_oldest(fw, cx, qpn, RETRIES_EXCEEDED),
        }
    }

    /// The oldest work request in flight fails.
    pub(crate) fn fail_oldest(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, why: Failure) {
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        let requester = &mut qp.requester;
        requester.deadline = None;
        if let Some(sent) = requester.in_flight.pop_front() {
            requester.sending = requester.sending.saturating_sub(1);
            self.fail_send(fw, cx, qpn, &sent, why);
        }
    }
}

/// Reads and atomics, of which only so many may be in flight.
fn is_read(opcode: WqeOpcode) -> bool {
    matches!(
        opcode,
        WqeOpcode::RDMA_READ
            | WqeOpcode::ATOMIC_CS
            | WqeOpcode::ATOMIC_FA
            | WqeOpcode::ATOMIC_MASKED_CS
            | WqeOpcode::ATOMIC_MASKED_FA
    )
}

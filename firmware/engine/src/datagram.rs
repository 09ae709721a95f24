//! Unreliable datagrams, of queue pairs 0 and 1 too: a packet is made of a WQE, and one that is
//! for this port, or for a group that has members here, is received at once. What asks the port's
//! own agent is answered. Nobody else is on this fabric: any other packet is lost, as its sender
//! must expect.

use firmware::Firmware;
use firmware::pma;
use firmware::port::GIDS;
use firmware::qp::{Receives, Service};
use layouts::{CqeOpcode, WqeDatagramSeg, WqeOpcode};
use mtt::Access;

use crate::completion::{BAD_LENGTH, BAD_WQE, Failure, NO_MEMORY};
use crate::headers::{GRH, Grh, HEADERS, IMMEDIATE, Packet};
use crate::memory::{Owner, Payload, read_all};
use crate::points;
use crate::receive::{self, Misplaced};
use crate::wire::{Fate, OnTheWay, What, fate_of};
use crate::wqe::Wqe;
use crate::{Cx, Engine};

/// Where the segments begin.
const AV: usize = 16;
const DATA: usize = 64;
/// Path MTU codes (IBA 9.4.3): 256 bytes shifted.
const SMALLEST_MTU: u32 = 128;
/// With this bit a Q_Key stands for the queue pair's own (IBA 10.2.5).
const OWN_QKEY: u32 = 1 << 31;
/// P_Key: full member (IBA 10.9.1).
const FULL_MEMBER: u16 = 1 << 15;
/// The Q_Key of general services (IBA 10.2.4).
const QP1_QKEY: u32 = 0x8001_0000;
/// Value of a CQE's GRH bits: it is in the buffer.
const GRH_IN_BUFFER: u8 = 1;
impl Engine {
    /// Sends the datagram that a WQE describes. Returns how many bytes it has.
    pub(crate) fn send_datagram(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        qpn: u32,
        wqe: &Wqe,
    ) -> Result<usize, Failure> {
        let mut payload = std::mem::take(&mut self.scratch.payload);
        let result = self.datagram(fw, cx, qpn, wqe, &mut payload);
        self.scratch.payload = payload;
        result
    }

    fn datagram(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        qpn: u32,
        wqe: &Wqe,
        payload: &mut Vec<u8>,
    ) -> Result<usize, Failure> {
        let qp = fw.qps.get(qpn).ok_or(BAD_WQE)?;
        let owner = Owner { pd: qp.pd, qpn, probe: cx.1 };
        if wqe.extent(DATA)?.0 > u64::from(SMALLEST_MTU << qp.context().mtu().clamp(1, 5)) {
            return Err(BAD_LENGTH);
        }
        let pieces = &mut self.scratch.part;
        wqe.copy_data(DATA, payload, |range, payload| {
            owner.translate(fw, range, Access::LocalRead, pieces)?;
            read_all(cx.0, pieces, payload)
        })?;
        let packet = address(fw, qpn, wqe, payload.len())?;
        let octets = packet.octets(payload.len());
        match packet.group() {
            None => fw.port.counters.transmitted_unicast.add(1, octets),
            Some(_) => fw.port.counters.transmitted_multicast.add(1, octets),
        }
        let len = payload.len();
        match points::datagram_sent(cx, packet.dest_qpn, len).and_then(fate_of) {
            None | Some(Fate::Arrives) => self.datagram_arrives(fw, cx, packet, payload),
            Some(Fate::Lost) => self.lose(|| packet.to_string(), "cut"),
            Some(Fate::Twice) => {
                self.datagram_arrives(fw, cx, packet.clone(), payload);
                self.datagram_arrives(fw, cx, packet, payload);
            }
            Some(Fate::Late(ns)) => {
                let late = OnTheWay { what: What::Datagram(packet), bytes: payload.clone() };
                if !self.wire.keep(fw.now.saturating_add(ns), late) {
                    self.lose(|| "a datagram".into(), "too much is on its way");
                }
            }
        }
        Ok(len)
    }

    /// A packet arrives at whom it is for.
    pub(crate) fn datagram_arrives(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        packet: Packet,
        payload: &mut [u8],
    ) {
        let octets = packet.octets(payload.len());
        match packet.group() {
            _ if !fw.port.up => self.lose(|| packet.to_string(), "the port is down"),
            Some(gid) => {
                let sender = packet.sender;
                let own_too = fw.qps.get(sender).is_some_and(|qp| !qp.context().block_lb_mc());
                let members = fw.port.multicast.members(&gid);
                let members: Vec<u32> = members.filter(|&m| own_too || m != sender).collect();
                if members.is_empty() {
                    self.lose(|| packet.to_string(), "its group has no members");
                } else {
                    fw.port.counters.received_multicast.add(1, octets);
                }
                for member in members {
                    self.receive_datagram(fw, cx, &packet, Some(member), payload);
                }
            }
            None if packet.dest_lid == fw.port.identity.lid => {
                fw.port.counters.received_unicast.add(1, octets);
                if packet.dest_qpn == 1 && packet.qkey == QP1_QKEY && pma::is_request(payload) {
                    self.answer_datagram(fw, cx, packet, payload);
                } else {
                    self.receive_datagram(fw, cx, &packet, receiver(fw, &packet), payload);
                }
            }
            None => self.lose(|| packet.to_string(), "nobody else is on this fabric"),
        }
    }

    /// The port's own agent answers a packet.
    fn answer_datagram(&mut self, fw: &mut Firmware, cx: Cx, request: Packet, mad: &mut [u8]) {
        pma::answer(fw, mad);
        let grh = request.grh.map(|mut grh| {
            let (source, destination) = (Grh(&grh).sgid(), Grh(&grh).dgid());
            let mut back = Grh(&mut grh[..]);
            back.set_sgid(&destination);
            back.set_dgid(&source);
            grh
        });
        let answer = Packet {
            src_lid: request.dest_lid,
            dest_lid: request.src_lid,
            grh,
            dest_qpn: request.src_qpn,
            src_qpn: 1,
            solicited: false,
            immediate: None,
            ..request
        };
        let octets = answer.octets(mad.len());
        fw.port.counters.transmitted_unicast.add(1, octets);
        fw.port.counters.received_unicast.add(1, octets);
        self.receive_datagram(fw, cx, &answer, receiver(fw, &answer), mad);
    }

    /// A packet that arrives at this port, for a queue pair. What does not fit its receiver is
    /// dropped, as a network of datagrams may.
    fn receive_datagram(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        packet: &Packet,
        receiver: Option<u32>,
        payload: &[u8],
    ) {
        let Some(qpn) = receiver.filter(|&qpn| takes(fw, packet, qpn)) else {
            self.lose(|| packet.to_string(), "no queue pair takes it at this LID");
            return;
        };
        let Some(receive) = self.take_receive(fw, cx, qpn, None) else {
            fw.count(qpn, |counters| counters.out_of_buffer += 1);
            self.lose(|| packet.to_string(), "its receiver has no receive WQE");
            return;
        };
        let mut put = |at, bytes: &[u8]| {
            self.place(fw, cx, qpn, &receive, (at, false), Payload::Bytes(bytes))
        };
        let header = packet.grh.map_or(Ok(()), |grh| put(0, &grh));
        let written = header.and_then(|()| put(GRH as u64, payload));
        if let Err(why) = written {
            let why = match why {
                Misplaced::Receive(why) => why,
                Misplaced::SourceGone => NO_MEMORY,
            };
            self.fail_receive(fw, cx, qpn, &receive, why);
            return;
        }
        let kind = match packet.immediate {
            Some(_) => CqeOpcode::RESP_SEND_IMM,
            None => CqeOpcode::RESP_SEND,
        };
        let mut entry = receive::completion_of(qpn, &receive).done(kind);
        entry.set_byte_cnt((GRH + payload.len()) as u32);
        entry.set_slid(packet.src_lid);
        entry.set_sl(packet.sl);
        entry.set_rqpn(packet.src_qpn);
        entry.set_grh(if packet.grh.is_some() { GRH_IN_BUFFER } else { 0 });
        entry.set_immediate(packet.immediate.unwrap_or(packet.pkey.into()));
        entry.set_se(packet.solicited);
        self.finish_receive(fw, cx, qpn, receive.cqn, entry);
    }
}

/// The headers of the packet that a WQE describes.
fn address(fw: &Firmware, qpn: u32, wqe: &Wqe, payload: usize) -> Result<Packet, Failure> {
    let qp = fw.qps.get(qpn).ok_or(BAD_WQE)?;
    let (ctrl, av, context) = (wqe.ctrl(), WqeDatagramSeg(wqe.part(AV, DATA - AV)?), qp.context());
    if !av.ext() {
        return Err(BAD_WQE);
    }
    let lid = fw.port.identity.lid;
    let immediate = (wqe.opcode() == WqeOpcode::SEND_IMM).then(|| ctrl.imm());
    let pkey_index = context.primary_address_path().pkey_index();
    let grh = match av.grh() {
        false => None,
        true => {
            let source = fw.port.gid(av.src_addr_index().into()).ok_or(BAD_WQE)?;
            let mut bytes = [0; GRH];
            let mut grh = Grh(&mut bytes[..]);
            grh.set_ip_version(6);
            grh.set_traffic_class(av.tclass());
            grh.set_flow_label(av.flow_label());
            let body = payload.next_multiple_of(4) + HEADERS;
            grh.set_payload_length((body + immediate.map_or(0, |_| IMMEDIATE)) as u16);
            grh.set_next_header(0x1b);
            grh.set_hop_limit(av.hop_limit());
            grh.set_sgid(&source);
            grh.set_dgid(&av.rgid());
            Some(bytes)
        }
    };
    Ok(Packet {
        src_lid: lid,
        // Loopback may be asked for, whatever the LID.
        dest_lid: if av.fl() { lid } else { av.rlid() },
        sl: av.sl(),
        grh,
        pkey: fw.port.pkey(pkey_index.into()).unwrap_or(0),
        dest_qpn: av.destination_qp_dct(),
        sender: qpn,
        src_qpn: match (qp.service, context.deth_sqpn()) {
            (Service::Qp0, _) => 0,
            (Service::Qp1, _) => 1,
            (_, 0) => qpn,
            // The driver lets a queue pair of its own speak for QP 1.
            (_, other) => other,
        },
        qkey: if av.qkey() & OWN_QKEY != 0 { context.q_key() } else { av.qkey() },
        solicited: ctrl.se(),
        immediate,
    })
}

/// The queue pair that a packet to one is for.
fn receiver(fw: &Firmware, packet: &Packet) -> Option<u32> {
    let special = |service| fw.qps.iter().find(|(_, qp)| qp.service == service).map(|(qpn, _)| qpn);
    match packet.dest_qpn {
        0 => special(Service::Qp0),
        1 => special(Service::Qp1),
        qpn => Some(qpn),
    }
}

/// Whether a queue pair takes a packet.
fn takes(fw: &Firmware, packet: &Packet, qpn: u32) -> bool {
    let Some(qp) = fw.qps.get(qpn).filter(|qp| qp.state.receives()) else { return false };
    let context = qp.context();
    let member = || {
        let index = context.primary_address_path().pkey_index();
        let own = fw.port.pkey(index.into()).unwrap_or(0);
        let same = own & !FULL_MEMBER == packet.pkey & !FULL_MEMBER && own & !FULL_MEMBER != 0;
        same && (own | packet.pkey) & FULL_MEMBER != 0
    };
    let fits = match qp.service {
        // Subnet management packets belong to no partition and have no Q_Key; only they come from
        // queue pair 0.
        Service::Qp0 => packet.dest_qpn == 0 && packet.src_qpn == 0,
        Service::Qp1 => packet.dest_qpn == 1 && packet.qkey == context.q_key() && member(),
        Service::Ud => packet.qkey == context.q_key() && member(),
        _ => false,
    };
    let here = packet.group().is_some()
        || packet.grh.is_none_or(|grh| {
            (0..GIDS).any(|index| fw.port.gid(index) == Some(Grh(&grh[..]).dgid()))
        });
    fits && here && qp.receives != Receives::None
}

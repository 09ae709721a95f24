//! Unreliable datagrams, of queue pairs 0 and 1 too: a packet is made of a WQE, and one that is
//! for this port is received at once. Nobody else is on this fabric: any other packet is lost, as
//! its sender must expect, and multicast packets are too.

use firmware::Firmware;
use firmware::port::GIDS;
use firmware::qp::{Receives, Service};
use layouts::{CqeOpcode, WqeDatagramSeg, WqeOpcode};
use mtt::Access;

use crate::completion::{BAD_LENGTH, BAD_WQE, Failure};
use crate::headers::Grh;
use crate::memory::{Owner, read_all};
use crate::wqe::{Data, Wqe};
use crate::{Cx, Engine};

/// Where the segments begin.
const AV: usize = 16;
const DATA: usize = 64;
/// The place of a global route header in the receiver's memory, whether there is one or not.
const GRH: usize = Grh::SIZE;
/// Path MTU codes (IBA 9.4.3): 256 bytes shifted.
const SMALLEST_MTU: u32 = 128;
/// With this bit a Q_Key stands for the queue pair's own (IBA 10.2.5).
const OWN_QKEY: u32 = 1 << 31;
/// P_Key: full member (IBA 10.9.1).
const FULL_MEMBER: u16 = 1 << 15;
/// Value of a CQE's GRH bits: it is in the buffer.
const GRH_IN_BUFFER: u8 = 1;
/// Bytes of a packet beside its payload that a global route header counts: base and datagram
/// transport headers, check sum; immediate data.
const HEADERS: usize = 12 + 8 + 4;
const IMMEDIATE: usize = 4;

/// A packet's headers. Its payload is in the engine's scratch buffer.
struct Packet {
    src_lid: u16,
    dest_lid: u16,
    sl: u8,
    grh: Option<[u8; GRH]>,
    pkey: u16,
    dest_qpn: u32,
    src_qpn: u32,
    qkey: u32,
    solicited: bool,
    immediate: Option<u32>,
}

impl Engine {
    /// Sends the datagram that a WQE describes. Returns how many bytes it has.
    pub(crate) fn send_datagram(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        qpn: u32,
        wqe: &Wqe,
    ) -> Result<usize, Failure> {
        let payload = std::mem::take(&mut self.scratch.payload);
        let (payload, gathered) = self.gather(fw, cx, qpn, wqe, payload);
        let result = gathered.and_then(|()| {
            let packet = address(fw, qpn, wqe, payload.len())?;
            if packet.dest_lid == fw.port.identity.lid {
                self.receive_datagram(fw, cx, &packet, &payload);
            } else {
                self.lose(&packet, "nobody else is on this fabric");
            }
            Ok(payload.len())
        });
        self.scratch.payload = payload;
        result
    }

    /// Copies what the WQE's data segments name into `payload`.
    fn gather(
        &mut self,
        fw: &Firmware,
        cx: Cx,
        qpn: u32,
        wqe: &Wqe,
        mut payload: Vec<u8>,
    ) -> (Vec<u8>, Result<(), Failure>) {
        payload.clear();
        let result = (|| {
            let qp = fw.qps.get(qpn).ok_or(BAD_WQE)?;
            let owner = Owner { pd: qp.pd, qpn };
            let mtu = u64::from(SMALLEST_MTU << qp.context().mtu().clamp(1, 5));
            let mut left = mtu;
            for data in wqe.data(DATA) {
                match data? {
                    Data::Inline(bytes) => {
                        left = left.checked_sub(bytes.len() as u64).ok_or(BAD_LENGTH)?;
                        payload.extend_from_slice(bytes);
                    }
                    Data::Memory(range) => {
                        left = left.checked_sub(range.len).ok_or(BAD_LENGTH)?;
                        let pieces = &mut self.scratch.pieces;
                        owner.translate(fw, range, Access::LocalRead, pieces)?;
                        read_all(cx.0, pieces, &mut payload)?;
                    }
                }
            }
            Ok(())
        })();
        (payload, result)
    }

    /// A packet that arrives at this port. What does not fit its receiver is dropped, as a network
    /// of datagrams may.
    fn receive_datagram(&mut self, fw: &mut Firmware, cx: Cx, packet: &Packet, payload: &[u8]) {
        let Some(qpn) = receiver(fw, packet) else {
            self.lose(packet, "no queue pair takes it at this LID");
            return;
        };
        let Some(receive) = self.take_receive(fw, cx, qpn) else {
            self.lose(packet, "its receiver has no receive WQE");
            return;
        };
        let header = packet.grh.map_or(Ok(()), |grh| self.scatter(fw, cx, &receive, 0, &grh));
        let written = header.and_then(|()| self.scatter(fw, cx, &receive, GRH as u64, payload));
        if let Err(why) = written {
            self.fail_receive(fw, cx, &receive, why);
            return;
        }
        log::trace!(
            "datagram from QP {:#x} to QP {:#x}: {} bytes",
            packet.src_qpn,
            packet.dest_qpn,
            payload.len()
        );
        let kind = match packet.immediate {
            Some(_) => CqeOpcode::RESP_SEND_IMM,
            None => CqeOpcode::RESP_SEND,
        };
        let mut entry = receive.completion.done(kind);
        entry.set_byte_cnt((GRH + payload.len()) as u32);
        entry.set_slid(packet.src_lid);
        entry.set_sl(packet.sl);
        entry.set_rqpn(packet.src_qpn);
        entry.set_grh(if packet.grh.is_some() { GRH_IN_BUFFER } else { 0 });
        entry.set_immediate(packet.immediate.unwrap_or(packet.pkey.into()));
        entry.set_se(packet.solicited);
        let cqn = receive.completion.cqn;
        if !self.complete(fw, cx, cqn, entry) {
            self.break_down(fw, cx, qpn, "its completion queue takes no more entries");
        }
    }

    fn lose(&mut self, packet: &Packet, why: &str) {
        let Packet { src_qpn, dest_qpn, dest_lid, .. } = packet;
        let text = format!(
            "a datagram from QP {src_qpn:#x} to QP {dest_qpn:#x} at LID {dest_lid:#x} is lost: {why}"
        );
        if self.lost_packets == 0 {
            log::info!("{text} (further ones are only counted)");
        } else {
            log::debug!("{text}");
        }
        self.lost_packets += 1;
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

/// The queue pair that takes a packet.
fn receiver(fw: &Firmware, packet: &Packet) -> Option<u32> {
    let special = |service| fw.qps.iter().find(|(_, qp)| qp.service == service).map(|(qpn, _)| qpn);
    let qpn = match packet.dest_qpn {
        0 => special(Service::Qp0)?,
        1 => special(Service::Qp1)?,
        qpn => qpn,
    };
    let qp = fw.qps.get(qpn).filter(|qp| qp.state.receives())?;
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
    let here = packet
        .grh
        .is_none_or(|grh| (0..GIDS).any(|index| fw.port.gid(index) == Some(Grh(&grh[..]).dgid())));
    (fits && here && qp.receives != Receives::None).then_some(qpn)
}

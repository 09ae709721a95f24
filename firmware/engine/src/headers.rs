//! Headers of datagrams, as the InfiniBand architecture (IBA) has them.

use std::fmt;

use layouts::layout;

/// Bytes of a global route header; it has its place in the receiver's memory whether there is one or not.
pub const GRH: usize = Grh::SIZE;
/// Bytes of a packet beside its payload that a global route header counts: base and datagram
/// transport headers, check sum; immediate data.
pub const HEADERS: usize = 12 + 8 + 4;
pub const IMMEDIATE: usize = 4;
/// Bytes of a local route header.
const LRH: usize = 8;
/// The queue pair that datagrams to a group name (IBA 3.5.3).
const GROUP_QPN: u32 = 0xff_ffff;
/// LIDs from here on are of groups (IBA 4.1.3).
const FIRST_MULTICAST_LID: u16 = 0xc000;

layout! {
    /// Global route header (IBA 8.3).
    Grh = "GRH", 0x28 {
        ip_version: u8 = 0x00[31:28],
        traffic_class: u8 = 0x00[27:20],
        flow_label: u32 = 0x00[19:0],
        payload_length: u16 = 0x04[31:16],
        next_header: u8 = 0x04[15:8],
        hop_limit: u8 = 0x04[7:0],
    }
    arrays {
        sgid: [u8; 16] = 0x08,
        dgid: [u8; 16] = 0x18,
    }
}

/// A packet's headers.
#[derive(Debug, Clone)]
pub struct Packet {
    pub src_lid: u16,
    pub dest_lid: u16,
    pub sl: u8,
    pub grh: Option<[u8; GRH]>,
    pub pkey: u16,
    pub dest_qpn: u32,
    pub src_qpn: u32,
    /// The queue pair that sends it, whatever it says in the packet.
    pub sender: u32,
    pub qkey: u32,
    pub solicited: bool,
    pub immediate: Option<u32>,
}

impl Packet {
    /// The group that it is for, if it is for one.
    pub fn group(&self) -> Option<[u8; 16]> {
        let gid = Grh(&self.grh.as_ref()?[..]).dgid();
        (self.dest_qpn == GROUP_QPN && self.dest_lid >= FIRST_MULTICAST_LID).then_some(gid)
    }

    /// Bytes that it takes on the wire, as port counters count them.
    pub fn octets(&self, payload: usize) -> u64 {
        let optional = self.grh.map_or(0, |_| GRH) + self.immediate.map_or(0, |_| IMMEDIATE);
        (LRH + HEADERS + optional + payload) as u64
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { src_qpn, dest_qpn, dest_lid, .. } = self;
        write!(f, "a datagram from QP {src_qpn:#x} to QP {dest_qpn:#x} at LID {dest_lid:#x}")
    }
}

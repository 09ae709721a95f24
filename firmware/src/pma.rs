//! The performance management agent of the port (IBA 16.1): `perfquery` reads and resets counters.
//!
//! It is asked by datagrams to queue pair 1 of the port, which never reach the driver (whose own
//! answer, for MAD_IFC's callers, has no header), and by MAD_IFC. All of them, QUERY_VPORT_COUNTER
//! and PPCNT show and clear the same counters. Errors are all zero, and setting them changes
//! nothing.

use layouts::{PerfMad, mad_method, mad_status};

use crate::Firmware;
use crate::counters::PortCounters;

/// Management class of performance management.
pub const CLASS: u8 = 0x04;
const CLASS_PORT_INFO: u16 = 0x01;
const PORT_COUNTERS: u16 = 0x12;
const PORT_COUNTERS_EXT: u16 = 0x1d;
/// Extended counters, of 64 bits each (IBA 16.1.2.1, ClassPortInfo:CapabilityMask).
const EXT_WIDTH_SUPPORTED: u16 = 1 << 9;
/// The only port, and all of them.
const PORTS: [u8; 2] = [1, 0xff];

/// Whether a datagram to queue pair 1 is for this agent.
pub fn is_request(mad: &[u8]) -> bool {
    let header = PerfMad(mad);
    mad.len() == PerfMad::SIZE
        && header.base_version() == 1
        && header.mgmt_class() == CLASS
        && matches!(header.method(), mad_method::GET | mad_method::SET)
}

/// Turns a request into its answer.
pub fn answer(fw: &mut Firmware, mad: &mut [u8]) {
    let mut mad = PerfMad(mad);
    let status = attribute(fw, &mut mad);
    mad.set_method(mad_method::GET_RESP);
    mad.set_status(status);
}

/// Fills the attribute that `mad` asks for, after setting it if asked to; returns the MAD status.
fn attribute(fw: &mut Firmware, mad: &mut PerfMad<&mut [u8]>) -> u16 {
    let set = match mad.method() {
        mad_method::GET => false,
        mad_method::SET => true,
        _ => return mad_status::UNSUPPORTED,
    };
    // Both kinds of counters begin alike.
    let (port, select) = (mad.port_counters().port_select(), mad.port_counters().counter_select());
    let counters = &mut fw.port.counters;
    match mad.attr_id() {
        CLASS_PORT_INFO if !set => {
            let mut info = mad.class_port_info_mut();
            info.0.fill(0);
            info.set_base_version(1);
            info.set_class_version(1);
            info.set_capability_mask(EXT_WIDTH_SUPPORTED);
            info.set_resp_time_value(fw.profile.local_ca_ack_delay());
        }
        PORT_COUNTERS | PORT_COUNTERS_EXT if !PORTS.contains(&port) => return mad_status::INVALID,
        PORT_COUNTERS => {
            if set {
                // The errors' bits come first.
                clear(counters, select >> 12);
            }
            basic(counters, mad);
        }
        PORT_COUNTERS_EXT => {
            if set {
                clear(counters, select);
            }
            extended(counters, mad);
        }
        _ => return mad_status::UNSUPPORTED,
    }
    0
}

/// Clears counters by the bits of PortCountersExtended's CounterSelect. (A counter can be set to
/// zero only, as on most cards.)
fn clear(counters: &mut PortCounters, select: u16) {
    let PortCounters {
        received_unicast,
        transmitted_unicast,
        received_multicast,
        transmitted_multicast,
    } = counters;
    let of_bit: [(&[u8], &mut u64); 8] = [
        (&[0], &mut transmitted_unicast.octets),
        (&[0], &mut transmitted_multicast.octets),
        (&[1], &mut received_unicast.octets),
        (&[1], &mut received_multicast.octets),
        // The sums are of these.
        (&[2, 4], &mut transmitted_unicast.packets),
        (&[2, 6], &mut transmitted_multicast.packets),
        (&[3, 5], &mut received_unicast.packets),
        (&[3, 7], &mut received_multicast.packets),
    ];
    for (bits, counter) in of_bit {
        if bits.iter().any(|bit| select >> bit & 1 == 1) {
            *counter = 0;
        }
    }
}

/// What was sent and received: packets, and data in units of four bytes.
struct Sums {
    xmit_data: u64,
    rcv_data: u64,
    xmit_pkts: u64,
    rcv_pkts: u64,
}

impl Sums {
    fn of(counters: &PortCounters) -> Self {
        let (sent, sent_to_groups) = (counters.transmitted_unicast, counters.transmitted_multicast);
        let (got, got_of_groups) = (counters.received_unicast, counters.received_multicast);
        Self {
            xmit_data: sent.octets.wrapping_add(sent_to_groups.octets) / 4,
            rcv_data: got.octets.wrapping_add(got_of_groups.octets) / 4,
            xmit_pkts: sent.packets.wrapping_add(sent_to_groups.packets),
            rcv_pkts: got.packets.wrapping_add(got_of_groups.packets),
        }
    }
}

/// PortCounters: 32 bits wide, and they stop at their end (IBA 16.1.3.5).
fn basic(counters: &PortCounters, mad: &mut PerfMad<&mut [u8]>) {
    let narrow = |counter: u64| u32::try_from(counter).unwrap_or(u32::MAX);
    let sums = Sums::of(counters);
    let mut out = mad.port_counters_mut();
    let (port, select) = (out.port_select(), out.counter_select());
    out.0.fill(0);
    out.set_port_select(port);
    out.set_counter_select(select);
    out.set_port_xmit_data(narrow(sums.xmit_data));
    out.set_port_rcv_data(narrow(sums.rcv_data));
    out.set_port_xmit_pkts(narrow(sums.xmit_pkts));
    out.set_port_rcv_pkts(narrow(sums.rcv_pkts));
}

fn extended(counters: &PortCounters, mad: &mut PerfMad<&mut [u8]>) {
    let sums = Sums::of(counters);
    let mut out = mad.port_counters_ext_mut();
    let (port, select) = (out.port_select(), out.counter_select());
    out.0.fill(0);
    out.set_port_select(port);
    out.set_counter_select(select);
    out.set_port_xmit_data(sums.xmit_data);
    out.set_port_rcv_data(sums.rcv_data);
    out.set_port_xmit_pkts(sums.xmit_pkts);
    out.set_port_rcv_pkts(sums.rcv_pkts);
    out.set_port_unicast_xmit_pkts(counters.transmitted_unicast.packets);
    out.set_port_unicast_rcv_pkts(counters.received_unicast.packets);
    out.set_port_multicast_xmit_pkts(counters.transmitted_multicast.packets);
    out.set_port_multicast_rcv_pkts(counters.received_multicast.packets);
}

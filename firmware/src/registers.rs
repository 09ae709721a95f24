//! ACCESS_REG: the registers of the port and the node.

use layouts::{
    AccessRegisterIn, AccessRegisterOut, DtorReg, IbExtPortCntrsGrpDataLayout, PmtuReg, PpcntReg,
    PtysReg, PvlcReg, RegisterId,
};

use crate::counters::PortCounters;
use crate::error::{self, CmdError};
use crate::port;
use crate::{Cx, Firmware};

/// Where a register's data is, in the command and in the reply.
const DATA_AT: usize = 0x10;
/// Operation modifier of a read; 0 is a write.
const READ: u16 = 1;

/// One register's handler: `data` holds what the driver sent and becomes what it gets back.
type Handler = fn(&mut Firmware, read: bool, data: &mut [u8]) -> Result<(), CmdError>;

/// The registers that exist.
const REGISTERS: &[(RegisterId, Handler)] = &[
    (RegisterId::HOST_ENDIANNESS, host_endianness),
    (RegisterId::NODE_DESC, node_desc),
    (RegisterId::PTYS, ptys),
    (RegisterId::PMTU, pmtu),
    (RegisterId::PVLC, pvlc),
    (RegisterId::PPCNT, ppcnt),
    (RegisterId::DTOR, dtor),
];

/// ACCESS_REG.
pub fn access(
    fw: &mut Firmware,
    cx: &Cx,
    input: AccessRegisterIn<&[u8]>,
    out: AccessRegisterOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let id = RegisterId(input.register_id());
    let Some((_, handler)) = REGISTERS.iter().find(|(known, _)| *known == id) else {
        cx.probe.missing("register", id.0, id);
        return Err(error::UNKNOWN_REGISTER.with(id.to_string()));
    };
    let Some(data) = out.0.get_mut(DATA_AT..) else {
        return Err(error::OUTPUT_TOO_SHORT.with(format!("no room for register {id}")));
    };
    for (to, from) in data.iter_mut().zip(input.0.iter().skip(DATA_AT)) {
        *to = *from;
    }
    handler(fw, cx.op_mod == READ, data)
}

fn read_only(read: bool) -> Result<(), CmdError> {
    if read { Ok(()) } else { Err(error::BAD_OP_MOD.with("the register can't be written")) }
}

/// HOST_ENDIANNESS: which byte order the driver's own structures have; little-endian is 0.
fn host_endianness(_fw: &mut Firmware, read: bool, data: &mut [u8]) -> Result<(), CmdError> {
    if read {
        data.fill(0);
    } else if data.first().is_some_and(|&order| order != 0) {
        return Err(error::BAD_VALUE.with("a big-endian host"));
    }
    Ok(())
}

/// NODE_DESC: the node's description, 64 bytes of text.
fn node_desc(fw: &mut Firmware, read: bool, data: &mut [u8]) -> Result<(), CmdError> {
    let description = &mut fw.port.description;
    if read {
        data.iter_mut().zip(description).for_each(|(to, from)| *to = *from);
    } else {
        description.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
    }
    Ok(())
}

/// PTYS: what kind of link it is and how fast. Widths are bits: 1x, 2x, 4x; speeds as well, and
/// the driver takes the operational one as the InfiniBand speed code (HDR: 64).
fn ptys(fw: &mut Firmware, read: bool, data: &mut [u8]) -> Result<(), CmdError> {
    const INFINIBAND: u8 = 1;
    read_only(read)?;
    let (port, mask) = (PtysReg(&*data).local_port(), PtysReg(&*data).proto_mask());
    port::own_port(port)?;
    data.fill(0);
    let mut reg = PtysReg(data);
    reg.set_local_port(port);
    reg.set_proto_mask(mask);
    if mask & INFINIBAND != 0 {
        let (width, speed) = port::Link::BEST.ptys();
        reg.set_ib_link_width_capability(width);
        reg.set_ib_link_width_admin(width);
        reg.set_ib_proto_capability(speed);
        reg.set_ib_proto_admin(speed);
        let (width, speed) = fw.port.link.ptys();
        reg.set_ib_link_width_oper(width);
        reg.set_ib_proto_oper(speed);
    }
    Ok(())
}

/// PMTU.
fn pmtu(_fw: &mut Firmware, read: bool, data: &mut [u8]) -> Result<(), CmdError> {
    read_only(read)?;
    let port = PmtuReg(&*data).local_port();
    port::own_port(port)?;
    data.fill(0);
    let mut reg = PmtuReg(data);
    reg.set_local_port(port);
    reg.set_max_mtu(port::MTU);
    reg.set_admin_mtu(port::MTU);
    reg.set_oper_mtu(port::MTU);
    Ok(())
}

/// PVLC: virtual lanes.
fn pvlc(_fw: &mut Firmware, read: bool, data: &mut [u8]) -> Result<(), CmdError> {
    read_only(read)?;
    let port = PvlcReg(&*data).local_port();
    port::own_port(port)?;
    data.fill(0);
    let mut reg = PvlcReg(data);
    reg.set_local_port(port);
    reg.set_vl_hw_cap(port::VL_HW_CAP);
    reg.set_vl_admin(port::VL_HW_CAP);
    reg.set_vl_operational(port::VL_HW_CAP);
    Ok(())
}

/// DTOR: how long the driver is to wait for what. Zero leaves it to the driver. Drivers ask only if
/// the initialization segment has timeouts, which it has when they are to be short.
fn dtor(_fw: &mut Firmware, read: bool, data: &mut [u8]) -> Result<(), CmdError> {
    read_only(read)?;
    data.fill(0);
    let mut reg = DtorReg(data);
    reg.pcie_toggle_to_mut().set_to_value(500);
    reg.health_poll_to_mut().set_to_value(500);
    reg.full_crdump_to_mut().set_to_value(2000);
    reg.fw_reset_to_mut().set_to_value(2000);
    reg.flush_on_err_to_mut().set_to_value(500);
    reg.pci_sync_update_to_mut().set_to_value(1000);
    reg.tear_down_to_mut().set_to_value(1000);
    reg.fsm_reactivate_to_mut().set_to_value(1000);
    reg.reclaim_pages_to_mut().set_to_value(2000);
    reg.reclaim_vfs_pages_to_mut().set_to_value(5000);
    reg.reset_unload_to_mut().set_to_value(5000);
    Ok(())
}

/// PPCNT: port counters, by group. No link, no errors: those are all zero.
fn ppcnt(fw: &mut Firmware, read: bool, data: &mut [u8]) -> Result<(), CmdError> {
    const INFINIBAND_PORT_COUNTERS: u8 = 0x20;
    const INFINIBAND_EXTENDED_PORT_COUNTERS: u8 = 0x21;
    read_only(read)?;
    let asked = PpcntReg(&*data);
    let (port, group, clear) = (asked.local_port(), asked.grp(), asked.clr());
    port::own_port(port)?;
    if !matches!(group, INFINIBAND_PORT_COUNTERS | INFINIBAND_EXTENDED_PORT_COUNTERS) {
        return Err(error::BAD_VALUE.with(format!("counter group {group:#x}")));
    }
    data.fill(0);
    let mut reg = PpcntReg(data);
    reg.set_local_port(port);
    reg.set_grp(group);
    if group == INFINIBAND_EXTENDED_PORT_COUNTERS {
        traffic(&fw.port.counters, &mut reg.ib_ext_port_cntrs_grp_data_layout_mut());
        if clear {
            fw.port.counters = PortCounters::default();
        }
    }
    Ok(())
}

/// Packets, and bytes (the driver divides them by four for who asks for performance counters).
fn traffic(counters: &PortCounters, out: &mut IbExtPortCntrsGrpDataLayout<&mut [u8]>) {
    let PortCounters {
        received_unicast: got,
        transmitted_unicast: sent,
        received_multicast: got_of_groups,
        transmitted_multicast: sent_to_groups,
    } = counters;
    macro_rules! set {
        ($($high:ident $low:ident = $value:expr;)*) => {
            $( out.$high(($value >> 32) as u32); out.$low($value as u32); )*
        };
    }
    set! {
        set_port_xmit_data_high set_port_xmit_data_low =
            sent.octets.wrapping_add(sent_to_groups.octets);
        set_port_rcv_data_high set_port_rcv_data_low =
            got.octets.wrapping_add(got_of_groups.octets);
        set_port_xmit_pkts_high set_port_xmit_pkts_low =
            sent.packets.wrapping_add(sent_to_groups.packets);
        set_port_rcv_pkts_high set_port_rcv_pkts_low =
            got.packets.wrapping_add(got_of_groups.packets);
        set_port_unicast_xmit_pkts_high set_port_unicast_xmit_pkts_low = sent.packets;
        set_port_multicast_xmit_pkts_high set_port_multicast_xmit_pkts_low = sent_to_groups.packets;
        set_port_unicast_rcv_pkts_high set_port_unicast_rcv_pkts_low = got.packets;
        set_port_multicast_rcv_pkts_high set_port_multicast_rcv_pkts_low = got_of_groups.packets;
    }
}

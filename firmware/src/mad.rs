//! MAD_IFC: the agents of the port answer the datagrams that the host's MAD layer hands them
//! (`ib_mad`'s process_mad): subnet management (`smpquery -D`) here, performance management in
//! [`pma`].

use layouts::{MadIfcIn, MadIfcOut, Smp, mad_method, mad_status};

use crate::error::{self, CmdError};
use crate::port::{self, own_port};
use crate::{Cx, Firmware, pma};

const MAD_SIZE: usize = 256;
const MAD_AT: usize = 0x10;
/// Where an SMP's attribute begins, and its size (IBA 14.2.1).
const ATTRIBUTE: std::ops::Range<usize> = 0x40..0x80;

const CLASS_LID_ROUTED: u8 = 0x01;
const CLASS_DIRECTED_ROUTE: u8 = 0x81;
/// Direction bit of a directed-route packet on its way back (IBA 14.2.1.2).
const DIRECTION_BACK: u16 = 0x8000;

const NODE_DESCRIPTION: u16 = 0x10;
const NODE_INFO: u16 = 0x11;
const GUID_INFO: u16 = 0x14;
const PORT_INFO: u16 = 0x15;
const PKEY_TABLE: u16 = 0x16;

/// MAD_IFC.
pub fn mad_ifc(
    fw: &mut Firmware,
    cx: &Cx,
    input: MadIfcIn<&[u8]>,
    out: MadIfcOut<&mut [u8]>,
) -> Result<(), CmdError> {
    own_port(input.port())?;
    let short = || error::INPUT_TOO_SHORT.with("less than a MAD of 256 bytes");
    let request = input.0.get(MAD_AT..MAD_AT + MAD_SIZE).ok_or_else(short)?;
    let reply = out.0.get_mut(MAD_AT..MAD_AT + MAD_SIZE).ok_or_else(short)?;
    reply.copy_from_slice(request);

    let mut smp = Smp(reply);
    let directed = match smp.mgmt_class() {
        CLASS_LID_ROUTED => false,
        CLASS_DIRECTED_ROUTE => true,
        pma::CLASS => {
            pma::answer(fw, smp.0);
            return Ok(());
        }
        class => {
            return Err(error::BAD_MAD.with(format!("management class {class:#x}")));
        }
    };
    let status = if smp.method() == mad_method::GET {
        attribute(fw, &mut smp)
    } else {
        cx.probe.missing("SMP method", smp.method(), "not a Get");
        mad_status::UNSUPPORTED
    };
    smp.set_method(mad_method::GET_RESP);
    smp.set_status(status | if directed { DIRECTION_BACK } else { 0 });
    Ok(())
}

/// Fills the attribute that `smp` asks for and returns the MAD status.
fn attribute(fw: &Firmware, smp: &mut Smp<&mut [u8]>) -> u16 {
    let modifier = smp.attr_mod();
    let id = smp.attr_id();
    let Some(data) = smp.0.get_mut(ATTRIBUTE) else { return mad_status::INVALID };
    data.fill(0);
    match id {
        NODE_DESCRIPTION => data.copy_from_slice(&fw.port.description),
        NODE_INFO => node_info(fw, smp),
        PORT_INFO if modifier <= 1 => port_info(fw, smp),
        GUID_INFO if modifier == 0 => {
            let guid = fw.port.identity.port_guid.to_be_bytes();
            data.iter_mut().zip(guid).for_each(|(to, from)| *to = from);
        }
        PKEY_TABLE if modifier & 0xffff < port::PKEYS as u32 / 32 => {
            let first = (modifier as usize & 0xffff) * 32;
            for (i, entry) in data.chunks_exact_mut(2).enumerate() {
                entry.copy_from_slice(&fw.port.pkey(first + i).unwrap_or(0).to_be_bytes());
            }
        }
        PORT_INFO | GUID_INFO | PKEY_TABLE => return mad_status::INVALID,
        _ => return mad_status::UNSUPPORTED,
    }
    0
}

fn node_info(fw: &Firmware, smp: &mut Smp<&mut [u8]>) {
    let id = fw.port.identity;
    let mut info = smp.node_info_mut();
    info.set_base_version(1);
    info.set_class_version(1);
    info.set_node_type(1); // channel adapter
    info.set_num_ports(1);
    info.set_system_image_guid(id.system_image_guid);
    info.set_node_guid(id.node_guid);
    info.set_port_guid(id.port_guid);
    info.set_partition_cap(port::PKEYS as u16);
    info.set_device_id(fw.profile.device_id);
    info.set_local_port_num(1);
    info.set_vendor_id(crate::profile::VENDOR_OUI);
}

fn port_info(fw: &Firmware, smp: &mut Smp<&mut [u8]>) {
    const MTU_4096: u8 = 5;
    let mut info = smp.port_info_mut();
    info.set_gid_prefix(fw.port.prefix());
    info.set_lid(fw.port.identity.lid);
    info.set_master_sm_lid(fw.port.identity.lid);
    info.set_capability_mask(fw.port.capability_mask);
    info.set_local_port_num(1);
    let (width, speed, extended) = port::Link::BEST.port_info();
    info.set_link_width_enabled(width);
    info.set_link_width_supported(width);
    info.set_link_speed_supported(speed);
    info.set_link_speed_enabled(speed);
    info.set_link_speed_ext_supported(extended);
    info.set_link_speed_ext_enabled(extended);
    let (width, speed, extended) = fw.port.link.port_info();
    info.set_link_width_active(width);
    info.set_link_speed_active(speed);
    info.set_link_speed_ext_active(extended);
    let (state, physical) = fw.port.state();
    info.set_port_state(state);
    info.set_port_physical_state(physical);
    info.set_link_down_default_state(2); // polling
    info.set_neighbor_mtu(MTU_4096);
    info.set_mtu_cap(MTU_4096);
    info.set_vl_cap(3); // VL0 to VL3
    info.set_operational_vls(3);
    info.set_guid_cap(port::GIDS as u8);
    info.set_subnet_timeout(port::SUBNET_TIMEOUT);
    info.set_resp_time_value(fw.profile.local_ca_ack_delay());
}

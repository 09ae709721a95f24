//! The InfiniBand port: its addresses and tables, and the commands that ask for them.
//!
//! There is no subnet manager on this fabric. The port comes up as one that has been configured
//! already: ACTIVE, with a LID, a subnet prefix and the default partition, and it names itself as
//! the port of the subnet manager.

use layouts::{
    ModifyHcaVportContextIn, QueryHcaVportContextIn, QueryHcaVportContextOut, QueryHcaVportGidIn,
    QueryHcaVportGidOut, QueryHcaVportPkeyIn, QueryHcaVportPkeyOut, QueryVportCounterIn,
    QueryVportCounterOut, QueryVportStateIn, QueryVportStateOut, TrafficCounter,
};

use crate::counters::{PortCounters, Traffic};
use crate::error::{self, CmdError};
use crate::multicast::Groups;
use crate::{Cx, Firmware};

/// IB port states (IBA 14.2.5.6 PortInfo.PortState).
const ACTIVE: u8 = 4;
const DOWN: u8 = 1;
/// IB physical states (PortInfo.PortPhysicalState).
const LINK_UP: u8 = 5;
const POLLING: u8 = 2;
/// Largest packet payload, bytes.
pub const MTU: u16 = 4096;
/// Virtual lanes: VL0 to VL3.
pub const VL_HW_CAP: u8 = 4;
/// Subnet prefix of a fabric that nobody configured (IBA 4.1.1).
const DEFAULT_PREFIX: u64 = 0xfe80_0000_0000_0000;
/// Full member of the default partition (IBA 10.9.1.1).
const DEFAULT_PKEY: u16 = 0xffff;
/// Entries of the P_Key table, as pkey_table_size = 0 says.
pub const PKEYS: usize = 128;
/// Entries of the GID table, as gid_table_size = 0 says.
pub const GIDS: usize = 8;
/// 4.096 us * 2^18, about a second, as real cards show.
pub const SUBNET_TIMEOUT: u8 = 18;

/// PortInfo capability bits that hold here (IBA 14.2.5.6): automatic migration is not among them.
/// Extended speeds, system image GUID, client reregistration.
pub const CAPABILITY_MASK: u32 = 1 << 11 | 1 << 14 | 1 << 25;
/// The bit by which the connection manager announces itself (IsConnectionManagementSupported).
const IS_CM: u32 = 1 << 16;
/// Bits that the driver may change: those of agents that run on the host.
const SETTABLE: u32 = IS_CM | 1 << 1 | 1 << 17 | 1 << 19 | 1 << 20;

/// Names that tell this port from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// GUID of the node.
    pub node_guid: u64,
    /// GUID of the port.
    pub port_guid: u64,
    /// GUID of everything that belongs together.
    pub system_image_guid: u64,
    /// Local identifier.
    pub lid: u16,
}

/// How fast the link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Speed of a lane: SDR 0, DDR 1, QDR 2, FDR 4, EDR 5, HDR 6.
    pub speed: u8,
    /// Lanes: 1, 2, 4 or 8.
    pub width: u8,
}

impl Link {
    /// What the port is made for.
    pub const BEST: Self = Self { speed: 6, width: 4 };

    /// PortInfo's LinkWidthActive, LinkSpeedActive and LinkSpeedExtActive (IBA 14.2.5.6).
    pub fn port_info(self) -> (u8, u8, u8) {
        let width = match self.width {
            1 => 1,
            2 => 16,
            8 => 4,
            _ => 2,
        };
        // The fast ones are extended speeds, and the plain one says nothing then.
        match self.speed {
            0..=2 => (width, 1 << self.speed, 0),
            _ => (width, 1, 1 << self.speed.saturating_sub(4)),
        }
    }

    /// Bits of the register PTYS: width and speed.
    pub fn ptys(self) -> (u16, u16) {
        (self.width.into(), 1 << self.speed)
    }
}

/// The port's state.
#[derive(Debug)]
pub struct Port {
    /// Its names.
    pub identity: Identity,
    /// PortInfo capability mask, as the driver has set it.
    pub capability_mask: u32,
    /// NodeDescription, 64 bytes.
    pub description: [u8; 64],
    /// Something is at the other end. Only a fault takes it away.
    pub up: bool,
    /// How fast it is. Only a fault makes it slower.
    pub link: Link,
    /// What went through it.
    pub counters: PortCounters,
    /// Multicast groups.
    pub multicast: Groups,
}

impl Port {
    /// A port with these names.
    pub fn new(identity: Identity) -> Self {
        let mut description = [0; 64];
        let text = b"mlx5emu";
        description[..text.len()].copy_from_slice(text);
        Self {
            identity,
            capability_mask: CAPABILITY_MASK,
            description,
            up: true,
            link: Link::BEST,
            counters: PortCounters::default(),
            multicast: Groups::default(),
        }
    }

    /// As after power-on.
    pub fn reset(&mut self) {
        *self = Self::new(self.identity);
    }

    /// PortInfo's state and physical state.
    pub fn state(&self) -> (u8, u8) {
        if self.up { (ACTIVE, LINK_UP) } else { (DOWN, POLLING) }
    }

    /// Entry of the GID table; entries that are not used have no GUID.
    pub fn gid(&self, index: usize) -> Option<[u8; 16]> {
        let guid = match index {
            0 => self.identity.port_guid,
            1..GIDS => 0,
            _ => return None,
        };
        // The driver takes the subnet prefix from the last entry (ib_core's
        // config_non_roce_gid_cache), so entries without a GUID have it too.
        Some((u128::from(DEFAULT_PREFIX) << 64 | u128::from(guid)).to_be_bytes())
    }

    /// Entry of the P_Key table; entries that are not used are zero.
    pub fn pkey(&self, index: usize) -> Option<u16> {
        match index {
            0 => Some(DEFAULT_PKEY),
            1..PKEYS => Some(0),
            _ => None,
        }
    }

    /// The subnet prefix.
    pub fn prefix(&self) -> u64 {
        DEFAULT_PREFIX
    }
}

/// A vport other than the function's own: there is none.
fn own_vport(other: bool, vport: u16) -> Result<(), CmdError> {
    if other || vport != 0 {
        return Err(error::BAD_FUNCTION.with(format!("vport {vport}")));
    }
    Ok(())
}

/// The only port has number 1; the driver sends 0 where it knows of one port only.
pub fn own_port(port: u8) -> Result<(), CmdError> {
    if port > 1 {
        return Err(error::BAD_PORT.with(format!("port {port}")));
    }
    Ok(())
}

/// QUERY_HCA_VPORT_CONTEXT.
pub fn query_context(
    fw: &mut Firmware,
    _cx: &Cx,
    input: QueryHcaVportContextIn<&[u8]>,
    mut out: QueryHcaVportContextOut<&mut [u8]>,
) -> Result<(), CmdError> {
    own_vport(input.other_vport(), input.vport_number())?;
    own_port(input.port_num())?;
    let Port { identity, capability_mask, .. } = &fw.port;
    let (state, physical) = fw.port.state();
    let mut context = out.hca_vport_context_mut();
    context.set_has_smi(true);
    context.set_port_physical_state(physical);
    context.set_port_state(state);
    context.set_vport_state(state);
    context.set_system_image_guid(identity.system_image_guid);
    context.set_port_guid(identity.port_guid);
    context.set_node_guid(identity.node_guid);
    context.set_cap_mask1(*capability_mask);
    context.set_cap_mask1_field_select(SETTABLE);
    context.set_lid(identity.lid);
    context.set_subnet_timeout(SUBNET_TIMEOUT);
    context.set_sm_lid(identity.lid);
    Ok(())
}

/// MODIFY_HCA_VPORT_CONTEXT: the bits of cap_mask1 that host agents announce themselves by.
pub fn modify_context(
    fw: &mut Firmware,
    _cx: &Cx,
    input: ModifyHcaVportContextIn<&[u8]>,
) -> Result<(), CmdError> {
    own_vport(input.other_vport(), input.vport_number())?;
    own_port(input.port_num())?;
    let context = input.hca_vport_context();
    let chosen = context.cap_mask1_field_select();
    if chosen & !SETTABLE != 0 {
        return Err(error::BAD_VALUE
            .with(format!("cap_mask1_field_select {chosen:#x}, settable {SETTABLE:#x}")));
    }
    fw.port.capability_mask = fw.port.capability_mask & !chosen | context.cap_mask1() & chosen;
    Ok(())
}

/// QUERY_HCA_VPORT_GID; index 0xffff asks for the whole table.
pub fn query_gid(
    fw: &mut Firmware,
    _cx: &Cx,
    input: QueryHcaVportGidIn<&[u8]>,
    mut out: QueryHcaVportGidOut<&mut [u8]>,
) -> Result<(), CmdError> {
    own_vport(input.other_vport(), input.vport_number())?;
    own_port(input.port_num())?;
    let index = input.gid_index();
    let range = if index == 0xffff { 0..GIDS } else { index.into()..usize::from(index) + 1 };
    let mut gids = Vec::with_capacity(range.len());
    for i in range {
        let gid = fw.port.gid(i);
        gids.push(gid.ok_or_else(|| error::BAD_TABLE_INDEX.with(format!("GID index {index}")))?);
    }
    out.set_gids_num(gids.len() as u16);
    put(out.0, QueryHcaVportGidOut::SIZE, &gids.concat())
}

/// QUERY_HCA_VPORT_PKEY; index 0xffff asks for the whole table.
pub fn query_pkey(
    fw: &mut Firmware,
    _cx: &Cx,
    input: QueryHcaVportPkeyIn<&[u8]>,
    out: QueryHcaVportPkeyOut<&mut [u8]>,
) -> Result<(), CmdError> {
    own_vport(input.other_vport(), input.vport_number())?;
    own_port(input.port_num())?;
    let index = input.pkey_index();
    let range = if index == 0xffff { 0..PKEYS } else { index.into()..usize::from(index) + 1 };
    let mut pkeys = Vec::with_capacity(range.len());
    for i in range {
        let pkey = fw.port.pkey(i);
        let pkey =
            pkey.ok_or_else(|| error::BAD_TABLE_INDEX.with(format!("P_Key index {index}")))?;
        pkeys.push(u32::from(pkey).to_be_bytes());
    }
    put(out.0, QueryHcaVportPkeyOut::SIZE, &pkeys.concat())
}

/// Writes a reply's trailing array.
fn put(out: &mut [u8], at: usize, data: &[u8]) -> Result<(), CmdError> {
    let len = out.len();
    let room = out.get_mut(at..).and_then(|tail| tail.get_mut(..data.len()));
    let short = || error::OUTPUT_TOO_SHORT.with(format!("{} bytes, {len} given", at + data.len()));
    room.ok_or_else(short)?.copy_from_slice(data);
    Ok(())
}

/// QUERY_VPORT_STATE: admin state 1 (up), state 1 (up) or 0.
pub fn query_state(
    fw: &mut Firmware,
    _cx: &Cx,
    input: QueryVportStateIn<&[u8]>,
    mut out: QueryVportStateOut<&mut [u8]>,
) -> Result<(), CmdError> {
    own_vport(input.other_vport(), input.vport_number())?;
    out.set_admin_state(1);
    out.set_state(u8::from(fw.port.up));
    Ok(())
}

/// QUERY_VPORT_COUNTER, and clearing what was told. What counts errors stays zero: no packet is
/// damaged on its way.
pub fn query_counter(
    fw: &mut Firmware,
    _cx: &Cx,
    input: QueryVportCounterIn<&[u8]>,
    mut out: QueryVportCounterOut<&mut [u8]>,
) -> Result<(), CmdError> {
    own_vport(input.other_vport(), input.vport_number())?;
    own_port(input.port_num())?;
    let PortCounters {
        received_unicast,
        transmitted_unicast,
        received_multicast,
        transmitted_multicast,
    } = fw.port.counters;
    tell(out.received_ib_unicast_mut(), received_unicast);
    tell(out.transmitted_ib_unicast_mut(), transmitted_unicast);
    tell(out.received_ib_multicast_mut(), received_multicast);
    tell(out.transmitted_ib_multicast_mut(), transmitted_multicast);
    if input.clear() {
        fw.port.counters = PortCounters::default();
    }
    Ok(())
}

fn tell(mut out: TrafficCounter<&mut [u8]>, traffic: Traffic) {
    out.set_packets(traffic.packets);
    out.set_octets(traffic.octets);
}

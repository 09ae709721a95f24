//! Capabilities: what the device tells the driver that it can do.

mod debug;
mod flow;
mod general;
mod general2;
mod memory;
mod network;

pub use debug::*;
pub use flow::*;
pub use general::*;
pub use general2::*;
pub use memory::*;
pub use network::*;

use crate::{CapType, LayoutInfo, layout};

layout! {
    /// Input of QUERY_HCA_CAP.
    QueryHcaCapIn = "query_hca_cap_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        other_function: bool = 0x08[31:31],
        ec_vf_function: bool = 0x08[30:30],
        function_id_type: bool = 0x08[28:28],
        function_id: u16 = 0x08[15:0],
    }
}

layout! {
    /// Output of QUERY_HCA_CAP.
    QueryHcaCapOut = "query_hca_cap_out", 0x1010 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
    parts {
        cmd_hca_cap: CmdHcaCap = 0x10,
        cmd_hca_cap_2: CmdHcaCap2 = 0x10,
        odp_cap: OdpCap = 0x10,
        atomic_caps: AtomicCaps = 0x10,
        roce_cap: RoceCap = 0x10,
        per_protocol_networking_offload_caps: PerProtocolNetworkingOffloadCaps = 0x10,
        flow_table_nic_cap: FlowTableNicCap = 0x10,
        qos_cap: QosCap = 0x10,
        debug_cap: DebugCap = 0x10,
        device_mem_cap: DeviceMemCap = 0x10,
    }
}

layout! {
    /// Input of SET_HCA_CAP.
    SetHcaCapIn = "set_hca_cap_in", 0x1010 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        other_function: bool = 0x08[31:31],
        ec_vf_function: bool = 0x08[30:30],
        function_id_type: bool = 0x08[28:28],
        function_id: u16 = 0x08[15:0],
    }
    parts {
        cmd_hca_cap: CmdHcaCap = 0x10,
        cmd_hca_cap_2: CmdHcaCap2 = 0x10,
        odp_cap: OdpCap = 0x10,
        atomic_caps: AtomicCaps = 0x10,
        roce_cap: RoceCap = 0x10,
        per_protocol_networking_offload_caps: PerProtocolNetworkingOffloadCaps = 0x10,
        flow_table_nic_cap: FlowTableNicCap = 0x10,
        qos_cap: QosCap = 0x10,
        debug_cap: DebugCap = 0x10,
        device_mem_cap: DeviceMemCap = 0x10,
    }
}

layout! {
    /// Output of SET_HCA_CAP.
    SetHcaCapOut = "set_hca_cap_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

/// The structure of a set of capabilities, if it is described here.
pub const fn capability(set: CapType) -> Option<&'static LayoutInfo> {
    Some(match set {
        CapType::GENERAL => &CmdHcaCap::INFO,
        CapType::ETHERNET_OFFLOADS | CapType::IPOIB_OFFLOADS | CapType::IPOIB_ENHANCED_OFFLOADS => {
            &PerProtocolNetworkingOffloadCaps::INFO
        }
        CapType::ODP => &OdpCap::INFO,
        CapType::ATOMIC => &AtomicCaps::INFO,
        CapType::ROCE => &RoceCap::INFO,
        CapType::FLOW_TABLE => &FlowTableNicCap::INFO,
        CapType::QOS => &QosCap::INFO,
        CapType::DEBUG => &DebugCap::INFO,
        CapType::DEV_MEM => &DeviceMemCap::INFO,
        CapType::DEV_EVENT => &DeviceEventCap::INFO,
        CapType::GENERAL_2 => &CmdHcaCap2::INFO,
        _ => return None,
    })
}

//! The port: its context, tables, counters and management datagrams.

use crate::layout;

layout! {
    /// What an InfiniBand port is, to one function.
    HcaVportContext = "hca_vport_context", 0x200 {
        field_select: u32 = 0x00[31:0],
        sm_virt_aware: bool = 0x20[31:31],
        has_smi: bool = 0x20[30:30],
        has_raw: bool = 0x20[29:29],
        grh_required: bool = 0x20[28:28],
        num_port_plane: u8 = 0x20[23:16],
        port_physical_state: u8 = 0x20[15:12],
        vport_state_policy: u8 = 0x20[11:8],
        port_state: u8 = 0x20[7:4],
        vport_state: u8 = 0x20[3:0],
        system_image_guid: u64 = 0x28[63:0],
        port_guid: u64 = 0x30[63:0],
        node_guid: u64 = 0x38[63:0],
        cap_mask1: u32 = 0x40[31:0],
        cap_mask1_field_select: u32 = 0x44[31:0],
        cap_mask2: u32 = 0x48[31:0],
        cap_mask2_field_select: u32 = 0x4c[31:0],
        lid: u16 = 0x60[31:16],
        init_type_reply: u8 = 0x60[11:8],
        lmc: u8 = 0x60[7:5],
        subnet_timeout: u8 = 0x60[4:0],
        sm_lid: u16 = 0x64[31:16],
        sm_sl: u8 = 0x64[15:12],
        qkey_violation_counter: u16 = 0x68[31:16],
        pkey_violation_counter: u16 = 0x68[15:0],
    }
}

layout! {
    /// Input of QUERY_HCA_VPORT_CONTEXT.
    QueryHcaVportContextIn = "query_hca_vport_context_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        other_vport: bool = 0x08[31:31],
        port_num: u8 = 0x08[19:16],
        vport_number: u16 = 0x08[15:0],
    }
}

layout! {
    /// Output of QUERY_HCA_VPORT_CONTEXT.
    QueryHcaVportContextOut = "query_hca_vport_context_out", 0x210 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
    parts {
        hca_vport_context: HcaVportContext = 0x10,
    }
}

layout! {
    /// Input of MODIFY_HCA_VPORT_CONTEXT.
    ModifyHcaVportContextIn = "modify_hca_vport_context_in", 0x210 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        other_vport: bool = 0x08[31:31],
        port_num: u8 = 0x08[19:16],
        vport_number: u16 = 0x08[15:0],
    }
    parts {
        hca_vport_context: HcaVportContext = 0x10,
    }
}

layout! {
    /// Output of MODIFY_HCA_VPORT_CONTEXT.
    ModifyHcaVportContextOut = "modify_hca_vport_context_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of QUERY_HCA_VPORT_GID.
    QueryHcaVportGidIn = "query_hca_vport_gid_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        other_vport: bool = 0x08[31:31],
        port_num: u8 = 0x08[19:16],
        vport_number: u16 = 0x08[15:0],
        gid_index: u16 = 0x0c[15:0],
    }
}

layout! {
    /// Output of QUERY_HCA_VPORT_GID.
    QueryHcaVportGidOut = "query_hca_vport_gid_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        gids_num: u16 = 0x0c[31:16],
    }
    tail { gid: [u8; 16] = 0x10 }
}

layout! {
    /// Input of QUERY_HCA_VPORT_PKEY.
    QueryHcaVportPkeyIn = "query_hca_vport_pkey_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        other_vport: bool = 0x08[31:31],
        port_num: u8 = 0x08[19:16],
        vport_number: u16 = 0x08[15:0],
        pkey_index: u16 = 0x0c[15:0],
    }
}

layout! {
    /// Output of QUERY_HCA_VPORT_PKEY.
    QueryHcaVportPkeyOut = "query_hca_vport_pkey_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
    tail { pkey: u32 = 0x10 }
}

layout! {
    /// Input of QUERY_VPORT_STATE.
    QueryVportStateIn = "query_vport_state_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        other_vport: bool = 0x08[31:31],
        vport_number: u16 = 0x08[15:0],
    }
}

layout! {
    /// Output of QUERY_VPORT_STATE.
    QueryVportStateOut = "query_vport_state_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        max_tx_speed: u16 = 0x0c[31:16],
        admin_state: u8 = 0x0c[7:4],
        state: u8 = 0x0c[3:0],
    }
}

layout! {
    /// Input of MODIFY_VPORT_STATE.
    ModifyVportStateIn = "modify_vport_state_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        other_vport: bool = 0x08[31:31],
        vport_number: u16 = 0x08[15:0],
        max_tx_speed: u16 = 0x0c[31:16],
        ingress_connect: bool = 0x0c[15:15],
        egress_connect: bool = 0x0c[14:14],
        ingress_connect_valid: bool = 0x0c[13:13],
        egress_connect_valid: bool = 0x0c[12:12],
        admin_state: u8 = 0x0c[7:4],
    }
}

layout! {
    /// Output of MODIFY_VPORT_STATE.
    ModifyVportStateOut = "modify_vport_state_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Packets and bytes.
    TrafficCounter = "traffic_counter", 0x10 {
        packets: u64 = 0x00[63:0],
        octets: u64 = 0x08[63:0],
    }
}

layout! {
    /// Input of QUERY_VPORT_COUNTER.
    QueryVportCounterIn = "query_vport_counter_in", 0x20 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        other_vport: bool = 0x08[31:31],
        port_num: u8 = 0x08[19:16],
        vport_number: u16 = 0x08[15:0],
        clear: bool = 0x18[31:31],
    }
}

layout! {
    /// Output of QUERY_VPORT_COUNTER.
    QueryVportCounterOut = "query_vport_counter_out", 0x210 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
    parts {
        received_errors: TrafficCounter = 0x10,
        transmit_errors: TrafficCounter = 0x20,
        received_ib_unicast: TrafficCounter = 0x30,
        transmitted_ib_unicast: TrafficCounter = 0x40,
        received_ib_multicast: TrafficCounter = 0x50,
        transmitted_ib_multicast: TrafficCounter = 0x60,
        received_eth_broadcast: TrafficCounter = 0x70,
        transmitted_eth_broadcast: TrafficCounter = 0x80,
        received_eth_unicast: TrafficCounter = 0x90,
        transmitted_eth_unicast: TrafficCounter = 0xa0,
        received_eth_multicast: TrafficCounter = 0xb0,
        transmitted_eth_multicast: TrafficCounter = 0xc0,
        local_loopback: TrafficCounter = 0xd0,
    }
}

layout! {
    /// Input of MAD_IFC.
    MadIfcIn = "mad_ifc_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        remote_lid: u16 = 0x08[31:16],
        plane_index: u8 = 0x08[15:8],
        port: u8 = 0x08[7:0],
    }
    arrays {
        mad: [u8; 256] = 0x10,
    }
}

layout! {
    /// Output of MAD_IFC.
    MadIfcOut = "mad_ifc_out", 0x110 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
    arrays {
        response_mad_packet: [u8; 256] = 0x10,
    }
}

//! Management datagrams, as the InfiniBand Architecture Specification volume 1 lays them out. The
//! kernels' headers have no bit structures for them; each names its section.

use crate::layout;

/// Methods of a datagram (13.4.5).
pub mod mad_method {
    /// Asks for an attribute.
    pub const GET: u8 = 0x01;
    /// Changes an attribute.
    pub const SET: u8 = 0x02;
    /// Answers both.
    pub const GET_RESP: u8 = 0x81;
}

/// What became of a request (13.4.7).
pub mod mad_status {
    /// The combination of method and attribute is not supported.
    pub const UNSUPPORTED: u16 = 3 << 2;
    /// A field of the attribute or its modifier has an invalid value.
    pub const INVALID: u16 = 7 << 2;
}

layout! {
    /// The common MAD header (13.4.2) and the subnet management packet's own (14.2.1.1, 14.2.1.2).
    Smp = "ib_smp", 0x100 {
        base_version: u8 = 0x00[31:24],
        mgmt_class: u8 = 0x00[23:16],
        class_version: u8 = 0x00[15:8],
        /// Response bit and method.
        method: u8 = 0x00[7:0],
        /// In a directed-route packet bit 15 is the direction, 1 on the way back.
        status: u16 = 0x04[31:16],
        tid: u64 = 0x08[63:0],
        attr_id: u16 = 0x10[31:16],
        attr_mod: u32 = 0x14[31:0],
    }
    parts {
        /// The attribute.
        node_info: NodeInfo = 0x40,
        port_info: PortInfo = 0x40,
    }
}

layout! {
    /// NodeInfo (14.2.5.3).
    NodeInfo = "ib_node_info", 0x28 {
        base_version: u8 = 0x00[31:24],
        class_version: u8 = 0x00[23:16],
        node_type: u8 = 0x00[15:8],
        num_ports: u8 = 0x00[7:0],
        system_image_guid: u64 = 0x04[63:0],
        node_guid: u64 = 0x0c[63:0],
        port_guid: u64 = 0x14[63:0],
        partition_cap: u16 = 0x1c[31:16],
        device_id: u16 = 0x1c[15:0],
        revision: u32 = 0x20[31:0],
        local_port_num: u8 = 0x24[31:24],
        vendor_id: u32 = 0x24[23:0],
    }
}

layout! {
    /// PortInfo (14.2.5.6).
    PortInfo = "ib_port_info", 0x40 {
        m_key: u64 = 0x00[63:0],
        gid_prefix: u64 = 0x08[63:0],
        lid: u16 = 0x10[31:16],
        master_sm_lid: u16 = 0x10[15:0],
        capability_mask: u32 = 0x14[31:0],
        diag_code: u16 = 0x18[31:16],
        m_key_lease_period: u16 = 0x18[15:0],
        local_port_num: u8 = 0x1c[31:24],
        link_width_enabled: u8 = 0x1c[23:16],
        link_width_supported: u8 = 0x1c[15:8],
        link_width_active: u8 = 0x1c[7:0],
        link_speed_supported: u8 = 0x20[31:28],
        port_state: u8 = 0x20[27:24],
        port_physical_state: u8 = 0x20[23:20],
        link_down_default_state: u8 = 0x20[19:16],
        m_key_protect_bits: u8 = 0x20[15:14],
        lmc: u8 = 0x20[10:8],
        link_speed_active: u8 = 0x20[7:4],
        link_speed_enabled: u8 = 0x20[3:0],
        neighbor_mtu: u8 = 0x24[31:28],
        master_sm_sl: u8 = 0x24[27:24],
        vl_cap: u8 = 0x24[23:20],
        init_type: u8 = 0x24[19:16],
        init_type_reply: u8 = 0x28[23:20],
        mtu_cap: u8 = 0x28[19:16],
        operational_vls: u8 = 0x28[7:4],
        m_key_violations: u16 = 0x2c[31:16],
        p_key_violations: u16 = 0x2c[15:0],
        q_key_violations: u16 = 0x30[31:16],
        guid_cap: u8 = 0x30[15:8],
        subnet_timeout: u8 = 0x30[4:0],
        resp_time_value: u8 = 0x34[28:24],
        local_phy_errors: u8 = 0x34[23:20],
        overrun_errors: u8 = 0x34[19:16],
        max_credit_hint: u16 = 0x34[15:0],
        capability_mask2: u16 = 0x3c[31:16],
        /// Extended speeds: 1 FDR, 2 EDR, 4 HDR.
        link_speed_ext_active: u8 = 0x3c[15:12],
        link_speed_ext_supported: u8 = 0x3c[11:8],
        link_speed_ext_enabled: u8 = 0x3c[4:0],
    }
}

layout! {
    /// The common MAD header (13.4.2) and a performance management datagram's attribute (16.1.1).
    PerfMad = "ib_perf_mad", 0x100 {
        base_version: u8 = 0x00[31:24],
        mgmt_class: u8 = 0x00[23:16],
        class_version: u8 = 0x00[15:8],
        /// Response bit and method.
        method: u8 = 0x00[7:0],
        status: u16 = 0x04[31:16],
        tid: u64 = 0x08[63:0],
        attr_id: u16 = 0x10[31:16],
        attr_mod: u32 = 0x14[31:0],
    }
    parts {
        /// The attribute.
        class_port_info: ClassPortInfo = 0x40,
        port_counters: PortCounters = 0x40,
        port_counters_ext: PortCountersExt = 0x40,
    }
}

layout! {
    /// ClassPortInfo (13.4.8.1), without where to redirect and to send traps.
    ClassPortInfo = "ib_class_port_info", 0x48 {
        base_version: u8 = 0x00[31:24],
        class_version: u8 = 0x00[23:16],
        capability_mask: u16 = 0x00[15:0],
        capability_mask2: u32 = 0x04[31:5],
        resp_time_value: u8 = 0x04[4:0],
    }
}

layout! {
    /// PortCounters (16.1.3.5).
    PortCounters = "ib_port_counters", 0x2c {
        port_select: u8 = 0x00[23:16],
        counter_select: u16 = 0x00[15:0],
        symbol_error_counter: u16 = 0x04[31:16],
        link_error_recovery_counter: u8 = 0x04[15:8],
        link_downed_counter: u8 = 0x04[7:0],
        port_rcv_errors: u16 = 0x08[31:16],
        port_rcv_remote_physical_errors: u16 = 0x08[15:0],
        port_rcv_switch_relay_errors: u16 = 0x0c[31:16],
        port_xmit_discards: u16 = 0x0c[15:0],
        port_xmit_constraint_errors: u8 = 0x10[31:24],
        port_rcv_constraint_errors: u8 = 0x10[23:16],
        counter_select2: u8 = 0x10[15:8],
        local_link_integrity_errors: u8 = 0x10[7:4],
        excessive_buffer_overrun_errors: u8 = 0x10[3:0],
        vl15_dropped: u16 = 0x14[15:0],
        port_xmit_data: u32 = 0x18[31:0],
        port_rcv_data: u32 = 0x1c[31:0],
        port_xmit_pkts: u32 = 0x20[31:0],
        port_rcv_pkts: u32 = 0x24[31:0],
        port_xmit_wait: u32 = 0x28[31:0],
    }
}

layout! {
    /// PortCountersExtended (16.1.4.11).
    PortCountersExt = "ib_port_counters_ext", 0x48 {
        port_select: u8 = 0x00[23:16],
        counter_select: u16 = 0x00[15:0],
        port_xmit_data: u64 = 0x08[63:0],
        port_rcv_data: u64 = 0x10[63:0],
        port_xmit_pkts: u64 = 0x18[63:0],
        port_rcv_pkts: u64 = 0x20[63:0],
        port_unicast_xmit_pkts: u64 = 0x28[63:0],
        port_unicast_rcv_pkts: u64 = 0x30[63:0],
        port_multicast_xmit_pkts: u64 = 0x38[63:0],
        port_multicast_rcv_pkts: u64 = 0x40[63:0],
    }
}

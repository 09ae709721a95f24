//! Registers of the port.

use crate::layout;

layout! {
    /// PMTU: packet sizes.
    PmtuReg = "pmtu_reg", 0x10 {
        local_port: u8 = 0x00[23:16],
        max_mtu: u16 = 0x04[31:16],
        admin_mtu: u16 = 0x08[31:16],
        oper_mtu: u16 = 0x0c[31:16],
    }
}

layout! {
    /// PTYS: kind, width and speed of the link.
    PtysReg = "ptys_reg", 0x40 {
        an_disable_admin: bool = 0x00[30:30],
        an_disable_cap: bool = 0x00[29:29],
        local_port: u8 = 0x00[23:16],
        plane_ind: u8 = 0x00[7:4],
        proto_mask: u8 = 0x00[2:0],
        an_status: u8 = 0x04[31:28],
        data_rate_oper: u16 = 0x04[15:0],
        ext_eth_proto_capability: u32 = 0x08[31:0],
        eth_proto_capability: u32 = 0x0c[31:0],
        ib_link_width_capability: u16 = 0x10[31:16],
        ib_proto_capability: u16 = 0x10[15:0],
        ext_eth_proto_admin: u32 = 0x14[31:0],
        eth_proto_admin: u32 = 0x18[31:0],
        ib_link_width_admin: u16 = 0x1c[31:16],
        ib_proto_admin: u16 = 0x1c[15:0],
        ext_eth_proto_oper: u32 = 0x20[31:0],
        eth_proto_oper: u32 = 0x24[31:0],
        ib_link_width_oper: u16 = 0x28[31:16],
        ib_proto_oper: u16 = 0x28[15:0],
        lane_rate_oper: u32 = 0x2c[23:4],
        connector_type: u8 = 0x2c[3:0],
        eth_proto_lp_advertise: u32 = 0x30[31:0],
    }
}

layout! {
    /// PAOS: the port switched on and off.
    PaosReg = "paos_reg", 0x10 {
        swid: u8 = 0x00[31:24],
        local_port: u8 = 0x00[23:16],
        admin_status: u8 = 0x00[11:8],
        oper_status: u8 = 0x00[3:0],
        ase: bool = 0x04[31:31],
        ee: bool = 0x04[30:30],
        e: u8 = 0x04[1:0],
    }
}

layout! {
    /// PVLC: virtual lanes.
    PvlcReg = "pvlc_reg", 0x10 {
        local_port: u8 = 0x00[23:16],
        vl_hw_cap: u8 = 0x04[3:0],
        vl_admin: u8 = 0x08[3:0],
        vl_operational: u8 = 0x0c[3:0],
    }
}

layout! {
    /// PFCC: flow control.
    PfccReg = "pfcc_reg", 0x20 {
        buf_ownership: u8 = 0x00[27:26],
        local_port: u8 = 0x00[23:16],
        cable_length_mask: bool = 0x00[5:5],
        ppan_mask_n: bool = 0x00[4:4],
        minor_stall_mask: bool = 0x00[3:3],
        critical_stall_mask: bool = 0x00[2:2],
        ppan: u8 = 0x04[31:28],
        prio_mask_tx: u8 = 0x04[23:16],
        prio_mask_rx: u8 = 0x04[7:0],
        pptx: bool = 0x08[31:31],
        aptx: bool = 0x08[30:30],
        pptx_mask_n: bool = 0x08[29:29],
        pfctx: u8 = 0x08[23:16],
        pprx: bool = 0x0c[31:31],
        aprx: bool = 0x0c[30:30],
        pprx_mask_n: bool = 0x0c[29:29],
        pfcrx: u8 = 0x0c[23:16],
        device_stall_minor_watermark: u16 = 0x10[31:16],
        device_stall_critical_watermark: u16 = 0x10[15:0],
        cable_length: u8 = 0x14[7:0],
    }
}

layout! {
    /// PMLP: which lanes the port has.
    PmlpReg = "pmlp_reg", 0x40 {
        rxtx: bool = 0x00[31:31],
        local_port: u8 = 0x00[23:16],
        width: u8 = 0x00[7:0],
        lane0_module_mapping: u32 = 0x04[31:0],
        lane1_module_mapping: u32 = 0x08[31:0],
        lane2_module_mapping: u32 = 0x0c[31:0],
        lane3_module_mapping: u32 = 0x10[31:0],
    }
}

layout! {
    /// PPLM: error correction.
    PplmReg = "pplm_reg", 0x50 {
        local_port: u8 = 0x00[23:16],
        port_profile_mode: u8 = 0x08[31:24],
        static_port_profile: u8 = 0x08[23:16],
        active_port_profile: u8 = 0x08[15:8],
        retransmission_active: u8 = 0x0c[31:24],
        fec_mode_active: u32 = 0x0c[23:0],
        rs_fec_correction_bypass_cap: u8 = 0x10[31:28],
        fec_override_cap_56g: u8 = 0x10[19:16],
        fec_override_cap_100g: u8 = 0x10[15:12],
        fec_override_cap_50g: u8 = 0x10[11:8],
        fec_override_cap_25g: u8 = 0x10[7:4],
        fec_override_cap_10g_40g: u8 = 0x10[3:0],
        rs_fec_correction_bypass_admin: u8 = 0x14[31:28],
        fec_override_admin_56g: u8 = 0x14[19:16],
        fec_override_admin_100g: u8 = 0x14[15:12],
        fec_override_admin_50g: u8 = 0x14[11:8],
        fec_override_admin_25g: u8 = 0x14[7:4],
        fec_override_admin_10g_40g: u8 = 0x14[3:0],
        fec_override_cap_400g_8x: u16 = 0x18[31:16],
        fec_override_cap_200g_4x: u16 = 0x18[15:0],
        fec_override_cap_100g_2x: u16 = 0x1c[31:16],
        fec_override_cap_50g_1x: u16 = 0x1c[15:0],
        fec_override_admin_400g_8x: u16 = 0x20[31:16],
        fec_override_admin_200g_4x: u16 = 0x20[15:0],
        fec_override_admin_100g_2x: u16 = 0x24[31:16],
        fec_override_admin_50g_1x: u16 = 0x24[15:0],
        fec_override_cap_800g_8x: u16 = 0x28[31:16],
        fec_override_cap_400g_4x: u16 = 0x28[15:0],
        fec_override_cap_200g_2x: u16 = 0x2c[31:16],
        fec_override_cap_100g_1x: u16 = 0x2c[15:0],
        fec_override_admin_800g_8x: u16 = 0x44[31:16],
        fec_override_admin_400g_4x: u16 = 0x44[15:0],
        fec_override_admin_200g_2x: u16 = 0x48[31:16],
        fec_override_admin_100g_1x: u16 = 0x48[15:0],
    }
}

layout! {
    /// The reason, as a number.
    PddrMonitorOpcode = "pddr_monitor_opcode", 0x4 {
        monitor_opcode: u16 = 0x00[15:0],
    }
}

layout! {
    /// PDDR page 1.
    PddrTroubleshootingPage = "pddr_troubleshooting_page", 0xf8 {
        group_opcode: u16 = 0x00[15:0],
    }
    parts {
        pddr_monitor_opcode: PddrMonitorOpcode = 0x04,
    }
    arrays {
        status_message: [u32; 59] = 0x0c,
    }
}

layout! {
    /// PDDR: why the link is down.
    PddrReg = "pddr_reg", 0x100 {
        local_port: u8 = 0x00[23:16],
        pnat: u8 = 0x00[15:14],
        page_select: u8 = 0x04[7:0],
    }
    parts {
        pddr_troubleshooting_page: PddrTroubleshootingPage = 0x08,
    }
}

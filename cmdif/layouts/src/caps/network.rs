//! Capabilities of networking: RoCE, offloads, quality of service.

use crate::layout;

layout! {
    /// Capabilities: RoCE (ROCE).
    RoceCap = "roce_cap", 0x100 {
        roce_apm: bool = 0x00[31:31],
        sw_r_roce_src_udp_port: bool = 0x00[27:27],
        fl_rc_qp_when_roce_disabled: bool = 0x00[26:26],
        fl_rc_qp_when_roce_enabled: bool = 0x00[25:25],
        roce_cc_general: bool = 0x00[24:24],
        qp_ooo_transmit_default: bool = 0x00[23:23],
        qp_ts_format: u8 = 0x00[1:0],
        l3_type: u8 = 0x10[19:16],
        roce_version: u8 = 0x10[7:0],
        r_roce_dest_udp_port: u16 = 0x14[15:0],
        r_roce_max_src_udp_port: u16 = 0x18[31:16],
        r_roce_min_src_udp_port: u16 = 0x18[15:0],
        roce_address_table_size: u16 = 0x1c[15:0],
    }
}

layout! {
    /// Capabilities: Ethernet and IPoIB (ETHERNET_OFFLOADS and others).
    PerProtocolNetworkingOffloadCaps = "per_protocol_networking_offload_caps", 0x100 {
        csum_cap: bool = 0x00[31:31],
        vlan_cap: bool = 0x00[30:30],
        lro_cap: bool = 0x00[29:29],
        lro_psh_flag: bool = 0x00[28:28],
        lro_time_stamp: bool = 0x00[27:27],
        wqe_vlan_insert: bool = 0x00[24:24],
        self_lb_en_modifiable: bool = 0x00[23:23],
        max_lso_cap: u8 = 0x00[20:16],
        multi_pkt_send_wqe: u8 = 0x00[15:14],
        wqe_inline_mode: u8 = 0x00[13:12],
        rss_ind_tbl_cap: u8 = 0x00[11:8],
        reg_umr_sq: bool = 0x00[7:7],
        scatter_fcs: bool = 0x00[6:6],
        enhanced_multi_pkt_send_wqe: bool = 0x00[5:5],
        tunnel_lso_const_out_ip_id: bool = 0x00[4:4],
        tunnel_lro_gre: bool = 0x00[3:3],
        tunnel_lro_vxlan: bool = 0x00[2:2],
        tunnel_stateless_gre: bool = 0x00[1:1],
        tunnel_stateless_vxlan: bool = 0x00[0:0],
        swp: bool = 0x04[31:31],
        swp_csum: bool = 0x04[30:30],
        swp_lso: bool = 0x04[29:29],
        cqe_checksum_full: bool = 0x04[28:28],
        tunnel_stateless_geneve_tx: bool = 0x04[27:27],
        tunnel_stateless_mpls_over_udp: bool = 0x04[26:26],
        tunnel_stateless_mpls_over_gre: bool = 0x04[25:25],
        tunnel_stateless_vxlan_gpe: bool = 0x04[24:24],
        tunnel_stateless_ipv4_over_vxlan: bool = 0x04[23:23],
        tunnel_stateless_ip_over_ip: bool = 0x04[22:22],
        insert_trailer: bool = 0x04[21:21],
        tunnel_stateless_ip_over_ip_rx: bool = 0x04[19:19],
        tunnel_stateless_ip_over_ip_tx: bool = 0x04[18:18],
        max_vxlan_udp_ports: u8 = 0x04[15:8],
        swp_csum_l4_partial: bool = 0x04[7:7],
        max_geneve_opt_len: bool = 0x04[1:1],
        tunnel_stateless_geneve_rx: bool = 0x04[0:0],
        lro_min_mss_size: u16 = 0x08[15:0],
    }
    arrays {
        lro_timer_supported_periods: [u32; 4] = 0x30,
    }
}

layout! {
    /// Capabilities: quality of service (QOS).
    QosCap = "qos_cap", 0x100 {
        packet_pacing: bool = 0x00[31:31],
        esw_scheduling: bool = 0x00[30:30],
        esw_bw_share: bool = 0x00[29:29],
        esw_rate_limit: bool = 0x00[28:28],
        packet_pacing_burst_bound: bool = 0x00[26:26],
        packet_pacing_typical_size: bool = 0x00[25:25],
        nic_sq_scheduling: bool = 0x00[23:23],
        nic_bw_share: bool = 0x00[22:22],
        nic_rate_limit: bool = 0x00[21:21],
        packet_pacing_uid: bool = 0x00[20:20],
        log_esw_max_sched_depth: u8 = 0x00[19:16],
        packet_pacing_req_ud: bool = 0x04[29:29],
        packet_pacing_req_uc: bool = 0x04[28:28],
        esw_cross_esw_sched: bool = 0x04[22:22],
        log_max_qos_nic_queue_group: u8 = 0x04[20:16],
        packet_pacing_max_rate: u32 = 0x08[31:0],
        packet_pacing_min_rate: u32 = 0x0c[31:0],
        log_esw_max_rate_limit: u8 = 0x10[20:16],
        packet_pacing_rate_table_size: u16 = 0x10[15:0],
        esw_element_type: u16 = 0x14[31:16],
        esw_tsar_type: u16 = 0x14[15:0],
        max_qos_para_vport: u16 = 0x18[15:0],
        max_tsar_bw_share: u32 = 0x1c[31:0],
        nic_element_type: u16 = 0x20[31:16],
        nic_tsar_type: u16 = 0x20[15:0],
        log_meter_aso_granularity: u8 = 0x24[28:24],
        log_meter_aso_max_alloc: u8 = 0x24[20:16],
        log_max_num_meter_aso: u8 = 0x24[12:8],
    }
}

//! Counters of the port.

use crate::layout;

layout! {
    /// PPCNT group 0.
    Eth8023CntrsGrpDataLayout = "eth_802_3_cntrs_grp_data_layout", 0xf8 {
        a_frames_transmitted_ok_high: u32 = 0x00[31:0],
        a_frames_transmitted_ok_low: u32 = 0x04[31:0],
        a_frames_received_ok_high: u32 = 0x08[31:0],
        a_frames_received_ok_low: u32 = 0x0c[31:0],
        a_frame_check_sequence_errors_high: u32 = 0x10[31:0],
        a_frame_check_sequence_errors_low: u32 = 0x14[31:0],
        a_alignment_errors_high: u32 = 0x18[31:0],
        a_alignment_errors_low: u32 = 0x1c[31:0],
        a_octets_transmitted_ok_high: u32 = 0x20[31:0],
        a_octets_transmitted_ok_low: u32 = 0x24[31:0],
        a_octets_received_ok_high: u32 = 0x28[31:0],
        a_octets_received_ok_low: u32 = 0x2c[31:0],
        a_multicast_frames_xmitted_ok_high: u32 = 0x30[31:0],
        a_multicast_frames_xmitted_ok_low: u32 = 0x34[31:0],
        a_broadcast_frames_xmitted_ok_high: u32 = 0x38[31:0],
        a_broadcast_frames_xmitted_ok_low: u32 = 0x3c[31:0],
        a_multicast_frames_received_ok_high: u32 = 0x40[31:0],
        a_multicast_frames_received_ok_low: u32 = 0x44[31:0],
        a_broadcast_frames_received_ok_high: u32 = 0x48[31:0],
        a_broadcast_frames_received_ok_low: u32 = 0x4c[31:0],
        a_in_range_length_errors_high: u32 = 0x50[31:0],
        a_in_range_length_errors_low: u32 = 0x54[31:0],
        a_out_of_range_length_field_high: u32 = 0x58[31:0],
        a_out_of_range_length_field_low: u32 = 0x5c[31:0],
        a_frame_too_long_errors_high: u32 = 0x60[31:0],
        a_frame_too_long_errors_low: u32 = 0x64[31:0],
        a_symbol_error_during_carrier_high: u32 = 0x68[31:0],
        a_symbol_error_during_carrier_low: u32 = 0x6c[31:0],
        a_mac_control_frames_transmitted_high: u32 = 0x70[31:0],
        a_mac_control_frames_transmitted_low: u32 = 0x74[31:0],
        a_mac_control_frames_received_high: u32 = 0x78[31:0],
        a_mac_control_frames_received_low: u32 = 0x7c[31:0],
        a_unsupported_opcodes_received_high: u32 = 0x80[31:0],
        a_unsupported_opcodes_received_low: u32 = 0x84[31:0],
        a_pause_mac_ctrl_frames_received_high: u32 = 0x88[31:0],
        a_pause_mac_ctrl_frames_received_low: u32 = 0x8c[31:0],
        a_pause_mac_ctrl_frames_transmitted_high: u32 = 0x90[31:0],
        a_pause_mac_ctrl_frames_transmitted_low: u32 = 0x94[31:0],
    }
}

layout! {
    /// PPCNT group 1.
    Eth2863CntrsGrpDataLayout = "eth_2863_cntrs_grp_data_layout", 0xf8 {
        if_in_octets_high: u32 = 0x00[31:0],
        if_in_octets_low: u32 = 0x04[31:0],
        if_in_ucast_pkts_high: u32 = 0x08[31:0],
        if_in_ucast_pkts_low: u32 = 0x0c[31:0],
        if_in_discards_high: u32 = 0x10[31:0],
        if_in_discards_low: u32 = 0x14[31:0],
        if_in_errors_high: u32 = 0x18[31:0],
        if_in_errors_low: u32 = 0x1c[31:0],
        if_in_unknown_protos_high: u32 = 0x20[31:0],
        if_in_unknown_protos_low: u32 = 0x24[31:0],
        if_out_octets_high: u32 = 0x28[31:0],
        if_out_octets_low: u32 = 0x2c[31:0],
        if_out_ucast_pkts_high: u32 = 0x30[31:0],
        if_out_ucast_pkts_low: u32 = 0x34[31:0],
        if_out_discards_high: u32 = 0x38[31:0],
        if_out_discards_low: u32 = 0x3c[31:0],
        if_out_errors_high: u32 = 0x40[31:0],
        if_out_errors_low: u32 = 0x44[31:0],
        if_in_multicast_pkts_high: u32 = 0x48[31:0],
        if_in_multicast_pkts_low: u32 = 0x4c[31:0],
        if_in_broadcast_pkts_high: u32 = 0x50[31:0],
        if_in_broadcast_pkts_low: u32 = 0x54[31:0],
        if_out_multicast_pkts_high: u32 = 0x58[31:0],
        if_out_multicast_pkts_low: u32 = 0x5c[31:0],
        if_out_broadcast_pkts_high: u32 = 0x60[31:0],
        if_out_broadcast_pkts_low: u32 = 0x64[31:0],
    }
}

layout! {
    /// PPCNT group 2.
    Eth2819CntrsGrpDataLayout = "eth_2819_cntrs_grp_data_layout", 0xf8 {
        ether_stats_drop_events_high: u32 = 0x00[31:0],
        ether_stats_drop_events_low: u32 = 0x04[31:0],
        ether_stats_octets_high: u32 = 0x08[31:0],
        ether_stats_octets_low: u32 = 0x0c[31:0],
        ether_stats_pkts_high: u32 = 0x10[31:0],
        ether_stats_pkts_low: u32 = 0x14[31:0],
        ether_stats_broadcast_pkts_high: u32 = 0x18[31:0],
        ether_stats_broadcast_pkts_low: u32 = 0x1c[31:0],
        ether_stats_multicast_pkts_high: u32 = 0x20[31:0],
        ether_stats_multicast_pkts_low: u32 = 0x24[31:0],
        ether_stats_crc_align_errors_high: u32 = 0x28[31:0],
        ether_stats_crc_align_errors_low: u32 = 0x2c[31:0],
        ether_stats_undersize_pkts_high: u32 = 0x30[31:0],
        ether_stats_undersize_pkts_low: u32 = 0x34[31:0],
        ether_stats_oversize_pkts_high: u32 = 0x38[31:0],
        ether_stats_oversize_pkts_low: u32 = 0x3c[31:0],
        ether_stats_fragments_high: u32 = 0x40[31:0],
        ether_stats_fragments_low: u32 = 0x44[31:0],
        ether_stats_jabbers_high: u32 = 0x48[31:0],
        ether_stats_jabbers_low: u32 = 0x4c[31:0],
        ether_stats_collisions_high: u32 = 0x50[31:0],
        ether_stats_collisions_low: u32 = 0x54[31:0],
        ether_stats_pkts64octets_high: u32 = 0x58[31:0],
        ether_stats_pkts64octets_low: u32 = 0x5c[31:0],
        ether_stats_pkts65to127octets_high: u32 = 0x60[31:0],
        ether_stats_pkts65to127octets_low: u32 = 0x64[31:0],
        ether_stats_pkts128to255octets_high: u32 = 0x68[31:0],
        ether_stats_pkts128to255octets_low: u32 = 0x6c[31:0],
        ether_stats_pkts256to511octets_high: u32 = 0x70[31:0],
        ether_stats_pkts256to511octets_low: u32 = 0x74[31:0],
        ether_stats_pkts512to1023octets_high: u32 = 0x78[31:0],
        ether_stats_pkts512to1023octets_low: u32 = 0x7c[31:0],
        ether_stats_pkts1024to1518octets_high: u32 = 0x80[31:0],
        ether_stats_pkts1024to1518octets_low: u32 = 0x84[31:0],
        ether_stats_pkts1519to2047octets_high: u32 = 0x88[31:0],
        ether_stats_pkts1519to2047octets_low: u32 = 0x8c[31:0],
        ether_stats_pkts2048to4095octets_high: u32 = 0x90[31:0],
        ether_stats_pkts2048to4095octets_low: u32 = 0x94[31:0],
        ether_stats_pkts4096to8191octets_high: u32 = 0x98[31:0],
        ether_stats_pkts4096to8191octets_low: u32 = 0x9c[31:0],
        ether_stats_pkts8192to10239octets_high: u32 = 0xa0[31:0],
        ether_stats_pkts8192to10239octets_low: u32 = 0xa4[31:0],
    }
}

layout! {
    /// PPCNT group 3.
    Eth3635CntrsGrpDataLayout = "eth_3635_cntrs_grp_data_layout", 0xf8 {
        dot3stats_alignment_errors_high: u32 = 0x00[31:0],
        dot3stats_alignment_errors_low: u32 = 0x04[31:0],
        dot3stats_fcs_errors_high: u32 = 0x08[31:0],
        dot3stats_fcs_errors_low: u32 = 0x0c[31:0],
        dot3stats_single_collision_frames_high: u32 = 0x10[31:0],
        dot3stats_single_collision_frames_low: u32 = 0x14[31:0],
        dot3stats_multiple_collision_frames_high: u32 = 0x18[31:0],
        dot3stats_multiple_collision_frames_low: u32 = 0x1c[31:0],
        dot3stats_sqe_test_errors_high: u32 = 0x20[31:0],
        dot3stats_sqe_test_errors_low: u32 = 0x24[31:0],
        dot3stats_deferred_transmissions_high: u32 = 0x28[31:0],
        dot3stats_deferred_transmissions_low: u32 = 0x2c[31:0],
        dot3stats_late_collisions_high: u32 = 0x30[31:0],
        dot3stats_late_collisions_low: u32 = 0x34[31:0],
        dot3stats_excessive_collisions_high: u32 = 0x38[31:0],
        dot3stats_excessive_collisions_low: u32 = 0x3c[31:0],
        dot3stats_internal_mac_transmit_errors_high: u32 = 0x40[31:0],
        dot3stats_internal_mac_transmit_errors_low: u32 = 0x44[31:0],
        dot3stats_carrier_sense_errors_high: u32 = 0x48[31:0],
        dot3stats_carrier_sense_errors_low: u32 = 0x4c[31:0],
        dot3stats_frame_too_longs_high: u32 = 0x50[31:0],
        dot3stats_frame_too_longs_low: u32 = 0x54[31:0],
        dot3stats_internal_mac_receive_errors_high: u32 = 0x58[31:0],
        dot3stats_internal_mac_receive_errors_low: u32 = 0x5c[31:0],
        dot3stats_symbol_errors_high: u32 = 0x60[31:0],
        dot3stats_symbol_errors_low: u32 = 0x64[31:0],
        dot3control_in_unknown_opcodes_high: u32 = 0x68[31:0],
        dot3control_in_unknown_opcodes_low: u32 = 0x6c[31:0],
        dot3in_pause_frames_high: u32 = 0x70[31:0],
        dot3in_pause_frames_low: u32 = 0x74[31:0],
        dot3out_pause_frames_high: u32 = 0x78[31:0],
        dot3out_pause_frames_low: u32 = 0x7c[31:0],
    }
}

layout! {
    /// PPCNT group 5.
    EthExtendedCntrsGrpDataLayout = "eth_extended_cntrs_grp_data_layout", 0xf8 {
        port_transmit_wait_high: u32 = 0x00[31:0],
        port_transmit_wait_low: u32 = 0x04[31:0],
        rx_buffer_almost_full_high: u32 = 0x28[31:0],
        rx_buffer_almost_full_low: u32 = 0x2c[31:0],
        rx_buffer_full_high: u32 = 0x30[31:0],
        rx_buffer_full_low: u32 = 0x34[31:0],
        rx_icrc_encapsulated_high: u32 = 0x38[31:0],
        rx_icrc_encapsulated_low: u32 = 0x3c[31:0],
    }
}

layout! {
    /// PPCNT group 0x12.
    PhysLayerCntrs = "phys_layer_cntrs", 0xf8 {
        time_since_last_clear_high: u32 = 0x00[31:0],
        time_since_last_clear_low: u32 = 0x04[31:0],
        symbol_errors_high: u32 = 0x08[31:0],
        symbol_errors_low: u32 = 0x0c[31:0],
        sync_headers_errors_high: u32 = 0x10[31:0],
        sync_headers_errors_low: u32 = 0x14[31:0],
        edpl_bip_errors_lane0_high: u32 = 0x18[31:0],
        edpl_bip_errors_lane0_low: u32 = 0x1c[31:0],
        edpl_bip_errors_lane1_high: u32 = 0x20[31:0],
        edpl_bip_errors_lane1_low: u32 = 0x24[31:0],
        edpl_bip_errors_lane2_high: u32 = 0x28[31:0],
        edpl_bip_errors_lane2_low: u32 = 0x2c[31:0],
        edpl_bip_errors_lane3_high: u32 = 0x30[31:0],
        edpl_bip_errors_lane3_low: u32 = 0x34[31:0],
        fc_fec_corrected_blocks_lane0_high: u32 = 0x38[31:0],
        fc_fec_corrected_blocks_lane0_low: u32 = 0x3c[31:0],
        fc_fec_corrected_blocks_lane1_high: u32 = 0x40[31:0],
        fc_fec_corrected_blocks_lane1_low: u32 = 0x44[31:0],
        fc_fec_corrected_blocks_lane2_high: u32 = 0x48[31:0],
        fc_fec_corrected_blocks_lane2_low: u32 = 0x4c[31:0],
        fc_fec_corrected_blocks_lane3_high: u32 = 0x50[31:0],
        fc_fec_corrected_blocks_lane3_low: u32 = 0x54[31:0],
        fc_fec_uncorrectable_blocks_lane0_high: u32 = 0x58[31:0],
        fc_fec_uncorrectable_blocks_lane0_low: u32 = 0x5c[31:0],
        fc_fec_uncorrectable_blocks_lane1_high: u32 = 0x60[31:0],
        fc_fec_uncorrectable_blocks_lane1_low: u32 = 0x64[31:0],
        fc_fec_uncorrectable_blocks_lane2_high: u32 = 0x68[31:0],
        fc_fec_uncorrectable_blocks_lane2_low: u32 = 0x6c[31:0],
        fc_fec_uncorrectable_blocks_lane3_high: u32 = 0x70[31:0],
        fc_fec_uncorrectable_blocks_lane3_low: u32 = 0x74[31:0],
        rs_fec_corrected_blocks_high: u32 = 0x78[31:0],
        rs_fec_corrected_blocks_low: u32 = 0x7c[31:0],
        rs_fec_uncorrectable_blocks_high: u32 = 0x80[31:0],
        rs_fec_uncorrectable_blocks_low: u32 = 0x84[31:0],
        rs_fec_no_errors_blocks_high: u32 = 0x88[31:0],
        rs_fec_no_errors_blocks_low: u32 = 0x8c[31:0],
        rs_fec_single_error_blocks_high: u32 = 0x90[31:0],
        rs_fec_single_error_blocks_low: u32 = 0x94[31:0],
        rs_fec_corrected_symbols_total_high: u32 = 0x98[31:0],
        rs_fec_corrected_symbols_total_low: u32 = 0x9c[31:0],
        rs_fec_corrected_symbols_lane0_high: u32 = 0xa0[31:0],
        rs_fec_corrected_symbols_lane0_low: u32 = 0xa4[31:0],
        rs_fec_corrected_symbols_lane1_high: u32 = 0xa8[31:0],
        rs_fec_corrected_symbols_lane1_low: u32 = 0xac[31:0],
        rs_fec_corrected_symbols_lane2_high: u32 = 0xb0[31:0],
        rs_fec_corrected_symbols_lane2_low: u32 = 0xb4[31:0],
        rs_fec_corrected_symbols_lane3_high: u32 = 0xb8[31:0],
        rs_fec_corrected_symbols_lane3_low: u32 = 0xbc[31:0],
        link_down_events: u32 = 0xc0[31:0],
        successful_recovery_events: u32 = 0xc4[31:0],
    }
}

layout! {
    /// PPCNT group 0x16.
    PhysLayerStatisticalCntrs = "phys_layer_statistical_cntrs", 0xf8 {
        time_since_last_clear_high: u32 = 0x00[31:0],
        time_since_last_clear_low: u32 = 0x04[31:0],
        phy_received_bits_high: u32 = 0x08[31:0],
        phy_received_bits_low: u32 = 0x0c[31:0],
        phy_symbol_errors_high: u32 = 0x10[31:0],
        phy_symbol_errors_low: u32 = 0x14[31:0],
        phy_corrected_bits_high: u32 = 0x18[31:0],
        phy_corrected_bits_low: u32 = 0x1c[31:0],
        phy_corrected_bits_lane0_high: u32 = 0x20[31:0],
        phy_corrected_bits_lane0_low: u32 = 0x24[31:0],
        phy_corrected_bits_lane1_high: u32 = 0x28[31:0],
        phy_corrected_bits_lane1_low: u32 = 0x2c[31:0],
        phy_corrected_bits_lane2_high: u32 = 0x30[31:0],
        phy_corrected_bits_lane2_low: u32 = 0x34[31:0],
        phy_corrected_bits_lane3_high: u32 = 0x38[31:0],
        phy_corrected_bits_lane3_low: u32 = 0x3c[31:0],
    }
}

layout! {
    /// PPCNT group 0x20: the counters of a performance MAD.
    IbPortCntrsGrpDataLayout = "ib_port_cntrs_grp_data_layout", 0x28 {
        symbol_error_counter: u16 = 0x00[31:16],
        link_error_recovery_counter: u8 = 0x00[15:8],
        link_downed_counter: u8 = 0x00[7:0],
        port_rcv_errors: u16 = 0x04[31:16],
        port_rcv_remote_physical_errors: u16 = 0x04[15:0],
        port_rcv_switch_relay_errors: u16 = 0x08[31:16],
        port_xmit_discards: u16 = 0x08[15:0],
        port_xmit_constraint_errors: u8 = 0x0c[31:24],
        port_rcv_constraint_errors: u8 = 0x0c[23:16],
        link_overrun_errors: u8 = 0x0c[7:0],
        vl_15_dropped: u16 = 0x10[15:0],
        port_xmit_wait: u32 = 0x24[31:0],
    }
}

layout! {
    /// PPCNT group 0x21.
    IbExtPortCntrsGrpDataLayout = "ib_ext_port_cntrs_grp_data_layout", 0xf8 {
        port_xmit_data_high: u32 = 0x60[31:0],
        port_xmit_data_low: u32 = 0x64[31:0],
        port_rcv_data_high: u32 = 0x68[31:0],
        port_rcv_data_low: u32 = 0x6c[31:0],
        port_xmit_pkts_high: u32 = 0x70[31:0],
        port_xmit_pkts_low: u32 = 0x74[31:0],
        port_rcv_pkts_high: u32 = 0x78[31:0],
        port_rcv_pkts_low: u32 = 0x7c[31:0],
        port_unicast_xmit_pkts_high: u32 = 0x90[31:0],
        port_unicast_xmit_pkts_low: u32 = 0x94[31:0],
        port_multicast_xmit_pkts_high: u32 = 0x98[31:0],
        port_multicast_xmit_pkts_low: u32 = 0x9c[31:0],
        port_unicast_rcv_pkts_high: u32 = 0xa0[31:0],
        port_unicast_rcv_pkts_low: u32 = 0xa4[31:0],
        port_multicast_rcv_pkts_high: u32 = 0xa8[31:0],
        port_multicast_rcv_pkts_low: u32 = 0xac[31:0],
    }
}

layout! {
    /// PPCNT: counters of the port, by group.
    PpcntReg = "ppcnt_reg", 0x100 {
        swid: u8 = 0x00[31:24],
        local_port: u8 = 0x00[23:16],
        pnat: u8 = 0x00[15:14],
        grp: u8 = 0x00[5:0],
        clr: bool = 0x04[31:31],
        plane_ind: u8 = 0x04[11:8],
        prio_tc: u8 = 0x04[4:0],
    }
    parts {
        eth_802_3_cntrs_grp_data_layout: Eth8023CntrsGrpDataLayout = 0x08,
        eth_2863_cntrs_grp_data_layout: Eth2863CntrsGrpDataLayout = 0x08,
        eth_2819_cntrs_grp_data_layout: Eth2819CntrsGrpDataLayout = 0x08,
        eth_3635_cntrs_grp_data_layout: Eth3635CntrsGrpDataLayout = 0x08,
        eth_extended_cntrs_grp_data_layout: EthExtendedCntrsGrpDataLayout = 0x08,
        ib_port_cntrs_grp_data_layout: IbPortCntrsGrpDataLayout = 0x08,
        ib_ext_port_cntrs_grp_data_layout: IbExtPortCntrsGrpDataLayout = 0x08,
        phys_layer_cntrs: PhysLayerCntrs = 0x08,
        phys_layer_statistical_cntrs: PhysLayerStatisticalCntrs = 0x08,
    }
}

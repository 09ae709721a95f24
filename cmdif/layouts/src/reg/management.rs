//! Registers of the node and of the card as a whole.

use crate::layout;

layout! {
    /// HOST_ENDIANNESS.
    HostEndianness = "register_host_endianness", 0x10 {
        he: bool = 0x00[31:31],
    }
}

layout! {
    /// NODE_DESC.
    NodeDesc = "set_node_in", 0x40 {
    }
    arrays {
        node_description: [u8; 64] = 0x00,
    }
}

layout! {
    /// A time: value and unit.
    DefaultTimeout = "default_timeout", 0x4 {
        to_multiplier: u8 = 0x00[31:29],
        to_value: u32 = 0x00[19:0],
    }
}

layout! {
    /// DTOR: how long the driver is to wait for what.
    DtorReg = "dtor_reg", 0x40 {
    }
    parts {
        pcie_toggle_to: DefaultTimeout = 0x04,
        health_poll_to: DefaultTimeout = 0x14,
        full_crdump_to: DefaultTimeout = 0x18,
        fw_reset_to: DefaultTimeout = 0x1c,
        flush_on_err_to: DefaultTimeout = 0x20,
        pci_sync_update_to: DefaultTimeout = 0x24,
        tear_down_to: DefaultTimeout = 0x28,
        fsm_reactivate_to: DefaultTimeout = 0x2c,
        reclaim_pages_to: DefaultTimeout = 0x30,
        reclaim_vfs_pages_to: DefaultTimeout = 0x34,
        reset_unload_to: DefaultTimeout = 0x38,
    }
}

layout! {
    /// MTUTC: the clock set and adjusted.
    MtutcReg = "mtutc_reg", 0x1c {
        freq_adj_units: u8 = 0x00[26:24],
        log_max_freq_adjustment: u8 = 0x00[20:16],
        operation: u8 = 0x00[3:0],
        freq_adjustment: u32 = 0x04[31:0],
        utc_sec: u32 = 0x10[31:0],
        utc_nsec: u32 = 0x14[29:0],
        time_adjustment: u32 = 0x18[31:0],
    }
}

layout! {
    /// MRTC: the host's time.
    MrtcReg = "mrtc_reg", 0x10 {
        time_synced: bool = 0x00[31:31],
        time_h: u32 = 0x08[31:0],
        time_l: u32 = 0x0c[31:0],
    }
}

layout! {
    /// MPCNT group 0.
    PciePerfCntrsGrpDataLayout = "pcie_perf_cntrs_grp_data_layout", 0xf8 {
        life_time_counter_high: u32 = 0x00[31:0],
        life_time_counter_low: u32 = 0x04[31:0],
        rx_errors: u32 = 0x08[31:0],
        tx_errors: u32 = 0x0c[31:0],
        l0_to_recovery_eieos: u32 = 0x10[31:0],
        l0_to_recovery_ts: u32 = 0x14[31:0],
        l0_to_recovery_framing: u32 = 0x18[31:0],
        l0_to_recovery_retrain: u32 = 0x1c[31:0],
        crc_error_dllp: u32 = 0x20[31:0],
        crc_error_tlp: u32 = 0x24[31:0],
        tx_overflow_buffer_pkt_high: u32 = 0x28[31:0],
        tx_overflow_buffer_pkt_low: u32 = 0x2c[31:0],
        outbound_stalled_reads: u32 = 0x30[31:0],
        outbound_stalled_writes: u32 = 0x34[31:0],
        outbound_stalled_reads_events: u32 = 0x38[31:0],
        outbound_stalled_writes_events: u32 = 0x3c[31:0],
    }
}

layout! {
    /// MPEIN: the PCIe link.
    MpeinReg = "mpein_reg", 0x30 {
        depth: u8 = 0x00[29:24],
        pcie_index: u8 = 0x00[23:16],
        node: u8 = 0x00[15:8],
        capability_mask: u32 = 0x04[31:0],
        link_width_enabled: u8 = 0x08[23:16],
        link_speed_enabled: u16 = 0x08[15:0],
        lane0_physical_position: u8 = 0x0c[31:24],
        link_width_active: u8 = 0x0c[23:16],
        link_speed_active: u16 = 0x0c[15:0],
        num_of_pfs: u16 = 0x10[31:16],
        num_of_vfs: u16 = 0x10[15:0],
        bdf0: u16 = 0x14[31:16],
        max_read_request_size: u8 = 0x18[31:28],
        max_payload_size: u8 = 0x18[27:24],
        pwr_status: u8 = 0x18[18:16],
        port_type: u8 = 0x18[15:12],
        lane_reversal: bool = 0x18[0:0],
        pci_power: u16 = 0x1c[11:0],
        device_status: u16 = 0x24[31:16],
        port_state: u8 = 0x24[15:8],
        receiver_detect_result: u16 = 0x28[15:0],
    }
}

layout! {
    /// MPCNT: counters of the PCIe link.
    MpcntReg = "mpcnt_reg", 0x100 {
        pcie_index: u8 = 0x00[23:16],
        grp: u8 = 0x00[5:0],
        clr: bool = 0x04[31:31],
    }
    parts {
        pcie_perf_cntrs_grp_data_layout: PciePerfCntrsGrpDataLayout = 0x08,
    }
}

layout! {
    /// MCIA: a transceiver's memory.
    MciaReg = "mcia_reg", 0x90 {
        l: bool = 0x00[31:31],
        module: u8 = 0x00[23:16],
        status: u8 = 0x00[7:0],
        i2c_device_address: u8 = 0x04[31:24],
        page_number: u8 = 0x04[23:16],
        device_address: u16 = 0x04[15:0],
        size: u16 = 0x08[15:0],
    }
    arrays {
        dwords: [u8; 128] = 0x10,
    }
}

layout! {
    /// MTCAP: which temperature sensors there are.
    MtcapReg = "mtcap_reg", 0x10 {
        sensor_count: u8 = 0x00[6:0],
        sensor_map: u64 = 0x08[63:0],
    }
}

layout! {
    /// MTMP: one temperature sensor.
    MtmpReg = "mtmp_reg", 0x20 {
        sensor_index: u16 = 0x00[11:0],
        temperature: u16 = 0x04[15:0],
        mte: bool = 0x08[31:31],
        mtr: bool = 0x08[30:30],
        max_temperature: u16 = 0x08[15:0],
        tee: u8 = 0x0c[31:30],
        temp_threshold_hi: u16 = 0x0c[15:0],
        temp_threshold_lo: u16 = 0x10[15:0],
        sensor_name_hi: u32 = 0x18[31:0],
        sensor_name_lo: u32 = 0x1c[31:0],
    }
}

layout! {
    /// MFRL: reset of the firmware.
    MfrlReg = "mfrl_reg", 0x8 {
        pci_sync_for_fw_update_start: bool = 0x04[29:29],
        pci_sync_for_fw_update_resp: u8 = 0x04[28:27],
        rst_type_sel: u8 = 0x04[26:24],
        pci_reset_req_method: u8 = 0x04[23:21],
        reset_state: u8 = 0x04[19:16],
        reset_type: u8 = 0x04[15:8],
        reset_level: u8 = 0x04[7:0],
    }
}

layout! {
    /// MCQI: limits of a component.
    McqiCap = "mcqi_cap", 0x14 {
        supported_info_bitmask: u32 = 0x00[31:0],
        component_size: u32 = 0x04[31:0],
        max_component_size: u32 = 0x08[31:0],
        log_mcda_word_size: u8 = 0x0c[31:28],
        mcda_max_write_size: u16 = 0x0c[15:0],
        rd_en: bool = 0x10[31:31],
        match_chip_id: bool = 0x10[29:29],
        match_psid: bool = 0x10[28:28],
        check_user_timestamp: bool = 0x10[27:27],
        match_base_guid_mac: bool = 0x10[26:26],
    }
}

layout! {
    /// MCQI: version of a component.
    McqiVersion = "mcqi_version", 0x7c {
        build_time_valid: bool = 0x00[29:29],
        user_defined_time_valid: bool = 0x00[28:28],
        version_string_length: u8 = 0x00[7:0],
        version: u32 = 0x04[31:0],
        build_time: u64 = 0x08[63:0],
        user_defined_time: u64 = 0x10[63:0],
        build_tool_version: u32 = 0x18[31:0],
    }
    arrays {
        version_string: [u8; 92] = 0x20,
    }
}

layout! {
    /// MCQI: how a component becomes active.
    McqiActivationMethod = "mcqi_activation_method", 0x4 {
        pending_server_ac_power_cycle: bool = 0x00[31:31],
        pending_server_dc_power_cycle: bool = 0x00[30:30],
        pending_server_reboot: bool = 0x00[29:29],
        pending_fw_reset: bool = 0x00[28:28],
        auto_activate: bool = 0x00[27:27],
        all_hosts_sync: bool = 0x00[26:26],
        device_hw_reset: bool = 0x00[25:25],
    }
}

layout! {
    /// MCQI: what a firmware component is.
    McqiReg = "mcqi_reg", 0x18 {
        read_pending_component: bool = 0x00[31:31],
        component_index: u16 = 0x00[15:0],
        info_type: u8 = 0x08[4:0],
        info_size: u32 = 0x0c[31:0],
        offset: u32 = 0x10[31:0],
        data_size: u16 = 0x14[15:0],
    }
    parts {
        /// By `info_type`.
        mcqi_caps: McqiCap = 0x18,
        mcqi_version: McqiVersion = 0x18,
        mcqi_activation_mathod: McqiActivationMethod = 0x18,
    }
}

layout! {
    /// MCQS: how a firmware component is.
    McqsReg = "mcqs_reg", 0x10 {
        last_index_flag: bool = 0x00[31:31],
        fw_device: u8 = 0x00[23:16],
        component_index: u16 = 0x00[15:0],
        identifier: u16 = 0x04[15:0],
        component_status: u8 = 0x08[8:4],
        component_update_state: u8 = 0x08[3:0],
        last_update_state_changer_type: u8 = 0x0c[31:28],
        last_update_state_changer_host_id: u8 = 0x0c[27:24],
    }
}

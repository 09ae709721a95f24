//! Registers that say which registers there are.

use crate::layout;

layout! {
    /// Port registers, a bit each.
    PcamRegs5000To507f = "pcam_regs_5000_to_507f", 0x10 {
        pphcr: bool = 0x08[30:30],
        pplm: bool = 0x08[3:3],
        pbmc: bool = 0x0c[12:12],
        pptb: bool = 0x0c[11:11],
        ppcnt: bool = 0x0c[8:8],
    }
}

layout! {
    /// Features of port registers.
    PcamEnhancedFeatures = "pcam_enhanced_features", 0x10 {
        ppcnt_recovery_counters: bool = 0x00[15:15],
        cable_length: bool = 0x00[7:7],
        fec_200G_per_lane_in_pplm: bool = 0x00[2:2],
        fec_100G_per_lane_in_pplm: bool = 0x08[23:23],
        shp_pbmc_pbsr_support: bool = 0x08[20:20],
        buffer_ownership: bool = 0x08[12:12],
        fec_50G_per_lane_in_pplm: bool = 0x0c[23:23],
        rx_icrc_encapsulated_counter: bool = 0x0c[18:18],
        ptys_extended_ethernet: bool = 0x0c[13:13],
        pfcc_mask: bool = 0x0c[9:9],
        per_lane_error_counters: bool = 0x0c[5:5],
        rx_buffer_fullness_counters: bool = 0x0c[4:4],
        ptys_connector_type: bool = 0x0c[3:3],
        ppcnt_discard_group: bool = 0x0c[1:1],
        ppcnt_statistical_group: bool = 0x0c[0:0],
    }
}

layout! {
    /// PCAM: which port registers and features there are.
    PcamReg = "pcam_reg", 0x50 {
        feature_group: u8 = 0x00[23:16],
        access_reg_group: u8 = 0x00[7:0],
    }
    parts {
        regs_5000_to_507f: PcamRegs5000To507f = 0x08,
        enhanced_features: PcamEnhancedFeatures = 0x28,
    }
}

layout! {
    /// MCAM group 0.
    McamAccessReg0 = "mcam_access_reg", 0x10 {
        mcda: bool = 0x00[3:3],
        mcc: bool = 0x00[2:2],
        mcqi: bool = 0x00[1:1],
        mcqs: bool = 0x00[0:0],
        mpir: bool = 0x04[25:25],
        mpegc: bool = 0x04[22:22],
        mtutc: bool = 0x04[21:21],
        tracer_registers: u8 = 0x04[3:0],
        mrtc: bool = 0x08[13:13],
        mfrl: bool = 0x08[8:8],
        mtmp: bool = 0x0c[10:10],
    }
}

layout! {
    /// MCAM group 1.
    McamAccessReg1 = "mcam_access_reg_bits1", 0x10 {
    }
}

layout! {
    /// MCAM group 2.
    McamAccessReg2 = "mcam_access_reg_bits2", 0x10 {
        mirc: bool = 0x00[2:2],
        synce_registers: u8 = 0x04[22:21],
    }
}

layout! {
    /// MCAM group 3.
    McamAccessReg3 = "mcam_access_reg_bits3", 0x10 {
        mrtcq: bool = 0x0c[2:2],
        mtctr: bool = 0x0c[1:1],
        mtptm: bool = 0x0c[0:0],
    }
}

layout! {
    /// Features of management registers.
    McamEnhancedFeatures = "mcam_enhanced_features", 0x10 {
        mtutc_freq_adj_units: bool = 0x08[15:15],
        mtutc_time_adjustment_extended_range: bool = 0x08[14:14],
        mcia_32dwords: bool = 0x08[2:2],
        out_pulse_duration_ns: bool = 0x08[1:1],
        npps_period: bool = 0x08[0:0],
        reset_state: bool = 0x0c[21:21],
        ptpcyc2realtime_modify: bool = 0x0c[20:20],
        pci_status_and_power: bool = 0x0c[17:17],
        mark_tx_action_cnp: bool = 0x0c[11:11],
        mark_tx_action_cqe: bool = 0x0c[10:10],
        dynamic_tx_overflow: bool = 0x0c[9:9],
        pcie_outbound_stalled: bool = 0x0c[4:4],
        tx_overflow_buffer_pkt: bool = 0x0c[3:3],
        mtpps_enh_out_per_adj: bool = 0x0c[2:2],
        mtpps_fs: bool = 0x0c[1:1],
        pcie_performance_group: bool = 0x0c[0:0],
    }
}

layout! {
    /// MCAM: which management registers and features there are, by group.
    McamReg = "mcam_reg", 0x48 {
        feature_group: u8 = 0x00[23:16],
        access_reg_group: u8 = 0x00[7:0],
    }
    parts {
        access_regs: McamAccessReg0 = 0x08,
        access_regs1: McamAccessReg1 = 0x08,
        access_regs2: McamAccessReg2 = 0x08,
        access_regs3: McamAccessReg3 = 0x08,
        enhanced_features: McamEnhancedFeatures = 0x28,
    }
}

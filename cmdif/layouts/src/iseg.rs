//! The initialization segment, the registers at the start of BAR0.
//!
//! Plain C in `device.h`; words that hold several fields are split as `mlx5_ifc_initial_seg_bits`
//! splits them.

use crate::layout;

layout! {
    /// What the firmware says about its health.
    HealthBuffer = "health_buffer", 0x40 {
        assert_existptr: u32 = 0x20[31:0],
        assert_callra: u32 = 0x24[31:0],
        time: u32 = 0x2c[31:0],
        fw_version: u32 = 0x30[31:0],
        hw_id: u32 = 0x34[31:0],
        /// The driver must recover: what happened is fatal.
        rfr: bool = 0x38[31:31],
        valid: bool = 0x38[27:27],
        severity: u8 = 0x38[26:24],
        irisc_index: u8 = 0x3c[31:24],
        /// 0 is healthy.
        synd: u8 = 0x3c[23:16],
        ext_synd: u16 = 0x3c[15:0],
    }
    arrays {
        assert_var: [u32; 6] = 0x00,
    }
}

layout! {
    /// The initialization segment.
    InitialSegment = "mlx5_init_seg", 0x2010 {
        fw_rev_minor: u16 = 0x00[31:16],
        fw_rev_major: u16 = 0x00[15:0],
        cmd_interface_rev: u16 = 0x04[31:16],
        fw_rev_subminor: u16 = 0x04[15:0],
        cmdq_phy_addr_63_32: u32 = 0x10[31:0],
        cmdq_phy_addr_31_12: u32 = 0x14[31:12],
        /// Three bits, of which `mlx5_ifc.h` names two: the driver's `mlx5_get_nic_state`
        /// (`health.c`) reads three, and the third tells a software reset.
        nic_interface: u8 = 0x14[10:8],
        log_cmdq_size: u8 = 0x14[7:4],
        log_cmdq_stride: u8 = 0x14[3:0],
        /// A bit for each slot.
        command_doorbell_vector: u32 = 0x18[31:0],
        initializing: bool = 0x1fc[31:31],
        /// `MLX5_FW_RESET_SUPPORTED_OFFSET`.
        fw_reset_supported: bool = 0x1fc[30:30],
        nic_interface_supported: u8 = 0x1fc[26:24],
        embedded_cpu: bool = 0x1fc[23:23],
        no_dram_nic_offset: u32 = 0x240[31:0],
        cmd_exec_to: u32 = 0xff8[31:0],
        cmd_q_init_to: u32 = 0xffc[31:0],
        internal_timer_h: u32 = 0x1000[31:0],
        internal_timer_l: u32 = 0x1004[31:0],
        clear_int: bool = 0x100c[0:0],
        health_syndrome: u8 = 0x1010[31:24],
        health_counter: u32 = 0x1010[23:0],
        real_time_h: u32 = 0x1040[31:0],
        real_time_l: u32 = 0x1044[31:0],
        ieee1588_clk: u64 = 0x2000[63:0],
        ieee1588_clk_type: u32 = 0x2008[31:0],
        clr_intx: u32 = 0x200c[31:0],
    }
    parts {
        health_buffer: HealthBuffer = 0x200,
    }
}

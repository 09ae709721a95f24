//! Doorbells: words that software writes to a UAR page, and the records that it keeps in its own
//! memory. No header has structures for them; each names its source.

use crate::layout;

/// Where a UAR page takes a completion queue's arm request (`MLX5_CQ_DOORBELL`).
pub const UAR_CQ_ARM: usize = 0x20;
/// Where a UAR page takes an event queue's consumer index and arms it (the driver's `eq.c`,
/// `eq_update_ci` with `arm`: doorbell + 0).
pub const UAR_EQ_ARM: usize = 0x40;
/// Where it takes the consumer index only (`eq_update_ci` without `arm`: doorbell + 8).
pub const UAR_EQ_CI: usize = 0x48;
/// Where the registers for send queues begin (`MLX5_BF_OFFSET`): four, whose size is
/// `log_bf_reg_size`.
pub const UAR_BF: usize = 0x800;

layout! {
    /// Arms a completion queue (`mlx5_cq_arm` in `cq.h`).
    CqDoorbell = "cq_doorbell", 0x8 {
        sn: u8 = 0x00[29:28],
        /// `MLX5_CQ_DB_REQ_NOT_SOL`: only for a solicited completion or one in error.
        solicited: bool = 0x00[24:24],
        ci: u32 = 0x00[23:0],
        cqn: u32 = 0x04[23:0],
    }
}

layout! {
    /// Event queue and its consumer index (the driver's `eq.c`, `eq_update_ci`).
    EqDoorbell = "eq_doorbell", 0x4 {
        eqn: u8 = 0x00[31:24],
        ci: u32 = 0x00[23:0],
    }
}

layout! {
    /// A queue pair's doorbell record (`MLX5_RCV_DBR`, `MLX5_SND_DBR` in `qp.h`). Shared receive
    /// queues have only the first word.
    QpDoorbellRecord = "qp_doorbell_record", 0x8 {
        rcv: u16 = 0x00[15:0],
        snd: u16 = 0x04[15:0],
    }
}

layout! {
    /// A completion queue's doorbell record (`mlx5_cq_set_ci` and `mlx5_cq_arm` in `cq.h`).
    CqDoorbellRecord = "cq_doorbell_record", 0x8 {
        ci: u32 = 0x00[23:0],
        arm_sn: u8 = 0x04[29:28],
        arm_solicited: bool = 0x04[24:24],
        arm_ci: u32 = 0x04[23:0],
    }
}

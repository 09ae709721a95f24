//! Translation entries as they come in CREATE_MKEY and UMR work requests, and the bits by which a
//! UMR says what it checks and changes.
//!
//! `mlx5_ifc.h` has the MTT entry; the others are plain C in `qp.h`, the constants in `device.h`.

use crate::layout;

layout! {
    /// One page of a key in MTT mode.
    MttEntry = "mtt", 0x8 {
        ptag_63_32: u32 = 0x00[31:0],
        ptag_31_8: u32 = 0x04[31:8],
        wr_en: bool = 0x04[1:1],
        rd_en: bool = 0x04[0:0],
    }
}

layout! {
    /// One run of another key's bytes (KLM); in KSM mode `bcount` is reserved.
    KlmEntry = "mlx5_klm", 0x10 {
        bcount: u32 = 0x00[31:0],
        key: u32 = 0x04[31:0],
        va: u64 = 0x08[63:0],
    }
}

layout! {
    /// In place of a KLM: the next `num_entries` entries are [`StrideEntry`]s, walked
    /// `repeat_count` times.
    StrideBlock = "mlx5_stride_block_ctrl_seg", 0x10 {
        bcount_per_cycle: u32 = 0x00[31:0],
        /// [`STRIDE_BLOCK_OP`]; where a KLM has its key.
        op: u32 = 0x04[31:0],
        repeat_count: u32 = 0x08[31:0],
        num_entries: u16 = 0x0c[15:0],
    }
}

layout! {
    /// One run of a strided block: `bcount` bytes of each cycle, `stride` apart.
    StrideEntry = "mlx5_stride_block_entry", 0x10 {
        stride: u16 = 0x00[31:16],
        bcount: u16 = 0x00[15:0],
        key: u32 = 0x04[31:0],
        va: u64 = 0x08[63:0],
    }
}

/// `MLX5_STRIDE_BLOCK_OP`.
pub const STRIDE_BLOCK_OP: u32 = 0x400;

/// Which fields a UMR changes (`MLX5_MKEY_MASK_*`).
#[allow(missing_docs)]
pub mod mkey_mask {
    pub const LEN: u64 = 1 << 0;
    /// The lower five bits of `log_page_size`.
    pub const PAGE_SIZE: u64 = 1 << 1;
    pub const START_ADDR: u64 = 1 << 6;
    pub const PD: u64 = 1 << 7;
    pub const EN_RINVAL: u64 = 1 << 8;
    pub const EN_SIGERR: u64 = 1 << 9;
    pub const BSF_EN: u64 = 1 << 12;
    /// The variant byte.
    pub const KEY: u64 = 1 << 13;
    pub const QPN: u64 = 1 << 14;
    pub const LR: u64 = 1 << 17;
    pub const LW: u64 = 1 << 18;
    pub const RR: u64 = 1 << 19;
    pub const RW: u64 = 1 << 20;
    pub const A: u64 = 1 << 21;
    pub const SMALL_FENCE: u64 = 1 << 23;
    pub const RELAXED_ORDERING_WRITE: u64 = 1 << 25;
    pub const FREE: u64 = 1 << 29;
    /// The sixth bit of `log_page_size`.
    pub const PAGE_SIZE_5: u64 = 1 << 42;
    pub const RELAXED_ORDERING_READ: u64 = 1 << 47;
}

/// Flags of a UMR control segment (`MLX5_UMR_*`).
pub mod umr_flags {
    /// The translations follow in the work request.
    pub const INLINE: u8 = 1 << 7;
    /// Fail unless the key is not free (a field of two bits: this and the next exclude each other).
    pub const CHECK_FREE: u8 = 2 << 5;
    /// Fail unless the key is free. rdma-core calls this one `CHECK_FREE`.
    pub const CHECK_NOT_FREE: u8 = 1 << 5;
    /// `xlt_offset` is in force.
    pub const TRANSLATION_OFFSET_EN: u8 = 1 << 4;
    /// Fail unless the key is bound to the queue pair that asks (only rdma-core has this one).
    pub const CHECK_QPN: u8 = 1 << 3;
}

//! Segments of work requests, plain C in `qp.h` and `device.h`.

use crate::layout;

layout! {
    /// What every send work request begins with; its first 8 bytes are also the doorbell.
    WqeCtrlSeg = "mlx5_wqe_ctrl_seg", 0x10 {
        /// Highest byte of `opmod_idx_opcode` (the driver's `wr.c`, `mlx5r_finish_wqe`).
        opmod: u8 = 0x00[31:24],
        /// `MLX5_WQE_CTRL_WQE_INDEX_MASK` of `opmod_idx_opcode`.
        wqe_index: u16 = 0x00[23:8],
        /// `MLX5_WQE_CTRL_OPCODE_MASK` of `opmod_idx_opcode`, a [`WqeOpcode`](crate::WqeOpcode).
        opcode: u8 = 0x00[7:0],
        /// `MLX5_WQE_CTRL_QPN_MASK` of `qpn_ds`.
        qpn: u32 = 0x04[31:8],
        /// `MLX5_WQE_CTRL_DS_MASK` of `qpn_ds`: size in units of 16 bytes.
        ds: u8 = 0x04[5:0],
        signature: u8 = 0x08[31:24],
        /// Where `qp.h` has `rsvd`: rdma-core, `mlx5_wqe_ctrl_seg.dci_stream_channel_id`.
        dci_stream_channel_id: u16 = 0x08[23:8],
        /// `MLX5_FENCE_MODE_*` of `fm_ce_se`.
        fence: u8 = 0x08[7:5],
        /// `MLX5_WQE_CTRL_CQ_UPDATE*` of `fm_ce_se`: 2 a completion, 3 a completion and an event.
        ce: u8 = 0x08[3:2],
        /// `MLX5_WQE_CTRL_SOLICITED` of `fm_ce_se`.
        se: bool = 0x08[1:1],
        general_id: u32 = 0x0c[31:0],
        imm: u32 = 0x0c[31:0],
        umr_mkey: u32 = 0x0c[31:0],
        tis_tir_num: u32 = 0x0c[31:0],
    }
}

layout! {
    /// What a UMR changes; a memory key context and translations follow.
    WqeUmrCtrlSeg = "mlx5_wqe_umr_ctrl_seg", 0x30 {
        /// See [`umr_flags`](crate::umr_flags).
        flags: u8 = 0x00[31:24],
        /// Number of translations, in 16 bytes.
        xlt_octowords: u16 = 0x04[31:16],
        xlt_offset: u16 = 0x04[15:0],
        bsf_octowords: u16 = 0x04[15:0],
        /// See [`mkey_mask`](crate::mkey_mask).
        mkey_mask: u64 = 0x08[63:0],
        xlt_offset_47_16: u32 = 0x10[31:0],
    }
}

layout! {
    /// Data in guest memory.
    WqeDataSeg = "mlx5_wqe_data_seg", 0x10 {
        byte_count: u32 = 0x00[31:0],
        lkey: u32 = 0x04[31:0],
        addr: u64 = 0x08[63:0],
    }
}

layout! {
    /// Data in the work request itself.
    WqeInlineSeg = "mlx5_wqe_inline_seg", 0x4 {
        /// `MLX5_INLINE_SEG` of `byte_count`: where a data segment has the highest bit of its
        /// length.
        inline: bool = 0x00[31:31],
        /// `MLX5_WQE_INLINE_SEG_BYTE_COUNT_MASK` of `byte_count`.
        byte_count: u16 = 0x00[9:0],
    }
    tail { data: u8 = 0x04 }
}

layout! {
    /// Memory of the peer.
    WqeRaddrSeg = "mlx5_wqe_raddr_seg", 0x10 {
        raddr: u64 = 0x00[63:0],
        rkey: u32 = 0x08[31:0],
    }
}

layout! {
    /// Operands of an atomic operation.
    WqeAtomicSeg = "mlx5_wqe_atomic_seg", 0x10 {
        swap_add: u64 = 0x00[63:0],
        compare: u64 = 0x08[63:0],
    }
}

layout! {
    /// Operands of a masked atomic operation on 8 bytes.
    WqeMaskedAtomicSeg = "mlx5_wqe_masked_atomic_seg", 0x20 {
        swap_add: u64 = 0x00[63:0],
        compare: u64 = 0x08[63:0],
        swap_add_mask: u64 = 0x10[63:0],
        compare_mask: u64 = 0x18[63:0],
    }
}

layout! {
    /// Where a datagram goes.
    WqeDatagramSeg = "mlx5_av", 0x30 {
        /// `key.qkey.qkey`.
        qkey: u32 = 0x00[31:0],
        /// `key.dc_key`.
        dc_key: u64 = 0x00[63:0],
        /// `MLX5_EXTENDED_UD_AV` of `dqp_dct`: the segment is 48 bytes long, not 16.
        ext: bool = 0x08[31:31],
        /// Lower part of `dqp_dct` (`ud_adrs_vector.destination_qp_dct`).
        destination_qp_dct: u32 = 0x08[23:0],
        /// Upper half of `stat_rate_sl` (`ud_adrs_vector.static_rate`).
        static_rate: u8 = 0x0c[31:28],
        /// Lower half of `stat_rate_sl` (`ud_adrs_vector.sl_eth_prio`).
        sl: u8 = 0x0c[27:24],
        /// Highest bit of `fl_mlid` (`ud_adrs_vector.fl`): force loopback.
        fl: bool = 0x0c[23:23],
        /// Lower bits of `fl_mlid` (`ud_adrs_vector.mlid`): source path bits.
        mlid: u8 = 0x0c[22:16],
        rlid: u16 = 0x0c[15:0],
        udp_sport: u16 = 0x0c[15:0],
        tclass: u8 = 0x18[15:8],
        hop_limit: u8 = 0x18[7:0],
        /// Of `grh_gid_fl` (`ud_adrs_vector.grh`): the packet has an address header.
        grh: bool = 0x1c[30:30],
        /// Of `grh_gid_fl` (`ud_adrs_vector.src_addr_index`).
        src_addr_index: u8 = 0x1c[27:20],
        /// Lower part of `grh_gid_fl` (`ud_adrs_vector.flow_label`).
        flow_label: u32 = 0x1c[19:0],
    }
    arrays {
        rmac: [u8; 6] = 0x14,
        rgid: [u8; 16] = 0x20,
    }
}

layout! {
    /// The shared receive queue of an XRC send.
    WqeXrcSeg = "mlx5_wqe_xrc_seg", 0x10 {
        xrc_srqn: u32 = 0x00[31:0],
    }
}

layout! {
    /// What every work request of a shared receive queue begins with.
    WqeSrqNextSeg = "mlx5_wqe_srq_next_seg", 0x10 {
        next_wqe_index: u16 = 0x00[15:0],
        signature: u8 = 0x04[31:24],
    }
}

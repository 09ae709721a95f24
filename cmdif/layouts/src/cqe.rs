//! Completion queue entries, plain C in `device.h`.

use crate::layout;

layout! {
    /// A completion: the last 64 bytes of an entry of any size.
    Cqe64 = "mlx5_cqe64", 0x40 {
        tls_outer_l3_tunneled: u8 = 0x00[31:24],
        wqe_id: u16 = 0x00[15:0],
        rss_hash_result: u32 = 0x0c[31:0],
        rss_hash_type: u8 = 0x10[31:24],
        ml_path: u8 = 0x10[23:16],
        check_sum: u16 = 0x14[31:16],
        slid: u16 = 0x14[15:0],
        /// Upper part of `flags_rqpn`: the kind of address header, 0 none, 1 GRH (the driver's
        /// `cq.c`, `handle_responder`).
        grh: u8 = 0x18[29:28],
        /// Of `flags_rqpn`: service level (`handle_responder`). On RoCE the lower two bits are the
        /// layer 3 header's type.
        sl: u8 = 0x18[27:24],
        /// Lower part of `flags_rqpn`: the sender's queue pair (`handle_responder`).
        rqpn: u32 = 0x18[23:0],
        hds_ip_ext: u8 = 0x1c[31:24],
        l4_l3_hdr_type: u8 = 0x1c[23:16],
        vlan_info: u16 = 0x1c[15:0],
        /// Shared receive queue, or the user's index of the queue if the user has chosen version 1
        /// of the entries.
        srqn: u32 = 0x20[23:0],
        /// Upper part of the word of `srqn` (`device.h` says so beside it).
        lro_num_seg: u8 = 0x20[31:24],
        immediate: u32 = 0x24[31:0],
        inval_rkey: u32 = 0x24[31:0],
        pkey: u32 = 0x24[31:0],
        byte_cnt: u32 = 0x2c[31:0],
        /// `timestamp_h` and `timestamp_l`, as `get_cqe_ts` in `device.h` reads them.
        timestamp: u64 = 0x30[63:0],
        /// Upper part of `sop_drop_qpn`: the opcode of the work request (the driver's `cq.c`,
        /// `handle_good_req`).
        sop: u8 = 0x38[31:24],
        /// Lower part of `sop_drop_qpn`: the queue pair (`mlx5_poll_one`).
        qpn: u32 = 0x38[23:0],
        wqe_counter: u16 = 0x3c[31:16],
        signature: u8 = 0x3c[15:8],
        /// Upper half of `op_own`, a [`CqeOpcode`](crate::CqeOpcode) (`get_cqe_opcode` in
        /// `device.h`).
        opcode: u8 = 0x3c[7:4],
        /// Of `op_own`: whether data is in the entry (`mlx5_get_cqe_format`).
        format: u8 = 0x3c[3:2],
        /// Of `op_own`: solicited event (rdma-core, `mlx5_cqe` documentation of `op_own`).
        se: bool = 0x3c[1:1],
        /// Lowest bit of `op_own`, alternates with every lap (`MLX5_CQE_OWNER_MASK` in `cq.h`).
        owner: bool = 0x3c[0:0],
    }
}

layout! {
    /// A completion in error.
    ErrCqe = "mlx5_err_cqe", 0x40 {
        srqn: u32 = 0x20[31:0],
        vendor_err_synd: u8 = 0x34[15:8],
        /// A [`CqeSyndrome`](crate::CqeSyndrome).
        syndrome: u8 = 0x34[7:0],
        /// Upper part of `s_wqe_opcode_qpn`: the opcode of the work request, where a completion
        /// without error has it too.
        s_wqe_opcode: u8 = 0x38[31:24],
        /// Lower part of `s_wqe_opcode_qpn`: the queue pair.
        qpn: u32 = 0x38[23:0],
        wqe_counter: u16 = 0x3c[31:16],
        signature: u8 = 0x3c[15:8],
        /// Upper half of `op_own`, as in a completion without error.
        opcode: u8 = 0x3c[7:4],
        /// Lowest bit of `op_own`.
        owner: bool = 0x3c[0:0],
    }
}

layout! {
    /// A completion that tells of a signature that does not match.
    SigErrCqe = "mlx5_sig_err_cqe", 0x40 {
        expected_trans_sig: u32 = 0x10[31:0],
        actual_trans_sig: u32 = 0x14[31:0],
        expected_reftag: u32 = 0x18[31:0],
        actual_reftag: u32 = 0x1c[31:0],
        syndrome: u16 = 0x20[31:16],
        mkey: u32 = 0x24[31:0],
        err_offset: u64 = 0x28[63:0],
        qpn: u32 = 0x38[31:0],
        signature: u8 = 0x3c[15:8],
        /// Upper half of `op_own`.
        opcode: u8 = 0x3c[7:4],
        /// Lowest bit of `op_own`.
        owner: bool = 0x3c[0:0],
    }
}

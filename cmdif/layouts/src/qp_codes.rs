//! Queue pairs, work requests and completions: states, types, opcodes, syndromes.

use crate::codes::codes;

codes! {
    /// `qpc.state` (`MLX5_QP_STATE_*`).
    QpState: u8 {
        RST = 0x0,
        INIT = 0x1,
        RTR = 0x2,
        RTS = 0x3,
        SQER = 0x4,
        SQD = 0x5,
        ERR = 0x6,
        SQ_DRAINING = 0x7,
        SUSPENDED = 0x9,
    }
}

codes! {
    /// `qpc.st` (`MLX5_QP_ST_*`).
    QpType: u8 {
        RC = 0x0,
        UC = 0x1,
        UD = 0x2,
        XRC = 0x3,
        MLX = 0x4,
        DCI = 0x5,
        DCT = 0x6,
        QP0 = 0x7,
        QP1 = 0x8,
        RAW_ETHERTYPE = 0x9,
        RAW_IPV6 = 0xa,
        SNIFFER = 0xb,
        REG_UMR = 0xc,
        PTP_1588 = 0xd,
        SYNC_UMR = 0xe,
    }
}

codes! {
    /// What a work request asks for (`MLX5_OPCODE_*`).
    WqeOpcode: u8 {
        NOP = 0x00,
        SEND_INVAL = 0x01,
        RDMA_WRITE = 0x08,
        RDMA_WRITE_IMM = 0x09,
        SEND = 0x0a,
        SEND_IMM = 0x0b,
        LSO = 0x0e,
        RDMA_READ = 0x10,
        ATOMIC_CS = 0x11,
        ATOMIC_FA = 0x12,
        ATOMIC_MASKED_CS = 0x14,
        ATOMIC_MASKED_FA = 0x15,
        BIND_MW = 0x18,
        CONFIG_CMD = 0x1f,
        SET_PSV = 0x20,
        GET_PSV = 0x21,
        CHECK_PSV = 0x22,
        DUMP = 0x23,
        UMR = 0x25,
        RGET_PSV = 0x26,
        RCHECK_PSV = 0x27,
        ENHANCED_MPSW = 0x29,
        FLOW_TBL_ACCESS = 0x2c,
        ACCESS_ASO = 0x2d,
    }
}

codes! {
    /// What a completion tells of (`MLX5_CQE_*` in `cq.h`).
    CqeOpcode: u8 {
        REQ = 0x0,
        RESP_WR_IMM = 0x1,
        RESP_SEND = 0x2,
        RESP_SEND_IMM = 0x3,
        RESP_SEND_INV = 0x4,
        RESIZE_CQ = 0x5,
        SIG_ERR = 0xc,
        REQ_ERR = 0xd,
        RESP_ERR = 0xe,
        INVALID = 0xf,
    }
}

codes! {
    /// Why a work request failed (`MLX5_CQE_SYNDROME_*`).
    CqeSyndrome: u8 {
        LOCAL_LENGTH_ERR = 0x01,
        LOCAL_QP_OP_ERR = 0x02,
        LOCAL_PROT_ERR = 0x04,
        WR_FLUSH_ERR = 0x05,
        MW_BIND_ERR = 0x06,
        BAD_RESP_ERR = 0x10,
        LOCAL_ACCESS_ERR = 0x11,
        REMOTE_INVAL_REQ_ERR = 0x12,
        REMOTE_ACCESS_ERR = 0x13,
        REMOTE_OP_ERR = 0x14,
        TRANSPORT_RETRY_EXC_ERR = 0x15,
        RNR_RETRY_EXC_ERR = 0x16,
        REMOTE_ABORTED_ERR = 0x22,
    }
}

//! Shared receive queues: SRQ and XRC SRQ.

use crate::layout;

layout! {
    /// Shared receive queue context, at ISSI 0.
    Srqc = "srqc", 0x40 {
        state: u8 = 0x00[31:28],
        log_srq_size: u8 = 0x00[27:24],
        wq_signature: bool = 0x04[31:31],
        cont_srq: bool = 0x04[30:30],
        rlky: bool = 0x04[28:28],
        log_rq_stride: u8 = 0x04[26:24],
        xrcd: u32 = 0x04[23:0],
        page_offset: u8 = 0x08[31:26],
        cqn: u32 = 0x08[23:0],
        log_page_size: u8 = 0x10[29:24],
        pd: u32 = 0x18[23:0],
        lwm: u16 = 0x1c[31:16],
        wqe_cnt: u16 = 0x1c[15:0],
        dbr_addr: u64 = 0x28[63:0],
    }
}

layout! {
    /// Input of CREATE_SRQ.
    CreateSrqIn = "create_srq_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
    }
    parts {
        srq_context_entry: Srqc = 0x10,
    }
    tail { pas: u64 = 0x110 }
}

layout! {
    /// Output of CREATE_SRQ.
    CreateSrqOut = "create_srq_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        srqn: u32 = 0x08[23:0],
    }
}

layout! {
    /// Input of DESTROY_SRQ.
    DestroySrqIn = "destroy_srq_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        srqn: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of DESTROY_SRQ.
    DestroySrqOut = "destroy_srq_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of QUERY_SRQ.
    QuerySrqIn = "query_srq_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        srqn: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of QUERY_SRQ.
    QuerySrqOut = "query_srq_out", 0x110 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
    parts {
        srq_context_entry: Srqc = 0x10,
    }
    tail { pas: u64 = 0x110 }
}

layout! {
    /// Input of ARM_RQ.
    ArmRqIn = "arm_rq_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        srq_number: u32 = 0x08[23:0],
        lwm: u16 = 0x0c[15:0],
    }
}

layout! {
    /// Output of ARM_RQ.
    ArmRqOut = "arm_rq_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// XRC shared receive queue context.
    XrcSrqc = "xrc_srqc", 0x40 {
        state: u8 = 0x00[31:28],
        log_xrc_srq_size: u8 = 0x00[27:24],
        wq_signature: bool = 0x04[31:31],
        cont_srq: bool = 0x04[30:30],
        rlky: bool = 0x04[28:28],
        basic_cyclic_rcv_wqe: bool = 0x04[27:27],
        log_rq_stride: u8 = 0x04[26:24],
        xrcd: u32 = 0x04[23:0],
        page_offset: u8 = 0x08[31:26],
        dbr_umem_valid: bool = 0x08[24:24],
        cqn: u32 = 0x08[23:0],
        user_index_equal_xrc_srqn: bool = 0x10[31:31],
        log_page_size: u8 = 0x10[29:24],
        user_index: u32 = 0x10[23:0],
        pd: u32 = 0x18[23:0],
        lwm: u16 = 0x1c[31:16],
        wqe_cnt: u16 = 0x1c[15:0],
        db_record_addr_h: u32 = 0x28[31:0],
        db_record_addr_l: u32 = 0x2c[31:2],
    }
}

layout! {
    /// Input of CREATE_XRC_SRQ.
    CreateXrcSrqIn = "create_xrc_srq_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        xrc_srq_umem_valid: bool = 0x5c[31:31],
    }
    parts {
        xrc_srq_context_entry: XrcSrqc = 0x10,
    }
    tail { pas: u64 = 0x110 }
}

layout! {
    /// Output of CREATE_XRC_SRQ.
    CreateXrcSrqOut = "create_xrc_srq_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        xrc_srqn: u32 = 0x08[23:0],
    }
}

layout! {
    /// Input of DESTROY_XRC_SRQ.
    DestroyXrcSrqIn = "destroy_xrc_srq_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        xrc_srqn: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of DESTROY_XRC_SRQ.
    DestroyXrcSrqOut = "destroy_xrc_srq_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of QUERY_XRC_SRQ.
    QueryXrcSrqIn = "query_xrc_srq_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        xrc_srqn: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of QUERY_XRC_SRQ.
    QueryXrcSrqOut = "query_xrc_srq_out", 0x110 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
    parts {
        xrc_srq_context_entry: XrcSrqc = 0x10,
    }
    tail { pas: u64 = 0x110 }
}

layout! {
    /// Input of ARM_XRC_SRQ.
    ArmXrcSrqIn = "arm_xrc_srq_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        xrc_srqn: u32 = 0x08[23:0],
        lwm: u16 = 0x0c[15:0],
    }
}

layout! {
    /// Output of ARM_XRC_SRQ.
    ArmXrcSrqOut = "arm_xrc_srq_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

//! Completion queues.

use crate::layout;

layout! {
    /// Completion queue context.
    Cqc = "cqc", 0x40 {
        status: u8 = 0x00[31:28],
        dbr_umem_valid: bool = 0x00[25:25],
        apu_cq: bool = 0x00[24:24],
        cqe_sz: u8 = 0x00[23:21],
        cc: bool = 0x00[20:20],
        scqe_break_moderation_en: bool = 0x00[18:18],
        oi: bool = 0x00[17:17],
        cq_period_mode: u8 = 0x00[16:15],
        cqe_comp_en: bool = 0x00[14:14],
        mini_cqe_res_format: u8 = 0x00[13:12],
        st: u8 = 0x00[11:8],
        cqe_compression_layout: u8 = 0x00[1:0],
        /// From rdma-core's tests (`SwCqc`).
        dbr_umem_id: u32 = 0x04[31:0],
        page_offset: u8 = 0x08[11:6],
        log_cq_size: u8 = 0x0c[28:24],
        uar_page: u32 = 0x0c[23:0],
        cq_period: u16 = 0x10[27:16],
        cq_max_count: u16 = 0x10[15:0],
        c_eqn_or_apu_element: u32 = 0x14[31:0],
        log_page_size: u8 = 0x18[28:24],
        last_notified_index: u32 = 0x20[23:0],
        last_solicit_index: u32 = 0x24[23:0],
        consumer_counter: u32 = 0x28[23:0],
        producer_counter: u32 = 0x2c[23:0],
        dbr_addr: u64 = 0x38[63:0],
    }
}

layout! {
    /// Input of CREATE_CQ.
    CreateCqIn = "create_cq_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        /// From rdma-core's tests (`CreateCqIn`), as is the next.
        cq_umem_offset: u64 = 0x50[63:0],
        cq_umem_id: u32 = 0x58[31:0],
        cq_umem_valid: bool = 0x5c[31:31],
    }
    parts {
        cq_context: Cqc = 0x10,
    }
    tail { pas: u64 = 0x110 }
}

layout! {
    /// Output of CREATE_CQ.
    CreateCqOut = "create_cq_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        cqn: u32 = 0x08[23:0],
    }
}

layout! {
    /// Input of DESTROY_CQ.
    DestroyCqIn = "destroy_cq_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        cqn: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of DESTROY_CQ.
    DestroyCqOut = "destroy_cq_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of QUERY_CQ.
    QueryCqIn = "query_cq_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        cqn: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of QUERY_CQ.
    QueryCqOut = "query_cq_out", 0x110 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
    parts {
        cq_context: Cqc = 0x10,
    }
    tail { pas: u64 = 0x110 }
}

layout! {
    /// Which fields MODIFY_CQ changes.
    ModifyFieldSelect = "modify_field_select", 0x4 {
        modify_field_select: u32 = 0x00[31:0],
    }
}

layout! {
    /// Which fields MODIFY_CQ changes when it resizes.
    ResizeFieldSelect = "resize_field_select", 0x4 {
        resize_field_select: u32 = 0x00[31:0],
    }
}

layout! {
    /// Input of MODIFY_CQ.
    ModifyCqIn = "modify_cq_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        cqn: u32 = 0x08[23:0],
        /// As in CREATE_CQ.
        cq_umem_offset: u64 = 0x50[63:0],
        cq_umem_id: u32 = 0x58[31:0],
        cq_umem_valid: bool = 0x5c[31:31],
    }
    parts {
        modify_field_select: ModifyFieldSelect = 0x0c,
        resize_field_select: ResizeFieldSelect = 0x0c,
        cq_context: Cqc = 0x10,
    }
    tail { pas: u64 = 0x110 }
}

layout! {
    /// Output of MODIFY_CQ.
    ModifyCqOut = "modify_cq_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

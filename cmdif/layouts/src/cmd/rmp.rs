//! Receive memory pools.

use crate::layout;

layout! {
    /// A receive work queue.
    Wq = "wq", 0xc0 {
        wq_type: u8 = 0x00[31:28],
        wq_signature: bool = 0x00[27:27],
        end_padding_mode: u8 = 0x00[26:25],
        cd_slave: bool = 0x00[24:24],
        hds_skip_first_sge: bool = 0x04[31:31],
        log2_hds_buf_size: u8 = 0x04[30:28],
        page_offset: u8 = 0x04[20:16],
        lwm: u16 = 0x04[15:0],
        pd: u32 = 0x08[23:0],
        uar_page: u32 = 0x0c[23:0],
        dbr_addr: u64 = 0x10[63:0],
        hw_counter: u32 = 0x18[31:0],
        sw_counter: u32 = 0x1c[31:0],
        log_wq_stride: u8 = 0x20[19:16],
        log_wq_pg_sz: u8 = 0x20[12:8],
        log_wq_sz: u8 = 0x20[4:0],
        dbr_umem_valid: bool = 0x24[31:31],
        wq_umem_valid: bool = 0x24[30:30],
        log_hairpin_num_packets: u8 = 0x24[28:24],
        log_hairpin_data_sz: u8 = 0x24[20:16],
        log_wqe_num_of_strides: u8 = 0x24[11:8],
        two_byte_shift_en: bool = 0x24[7:7],
        log_wqe_stride_size: u8 = 0x24[2:0],
        dbr_umem_id: u32 = 0x28[31:0],
        wq_umem_id: u32 = 0x2c[31:0],
        wq_umem_offset: u64 = 0x30[63:0],
        headers_mkey: u32 = 0x38[31:0],
        shampo_enable: bool = 0x3c[31:31],
        shampo_mode: u8 = 0x3c[29:28],
        log_reservation_size: u8 = 0x3c[26:24],
        log_max_num_of_packets_per_reservation: u8 = 0x3c[18:16],
        log_headers_entry_size: u8 = 0x3c[9:8],
        log_headers_buffer_entry_num: u8 = 0x3c[3:0],
    }
    tail { pas: u64 = 0xc0 }
}

layout! {
    /// Receive memory pool context: what a shared receive queue is at ISSI 1.
    Rmpc = "rmpc", 0xf0 {
        state: u8 = 0x00[23:20],
        basic_cyclic_rcv_wqe: bool = 0x04[31:31],
    }
    parts {
        wq: Wq = 0x30,
    }
}

layout! {
    /// Input of CREATE_RMP.
    CreateRmpIn = "create_rmp_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
    }
    parts {
        ctx: Rmpc = 0x20,
    }
}

layout! {
    /// Output of CREATE_RMP.
    CreateRmpOut = "create_rmp_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        rmpn: u32 = 0x08[23:0],
    }
}

layout! {
    /// Input of DESTROY_RMP.
    DestroyRmpIn = "destroy_rmp_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        rmpn: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of DESTROY_RMP.
    DestroyRmpOut = "destroy_rmp_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of QUERY_RMP.
    QueryRmpIn = "query_rmp_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        rmpn: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of QUERY_RMP.
    QueryRmpOut = "query_rmp_out", 0x110 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
    parts {
        rmp_context: Rmpc = 0x20,
    }
}

layout! {
    /// Which fields MODIFY_RMP changes.
    RmpBitmask = "rmp_bitmask", 0x8 {
        lwm: bool = 0x04[0:0],
    }
}

layout! {
    /// Input of MODIFY_RMP.
    ModifyRmpIn = "modify_rmp_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        rmp_state: u8 = 0x08[31:28],
        rmpn: u32 = 0x08[23:0],
    }
    parts {
        bitmask: RmpBitmask = 0x10,
        ctx: Rmpc = 0x20,
    }
}

layout! {
    /// Output of MODIFY_RMP.
    ModifyRmpOut = "modify_rmp_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

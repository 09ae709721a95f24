//! Memory keys, page faults and memory of the device.

use crate::{Mkc, layout};

layout! {
    /// Input of CREATE_MKEY.
    CreateMkeyIn = "create_mkey_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        pg_access: bool = 0x0c[31:31],
        mkey_umem_valid: bool = 0x0c[30:30],
        data_direct: bool = 0x0c[29:29],
        translations_octword_actual_size: u32 = 0x60[31:0],
    }
    parts {
        memory_key_mkey_entry: Mkc = 0x10,
    }
    tail { klm_pas_mtt: u64 = 0x110 }
}

layout! {
    /// Output of CREATE_MKEY.
    CreateMkeyOut = "create_mkey_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        mkey_index: u32 = 0x08[23:0],
    }
}

layout! {
    /// Input of QUERY_MKEY.
    QueryMkeyIn = "query_mkey_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        mkey_index: u32 = 0x08[23:0],
        pg_access: bool = 0x0c[31:31],
    }
}

layout! {
    /// Output of QUERY_MKEY.
    QueryMkeyOut = "query_mkey_out", 0x130 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
    parts {
        memory_key_mkey_entry: Mkc = 0x10,
    }
    arrays {
        bsf0_klm0_pas_mtt0_1: [u8; 16] = 0x110,
        bsf1_klm1_pas_mtt2_3: [u8; 16] = 0x120,
    }
}

layout! {
    /// Input of DESTROY_MKEY.
    DestroyMkeyIn = "destroy_mkey_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        mkey_index: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of DESTROY_MKEY.
    DestroyMkeyOut = "destroy_mkey_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of QUERY_SPECIAL_CONTEXTS.
    QuerySpecialContextsIn = "query_special_contexts_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
    }
}

layout! {
    /// Output of QUERY_SPECIAL_CONTEXTS.
    QuerySpecialContextsOut = "query_special_contexts_out", 0x20 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        dump_fill_mkey: u32 = 0x08[31:0],
        resd_lkey: u32 = 0x0c[31:0],
        null_mkey: u32 = 0x10[31:0],
        terminate_scatter_list_mkey: u32 = 0x14[31:0],
        repeated_mkey: u32 = 0x18[31:0],
    }
}

layout! {
    /// Which page fault of a queue is over (transport scheme).
    TransPageFaultInfo = "trans_page_fault_info", 0x8 {
        error: bool = 0x00[31:31],
        page_fault_type: u8 = 0x00[26:24],
        wq_number: u32 = 0x00[23:0],
        fault_token: u32 = 0x04[23:0],
    }
}

layout! {
    /// Which page fault is over (memory scheme).
    MemPageFaultInfo = "mem_page_fault_info", 0x8 {
        error: bool = 0x00[31:31],
        fault_token_47_32: u16 = 0x00[15:0],
        fault_token_31_0: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of PAGE_FAULT_RESUME.
    PageFaultResumeIn = "page_fault_resume_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
    }
    parts {
        trans_page_fault_info: TransPageFaultInfo = 0x08,
        mem_page_fault_info: MemPageFaultInfo = 0x08,
    }
}

layout! {
    /// Output of PAGE_FAULT_RESUME.
    PageFaultResumeOut = "page_fault_resume_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of ALLOC_MEMIC.
    AllocMemicIn = "alloc_memic_in", 0x20 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        log_memic_addr_alignment: u8 = 0x0c[7:0],
        range_start_addr: u64 = 0x10[63:0],
        range_size: u32 = 0x18[31:0],
        memic_size: u32 = 0x1c[31:0],
    }
}

layout! {
    /// Output of ALLOC_MEMIC.
    AllocMemicOut = "alloc_memic_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        memic_start_addr: u64 = 0x08[63:0],
    }
}

layout! {
    /// Input of DEALLOC_MEMIC.
    DeallocMemicIn = "dealloc_memic_in", 0x20 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        memic_start_addr: u64 = 0x10[63:0],
        memic_size: u32 = 0x18[31:0],
    }
}

layout! {
    /// Output of DEALLOC_MEMIC.
    DeallocMemicOut = "dealloc_memic_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of MODIFY_MEMIC.
    ModifyMemicIn = "modify_memic_in", 0x40 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        memic_operation_type: u8 = 0x0c[7:0],
        memic_start_addr: u64 = 0x10[63:0],
    }
}

layout! {
    /// Output of MODIFY_MEMIC.
    ModifyMemicOut = "modify_memic_out", 0x40 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        memic_operation_addr: u64 = 0x10[63:0],
    }
}

//! What DEVX users get: contexts, memory, general objects.

use crate::layout;

layout! {
    /// A DEVX user.
    Uctx = "uctx", 0x30 {
        cap: u32 = 0x00[31:0],
    }
}

layout! {
    /// Input of CREATE_UCTX.
    CreateUctxIn = "create_uctx_in", 0x40 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
    }
    parts {
        uctx: Uctx = 0x10,
    }
}

layout! {
    /// Output of CREATE_UCTX.
    CreateUctxOut = "create_uctx_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        uid: u16 = 0x08[15:0],
    }
}

layout! {
    /// Input of DESTROY_UCTX.
    DestroyUctxIn = "destroy_uctx_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        uid: u16 = 0x08[15:0],
    }
}

layout! {
    /// Output of DESTROY_UCTX.
    DestroyUctxOut = "destroy_uctx_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// A range of memory that a DEVX user registers.
    Umem = "umem", 0x20 {
        ats: bool = 0x10[31:31],
        log_page_size: u8 = 0x10[4:0],
        page_offset: u32 = 0x14[31:0],
        num_of_mtt: u64 = 0x18[63:0],
    }
    tail { mtt: u64 = 0x20 }
}

layout! {
    /// Input of CREATE_UMEM.
    CreateUmemIn = "create_umem_in", 0x30 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
    }
    parts {
        umem: Umem = 0x10,
    }
}

layout! {
    /// Output of CREATE_UMEM.
    CreateUmemOut = "create_umem_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        umem_id: u32 = 0x08[23:0],
    }
}

layout! {
    /// Input of DESTROY_UMEM.
    DestroyUmemIn = "destroy_umem_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        umem_id: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of DESTROY_UMEM.
    DestroyUmemOut = "destroy_umem_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// What CREATE_GENERAL_OBJECT asks for.
    GeneralObjCreateParam = "general_obj_create_param", 0x4 {
        alias_object: bool = 0x00[31:31],
        log_obj_range: u8 = 0x00[28:24],
    }
}

layout! {
    /// What QUERY_GENERAL_OBJECT asks for.
    GeneralObjQueryParam = "general_obj_query_param", 0x4 {
        alias_object: bool = 0x00[31:31],
        obj_offset: u32 = 0x00[30:0],
    }
}

layout! {
    /// Input header of the commands on general objects.
    GeneralObjInCmdHdr = "general_obj_in_cmd_hdr", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        vhca_tunnel_id: u16 = 0x04[31:16],
        obj_type: u16 = 0x04[15:0],
        obj_id: u32 = 0x08[31:0],
    }
    parts {
        create: GeneralObjCreateParam = 0x0c,
        query: GeneralObjQueryParam = 0x0c,
    }
}

layout! {
    /// Output header of the commands on general objects.
    GeneralObjOutCmdHdr = "general_obj_out_cmd_hdr", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        obj_id: u32 = 0x08[31:0],
    }
}

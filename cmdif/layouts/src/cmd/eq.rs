//! Event queues.

use crate::layout;

layout! {
    /// Event queue context.
    Eqc = "eqc", 0x40 {
        status: u8 = 0x00[31:28],
        ec: bool = 0x00[18:18],
        oi: bool = 0x00[17:17],
        st: u8 = 0x00[11:8],
        page_offset: u8 = 0x08[11:6],
        log_eq_size: u8 = 0x0c[28:24],
        uar_page: u32 = 0x0c[23:0],
        intr: u16 = 0x14[11:0],
        log_page_size: u8 = 0x18[28:24],
        consumer_counter: u32 = 0x28[23:0],
        producer_counter: u32 = 0x2c[23:0],
    }
}

layout! {
    /// Input of CREATE_EQ.
    CreateEqIn = "create_eq_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
    }
    parts {
        eq_context_entry: Eqc = 0x10,
    }
    arrays {
        event_bitmask: [u64; 4] = 0x58,
    }
    tail { pas: u64 = 0x110 }
}

layout! {
    /// Output of CREATE_EQ.
    CreateEqOut = "create_eq_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        eq_number: u8 = 0x08[7:0],
    }
}

layout! {
    /// Input of DESTROY_EQ.
    DestroyEqIn = "destroy_eq_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        eq_number: u8 = 0x08[7:0],
    }
}

layout! {
    /// Output of DESTROY_EQ.
    DestroyEqOut = "destroy_eq_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of QUERY_EQ.
    QueryEqIn = "query_eq_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        eq_number: u8 = 0x08[7:0],
    }
}

layout! {
    /// Output of QUERY_EQ.
    QueryEqOut = "query_eq_out", 0x110 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        event_bitmask: u64 = 0x58[63:0],
    }
    parts {
        eq_context_entry: Eqc = 0x10,
    }
    tail { pas: u64 = 0x110 }
}

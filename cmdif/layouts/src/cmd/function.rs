//! The function itself: its life cycle, its pages, what it is.

use crate::layout;

layout! {
    /// Input of ENABLE_HCA.
    EnableHcaIn = "enable_hca_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        embedded_cpu_function: bool = 0x08[31:31],
        function_id_type: bool = 0x08[28:28],
        function_id: u16 = 0x08[15:0],
    }
}

layout! {
    /// Output of ENABLE_HCA.
    EnableHcaOut = "enable_hca_out", 0xc {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of DISABLE_HCA.
    DisableHcaIn = "disable_hca_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        embedded_cpu_function: bool = 0x08[31:31],
        function_id_type: bool = 0x08[28:28],
        function_id: u16 = 0x08[15:0],
    }
}

layout! {
    /// Output of DISABLE_HCA.
    DisableHcaOut = "disable_hca_out", 0xc {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of QUERY_ISSI.
    QueryIssiIn = "query_issi_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
    }
}

layout! {
    /// Output of QUERY_ISSI.
    QueryIssiOut = "query_issi_out", 0x70 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        current_issi: u16 = 0x08[15:0],
        supported_issi_dw0: u32 = 0x6c[31:0],
    }
}

layout! {
    /// Input of SET_ISSI.
    SetIssiIn = "set_issi_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        current_issi: u16 = 0x08[15:0],
    }
}

layout! {
    /// Output of SET_ISSI.
    SetIssiOut = "set_issi_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of INIT_HCA.
    InitHcaIn = "init_hca_in", 0x20 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        sw_vhca_id: u16 = 0x0c[29:16],
    }
    arrays {
        sw_owner_id: [u32; 4] = 0x10,
    }
}

layout! {
    /// Output of INIT_HCA.
    InitHcaOut = "init_hca_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of TEARDOWN_HCA.
    TeardownHcaIn = "teardown_hca_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        profile: u16 = 0x08[15:0],
    }
}

layout! {
    /// Output of TEARDOWN_HCA.
    TeardownHcaOut = "teardown_hca_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        state: bool = 0x0c[0:0],
    }
}

layout! {
    /// Input of SET_DRIVER_VERSION.
    SetDriverVersionIn = "set_driver_version_in", 0x50 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
    }
    arrays {
        driver_version: [u8; 64] = 0x10,
    }
}

layout! {
    /// Output of SET_DRIVER_VERSION.
    SetDriverVersionOut = "set_driver_version_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of QUERY_PAGES.
    QueryPagesIn = "query_pages_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        embedded_cpu_function: bool = 0x08[31:31],
        function_id: u16 = 0x08[15:0],
    }
}

layout! {
    /// Output of QUERY_PAGES.
    QueryPagesOut = "query_pages_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        embedded_cpu_function: bool = 0x08[31:31],
        function_id: u16 = 0x08[15:0],
        num_pages: u32 = 0x0c[31:0],
    }
}

layout! {
    /// Input of MANAGE_PAGES.
    ManagePagesIn = "manage_pages_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        embedded_cpu_function: bool = 0x08[31:31],
        function_id: u16 = 0x08[15:0],
        input_num_entries: u32 = 0x0c[31:0],
    }
    tail { pas: u64 = 0x10 }
}

layout! {
    /// Output of MANAGE_PAGES.
    ManagePagesOut = "manage_pages_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        output_num_entries: u32 = 0x08[31:0],
    }
    tail { pas: u64 = 0x10 }
}

layout! {
    /// Input of QUERY_ADAPTER.
    QueryAdapterIn = "query_adapter_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
    }
}

layout! {
    /// Output of QUERY_ADAPTER.
    QueryAdapterOut = "query_adapter_out", 0x110 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
    parts {
        query_adapter_struct: QueryAdapterParamBlock = 0x10,
    }
}

layout! {
    /// What an adapter is.
    QueryAdapterParamBlock = "query_adapter_param_block", 0x100 {
        ieee_vendor_id: u32 = 0x18[23:0],
        vsd_vendor_id: u16 = 0x1c[15:0],
    }
    arrays {
        vsd: [u8; 208] = 0x20,
        vsd_contd_psid: [u8; 16] = 0xf0,
    }
}

layout! {
    /// Input of ACCESS_REG.
    AccessRegisterIn = "access_register_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        register_id: u16 = 0x08[15:0],
        argument: u32 = 0x0c[31:0],
    }
    tail { register_data: u32 = 0x10 }
}

layout! {
    /// Output of ACCESS_REG.
    AccessRegisterOut = "access_register_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
    tail { register_data: u32 = 0x10 }
}

layout! {
    /// Input of NOP.
    NopIn = "nop_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
    }
}

layout! {
    /// Output of NOP.
    NopOut = "nop_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

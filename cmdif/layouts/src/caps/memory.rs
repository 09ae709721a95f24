//! Capabilities of memory: on-demand paging, atomic operations, memory of the device.

use crate::layout;

layout! {
    /// What can be paged on queue pairs of one type.
    OdpPerTransportServiceCap = "odp_per_transport_service_cap", 0x4 {
        send: bool = 0x00[31:31],
        receive: bool = 0x00[30:30],
        write: bool = 0x00[29:29],
        read: bool = 0x00[28:28],
        atomic: bool = 0x00[27:27],
        srq_receive: bool = 0x00[26:26],
    }
}

layout! {
    /// What can be paged in one of the two ways of reporting faults.
    OdpSchemeCap = "odp_scheme_cap", 0x40 {
        sig: bool = 0x08[31:31],
        page_prefetch: bool = 0x08[26:26],
    }
    parts {
        rc_odp_caps: OdpPerTransportServiceCap = 0x10,
        uc_odp_caps: OdpPerTransportServiceCap = 0x14,
        ud_odp_caps: OdpPerTransportServiceCap = 0x18,
        xrc_odp_caps: OdpPerTransportServiceCap = 0x1c,
        dc_odp_caps: OdpPerTransportServiceCap = 0x20,
    }
}

layout! {
    /// Capabilities: on-demand paging (ODP).
    OdpCap = "odp_cap", 0x100 {
        mem_page_fault: bool = 0xc0[31:31],
    }
    parts {
        transport_page_fault_scheme_cap: OdpSchemeCap = 0x00,
        memory_page_fault_scheme_cap: OdpSchemeCap = 0x40,
    }
}

layout! {
    /// Capabilities: atomic operations (ATOMIC).
    AtomicCaps = "atomic_caps", 0x100 {
        atomic_req_8B_endianness_mode: u8 = 0x08[31:30],
        supported_atomic_req_8B_endianness_mode_1: bool = 0x08[25:25],
        atomic_operations: u16 = 0x10[15:0],
        atomic_size_qp: u16 = 0x14[15:0],
        atomic_size_dc: u16 = 0x18[15:0],
    }
}

layout! {
    /// Capabilities: memory of the device (DEV_MEM).
    DeviceMemCap = "device_mem_cap", 0x100 {
        memic: bool = 0x00[31:31],
        log_min_memic_alloc_size: u8 = 0x04[20:16],
        log_max_memic_addr_alignment: u8 = 0x04[7:0],
        memic_bar_start_addr: u64 = 0x08[63:0],
        memic_bar_size: u32 = 0x10[31:0],
        max_memic_size: u32 = 0x14[31:0],
        steering_sw_icm_start_address: u64 = 0x18[63:0],
        log_header_modify_sw_icm_size: u8 = 0x20[23:16],
        log_sw_icm_alloc_granularity: u8 = 0x20[13:8],
        log_steering_sw_icm_size: u8 = 0x20[7:0],
        log_indirect_encap_sw_icm_size: u8 = 0x24[31:24],
        log_header_modify_pattern_sw_icm_size: u8 = 0x24[7:0],
        header_modify_sw_icm_start_address: u64 = 0x28[63:0],
        header_modify_pattern_sw_icm_start_address: u64 = 0x38[63:0],
        memic_operations: u32 = 0x40[31:0],
        indirect_encap_sw_icm_start_address: u64 = 0x48[63:0],
    }
}

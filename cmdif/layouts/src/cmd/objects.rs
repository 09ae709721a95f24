//! Small objects that others refer to.

use crate::layout;

layout! {
    /// Input of ALLOC_UAR.
    AllocUarIn = "alloc_uar_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
    }
}

layout! {
    /// Output of ALLOC_UAR.
    AllocUarOut = "alloc_uar_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        uar: u32 = 0x08[23:0],
    }
}

layout! {
    /// Input of DEALLOC_UAR.
    DeallocUarIn = "dealloc_uar_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        uar: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of DEALLOC_UAR.
    DeallocUarOut = "dealloc_uar_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of ALLOC_PD.
    AllocPdIn = "alloc_pd_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
    }
}

layout! {
    /// Output of ALLOC_PD.
    AllocPdOut = "alloc_pd_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        pd: u32 = 0x08[23:0],
    }
}

layout! {
    /// Input of DEALLOC_PD.
    DeallocPdIn = "dealloc_pd_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        pd: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of DEALLOC_PD.
    DeallocPdOut = "dealloc_pd_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of ALLOC_XRCD.
    AllocXrcdIn = "alloc_xrcd_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
    }
}

layout! {
    /// Output of ALLOC_XRCD.
    AllocXrcdOut = "alloc_xrcd_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        xrcd: u32 = 0x08[23:0],
    }
}

layout! {
    /// Input of DEALLOC_XRCD.
    DeallocXrcdIn = "dealloc_xrcd_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        xrcd: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of DEALLOC_XRCD.
    DeallocXrcdOut = "dealloc_xrcd_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of ALLOC_TRANSPORT_DOMAIN.
    AllocTransportDomainIn = "alloc_transport_domain_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
    }
}

layout! {
    /// Output of ALLOC_TRANSPORT_DOMAIN.
    AllocTransportDomainOut = "alloc_transport_domain_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        transport_domain: u32 = 0x08[23:0],
    }
}

layout! {
    /// Input of DEALLOC_TRANSPORT_DOMAIN.
    DeallocTransportDomainIn = "dealloc_transport_domain_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        transport_domain: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of DEALLOC_TRANSPORT_DOMAIN.
    DeallocTransportDomainOut = "dealloc_transport_domain_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of ALLOC_Q_COUNTER.
    AllocQCounterIn = "alloc_q_counter_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
    }
}

layout! {
    /// Output of ALLOC_Q_COUNTER.
    AllocQCounterOut = "alloc_q_counter_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        counter_set_id: u8 = 0x08[7:0],
    }
}

layout! {
    /// Input of DEALLOC_Q_COUNTER.
    DeallocQCounterIn = "dealloc_q_counter_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        counter_set_id: u8 = 0x08[7:0],
    }
}

layout! {
    /// Output of DEALLOC_Q_COUNTER.
    DeallocQCounterOut = "dealloc_q_counter_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of QUERY_Q_COUNTER.
    QueryQCounterIn = "query_q_counter_in", 0x20 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        other_vport: bool = 0x08[31:31],
        vport_number: u16 = 0x08[15:0],
        clear: bool = 0x18[31:31],
        aggregate: bool = 0x18[30:30],
        counter_set_id: u8 = 0x1c[7:0],
    }
}

layout! {
    /// Output of QUERY_Q_COUNTER.
    QueryQCounterOut = "query_q_counter_out", 0x100 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        rx_write_requests: u32 = 0x10[31:0],
        rx_read_requests: u32 = 0x18[31:0],
        rx_atomic_requests: u32 = 0x20[31:0],
        rx_dct_connect: u32 = 0x28[31:0],
        out_of_buffer: u32 = 0x30[31:0],
        out_of_sequence: u32 = 0x38[31:0],
        duplicate_request: u32 = 0x40[31:0],
        rnr_nak_retry_err: u32 = 0x48[31:0],
        packet_seq_err: u32 = 0x50[31:0],
        implied_nak_seq_err: u32 = 0x58[31:0],
        local_ack_timeout_err: u32 = 0x60[31:0],
        req_rnr_retries_exceeded: u32 = 0x70[31:0],
        resp_local_length_error: u32 = 0x78[31:0],
        req_local_length_error: u32 = 0x7c[31:0],
        resp_local_qp_error: u32 = 0x80[31:0],
        local_operation_error: u32 = 0x84[31:0],
        resp_local_protection: u32 = 0x88[31:0],
        req_local_protection: u32 = 0x8c[31:0],
        resp_cqe_error: u32 = 0x90[31:0],
        req_cqe_error: u32 = 0x94[31:0],
        req_mw_binding: u32 = 0x98[31:0],
        req_bad_response: u32 = 0x9c[31:0],
        req_remote_invalid_request: u32 = 0xa0[31:0],
        resp_remote_invalid_request: u32 = 0xa4[31:0],
        req_remote_access_errors: u32 = 0xa8[31:0],
        resp_remote_access_errors: u32 = 0xac[31:0],
        req_remote_operation_errors: u32 = 0xb0[31:0],
        req_transport_retries_exceeded: u32 = 0xb4[31:0],
        cq_overflow: u32 = 0xb8[31:0],
        resp_cqe_flush_error: u32 = 0xbc[31:0],
        req_cqe_flush_error: u32 = 0xc0[31:0],
        roce_adp_retrans: u32 = 0xc8[31:0],
        roce_adp_retrans_to: u32 = 0xcc[31:0],
        roce_slow_restart: u32 = 0xd0[31:0],
        roce_slow_restart_cnps: u32 = 0xd4[31:0],
        roce_slow_restart_trans: u32 = 0xd8[31:0],
    }
}

layout! {
    /// Input of ATTACH_TO_MCG.
    AttachToMcgIn = "attach_to_mcg_in", 0x20 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        qpn: u32 = 0x08[23:0],
    }
    arrays {
        multicast_gid: [u8; 16] = 0x10,
    }
}

layout! {
    /// Output of ATTACH_TO_MCG.
    AttachToMcgOut = "attach_to_mcg_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of DETACH_FROM_MCG.
    DetachFromMcgIn = "detach_from_mcg_in", 0x20 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        qpn: u32 = 0x08[23:0],
    }
    arrays {
        multicast_gid: [u8; 16] = 0x10,
    }
}

layout! {
    /// Output of DETACH_FROM_MCG.
    DetachFromMcgOut = "detach_from_mcg_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

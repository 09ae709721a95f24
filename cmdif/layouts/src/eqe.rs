//! The event queue entry and what each event says, plain C in `device.h`.

use crate::layout;

layout! {
    /// Slots of the command queue are done, a bit each.
    EqeCmd = "mlx5_eqe_cmd", 0x1c {
        vector: u32 = 0x00[31:0],
    }
}

layout! {
    /// A completion queue that was armed has a new entry.
    EqeComp = "mlx5_eqe_comp", 0x1c {
        cqn: u32 = 0x18[31:0],
    }
}

layout! {
    /// Something happened to a queue pair or shared receive queue.
    EqeQpSrq = "mlx5_eqe_qp_srq", 0x1c {
        /// An [`EventQueueType`](crate::EventQueueType).
        r#type: u8 = 0x14[31:24],
        qp_srq_n: u32 = 0x18[31:0],
    }
}

layout! {
    /// A completion queue is in error.
    EqeCqErr = "mlx5_eqe_cq_err", 0xc {
        cqn: u32 = 0x00[31:0],
        syndrome: u8 = 0x08[7:0],
    }
}

layout! {
    /// An XRQ is in error.
    EqeXrqErr = "mlx5_eqe_xrq_err", 0x1c {
        type_xrqn: u32 = 0x14[31:0],
    }
}

layout! {
    /// A port has changed.
    EqePortState = "mlx5_eqe_port_state", 0x9 {
        /// The number is the upper four bits of `port` (the driver's `eq.c` and `main.c` shift it).
        port_num: u8 = 0x08[31:28],
    }
}

layout! {
    /// General-purpose pins have changed.
    EqeGpio = "mlx5_eqe_gpio", 0x10 {
        gpio_event: u64 = 0x08[63:0],
    }
}

layout! {
    /// Doorbells are not kept up with.
    EqeCongestion = "mlx5_eqe_congestion", 0x3 {
        r#type: u8 = 0x00[31:24],
        congestion_level: u8 = 0x00[15:8],
    }
}

layout! {
    /// A virtual lane is stalled.
    EqeStallVl = "mlx5_eqe_stall_vl", 0x4 {
        port_vl: u8 = 0x00[7:0],
    }
}

layout! {
    /// The device wants pages, or, if the number is negative, gives some back.
    EqePageReq = "mlx5_eqe_page_req", 0x1c {
        ec_function: u16 = 0x00[31:16],
        func_id: u16 = 0x00[15:0],
        num_pages: u32 = 0x04[31:0],
    }
}

layout! {
    /// A page fault on a work request's own data.
    EqePageFaultWqe = "mlx5_eqe_page_fault.wqe", 0x1c {
        bytes_committed: u32 = 0x00[31:0],
        wqe_index: u16 = 0x04[15:0],
        packet_length: u16 = 0x08[15:0],
        token: u32 = 0x0c[31:0],
        /// Upper part of `pftype_wq`: the driver's `odp.c` (`mlx5_ib_eq_pf_int`).
        page_fault_type: u8 = 0x18[26:24],
        /// Lower part of `pftype_wq`.
        wq_num: u32 = 0x18[23:0],
    }
}

layout! {
    /// A page fault on memory that a peer's request names.
    EqePageFaultRdma = "mlx5_eqe_page_fault.rdma", 0x1c {
        bytes_committed: u32 = 0x00[31:0],
        r_key: u32 = 0x04[31:0],
        packet_length: u16 = 0x08[15:0],
        rdma_op_len: u32 = 0x0c[31:0],
        rdma_va: u64 = 0x10[63:0],
        /// Upper part of `pftype_token`: the driver's `odp.c` (`mlx5_ib_eq_pf_int`).
        page_fault_type: u8 = 0x18[26:24],
        /// Lower part of `pftype_token`.
        token: u32 = 0x18[23:0],
    }
}

layout! {
    /// A page fault in the memory scheme.
    EqePageFaultMemory = "mlx5_eqe_page_fault.memory", 0x1c {
        flags: u8 = 0x00[31:24],
        post_demand_fault_pages: u16 = 0x00[15:0],
        pre_demand_fault_pages: u16 = 0x04[31:16],
        token47_32: u16 = 0x04[15:0],
        token31_0: u32 = 0x08[31:0],
        demand_fault_pages: u32 = 0x0c[31:0],
        mkey: u32 = 0x10[31:0],
        va: u64 = 0x14[63:0],
    }
}

layout! {
    /// A virtual port's context has changed.
    EqeVportChange = "mlx5_eqe_vport_change", 0x1c {
        vport_num: u16 = 0x00[15:0],
    }
}

layout! {
    /// A cable or transceiver has changed.
    EqePortModule = "mlx5_eqe_port_module", 0x7 {
        module: u8 = 0x00[23:16],
        module_status: u8 = 0x00[7:0],
        error_type: u8 = 0x04[15:8],
    }
}

layout! {
    /// A pulse on a pin.
    EqePps = "mlx5_eqe_pps", 0x1c {
        pin: u8 = 0x00[7:0],
        time_sec: u32 = 0x08[31:0],
        time_nsec: u32 = 0x0c[31:0],
        time_stamp: u64 = 0x08[63:0],
    }
}

layout! {
    /// A dynamically connected target has no more connections.
    EqeDct = "mlx5_eqe_dct", 0x1c {
        dctn: u32 = 0x18[31:0],
    }
}

layout! {
    /// Sensors are too hot, a bit each.
    EqeTempWarning = "mlx5_eqe_temp_warning", 0x10 {
        sensor_warning_msb: u64 = 0x00[63:0],
        sensor_warning_lsb: u64 = 0x08[63:0],
    }
}

layout! {
    /// A general object has changed.
    EqeObjChange = "mlx5_eqe_obj_change", 0x8 {
        obj_type: u16 = 0x00[15:0],
        obj_id: u32 = 0x04[31:0],
    }
}

layout! {
    /// A step of a firmware reset that several hosts share.
    EqeSyncFwUpdate = "mlx5_eqe_sync_fw_update", 0x4 {
        /// The lower bits of the byte of this name (`SYNC_RST_STATE_MASK`).
        sync_rst_state: u8 = 0x00[3:0],
    }
}

layout! {
    /// Another function's state has changed.
    EqeVhcaState = "mlx5_eqe_vhca_state", 0x4 {
        ec_function: u16 = 0x00[31:16],
        function_id: u16 = 0x00[15:0],
    }
}

layout! {
    /// An event queue entry. Which of the parts it has follows from its type.
    Eqe = "mlx5_eqe", 0x40 {
        /// An [`EventType`](crate::EventType).
        r#type: u8 = 0x00[23:16],
        sub_type: u8 = 0x00[7:0],
        signature: u8 = 0x3c[15:8],
        /// Alternates with every lap of the queue.
        owner: bool = 0x3c[0:0],
    }
    parts {
        cmd: EqeCmd = 0x20,
        comp: EqeComp = 0x20,
        qp_srq: EqeQpSrq = 0x20,
        cq_err: EqeCqErr = 0x20,
        port: EqePortState = 0x20,
        gpio: EqeGpio = 0x20,
        cong: EqeCongestion = 0x20,
        stall_vl: EqeStallVl = 0x20,
        req_pages: EqePageReq = 0x20,
        /// By subtype, [`PageFaultType`](crate::PageFaultType).
        page_fault_wqe: EqePageFaultWqe = 0x20,
        page_fault_rdma: EqePageFaultRdma = 0x20,
        page_fault_memory: EqePageFaultMemory = 0x20,
        vport_change: EqeVportChange = 0x20,
        port_module: EqePortModule = 0x20,
        pps: EqePps = 0x20,
        dct: EqeDct = 0x20,
        temp_warning: EqeTempWarning = 0x20,
        xrq_err: EqeXrqErr = 0x20,
        sync_fw_update: EqeSyncFwUpdate = 0x20,
        vhca_state: EqeVhcaState = 0x20,
        obj_change: EqeObjChange = 0x20,
    }
}

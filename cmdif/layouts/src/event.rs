//! Events by type and subtype.

use crate::codes::codes;

codes! {
    /// What an event queue entry tells of (`MLX5_EVENT_TYPE_*`).
    EventType: u8 {
        COMP = 0x00,
        PATH_MIG = 0x01,
        COMM_EST = 0x02,
        SQ_DRAINED = 0x03,
        CQ_ERROR = 0x04,
        WQ_CATAS_ERROR = 0x05,
        PATH_MIG_FAILED = 0x07,
        INTERNAL_ERROR = 0x08,
        PORT_CHANGE = 0x09,
        CMD = 0x0a,
        PAGE_REQUEST = 0x0b,
        PAGE_FAULT = 0x0c,
        NIC_VPORT_CHANGE = 0x0d,
        ESW_FUNCTIONS_CHANGED = 0x0e,
        VHCA_STATE_CHANGE = 0x0f,
        WQ_INVAL_REQ_ERROR = 0x10,
        WQ_ACCESS_ERROR = 0x11,
        SRQ_CATAS_ERROR = 0x12,
        SRQ_LAST_WQE = 0x13,
        SRQ_RQ_LIMIT = 0x14,
        GPIO_EVENT = 0x15,
        PORT_MODULE_EVENT = 0x16,
        TEMP_WARN_EVENT = 0x17,
        XRQ_ERROR = 0x18,
        REMOTE_CONFIG = 0x19,
        DB_BF_CONGESTION = 0x1a,
        STALL_EVENT = 0x1b,
        DCT_DRAINED = 0x1c,
        DCT_KEY_VIOLATION = 0x1d,
        FPGA_ERROR = 0x20,
        FPGA_QP_ERROR = 0x21,
        GENERAL_EVENT = 0x22,
        MONITOR_COUNTER = 0x24,
        PPS_EVENT = 0x25,
        DEVICE_TRACER = 0x26,
        OBJECT_CHANGE = 0x27,
    }
}

codes! {
    /// What happened to a port (`MLX5_PORT_CHANGE_SUBTYPE_*`).
    PortChange: u8 {
        DOWN = 0x01,
        ACTIVE = 0x04,
        INITIALIZED = 0x05,
        LID = 0x06,
        PKEY = 0x07,
        GUID = 0x08,
        CLIENT_REREG = 0x09,
    }
}

codes! {
    /// What a GENERAL_EVENT tells of (`MLX5_GENERAL_SUBTYPE_*`).
    GeneralEvent: u8 {
        DELAY_DROP_TIMEOUT = 0x01,
        PCI_POWER_CHANGE_EVENT = 0x05,
        FW_LIVE_PATCH_EVENT = 0x07,
        PCI_SYNC_FOR_FW_UPDATE_EVENT = 0x08,
    }
}

codes! {
    /// What a page fault hit (`MLX5_PFAULT_SUBTYPE_*`).
    PageFaultType: u8 {
        WQE = 0x00,
        RDMA = 0x01,
        MEMORY = 0x02,
    }
}

codes! {
    /// The kind of queue that an event names (`MLX5_EVENT_QUEUE_TYPE_*`).
    EventQueueType: u8 {
        QP = 0x00,
        RQ = 0x01,
        SQ = 0x02,
        DCT = 0x06,
    }
}

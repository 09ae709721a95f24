//! Capabilities of diagnosis and of events.

use crate::layout;

layout! {
    /// Capabilities: diagnosis (DEBUG).
    DebugCap = "debug_cap", 0x100 {
        core_dump_general: bool = 0x00[31:31],
        core_dump_qp: bool = 0x00[30:30],
        resource_dump: bool = 0x00[22:22],
        stall_detect: bool = 0x04[29:29],
    }
}

layout! {
    /// Capabilities: events that DEVX users can ask for (DEV_EVENT).
    DeviceEventCap = "device_event_cap", 0x40 {
    }
    arrays {
        user_affiliated_events: [u64; 4] = 0x00,
        user_unaffiliated_events: [u64; 4] = 0x20,
    }
}

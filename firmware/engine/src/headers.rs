//! Headers of packets, as the InfiniBand architecture (IBA) has them.

use layouts::layout;

layout! {
    /// Global route header (IBA 8.3).
    Grh = "GRH", 0x28 {
        ip_version: u8 = 0x00[31:28],
        traffic_class: u8 = 0x00[27:20],
        flow_label: u32 = 0x00[19:0],
        payload_length: u16 = 0x04[31:16],
        next_header: u8 = 0x04[15:8],
        hop_limit: u8 = 0x04[7:0],
    }
    arrays {
        sgid: [u8; 16] = 0x08,
        dgid: [u8; 16] = 0x18,
    }
}

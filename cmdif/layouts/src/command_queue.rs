//! How a command travels: the entry in the command queue and the mailboxes that continue it.

use crate::layout;

layout! {
    /// An entry of the command queue.
    CommandQueueEntry = "mlx5_cmd_layout", 0x40 {
        r#type: u8 = 0x00[31:24],
        inlen: u32 = 0x04[31:0],
        in_ptr: u64 = 0x08[63:0],
        out_ptr: u64 = 0x30[63:0],
        outlen: u32 = 0x38[31:0],
        token: u8 = 0x3c[31:24],
        sig: u8 = 0x3c[23:16],
        /// A [`DeliveryStatus`](crate::DeliveryStatus).
        status: u8 = 0x3c[7:1],
        /// Whether the slot is the device's.
        ownership: bool = 0x3c[0:0],
    }
    arrays {
        /// The first bytes of the input.
        r#in: [u8; 16] = 0x10,
        /// The first bytes of the output.
        out: [u8; 16] = 0x20,
    }
}

layout! {
    /// A mailbox: a block of input or output in guest memory.
    CommandMailbox = "mlx5_cmd_prot_block", 0x240 {
        next: u64 = 0x230[63:0],
        block_num: u32 = 0x238[31:0],
        token: u8 = 0x23c[23:16],
        ctrl_sig: u8 = 0x23c[15:8],
        sig: u8 = 0x23c[7:0],
    }
    arrays {
        data: [u8; 512] = 0x00,
    }
}

//! How a command ended: the status in its reply, and that of its delivery.

use crate::codes::codes;

codes! {
    /// The status in a command's reply (`MLX5_CMD_STAT_*`, without the `_ERR` behind most; `BAD_INP_LEN`
    /// and `BAD_OUTP_LEN` are written out).
    Status: u8 {
        OK = 0x00,
        INT_ERR = 0x01,
        BAD_OP = 0x02,
        BAD_PARAM = 0x03,
        BAD_SYS_STATE = 0x04,
        BAD_RES = 0x05,
        RES_BUSY = 0x06,
        NOT_READY = 0x07,
        LIM_ERR = 0x08,
        BAD_RES_STATE = 0x09,
        IX_ERR = 0x0a,
        NO_RES = 0x0f,
        BAD_QP_STATE = 0x10,
        BAD_PKT = 0x30,
        BAD_SIZE_OUTS_CQES = 0x40,
        BAD_INPUT_LEN = 0x50,
        BAD_OUTPUT_LEN = 0x51,
    }
}

codes! {
    /// Whether a command reached the firmware (`MLX5_CMD_DELIVERY_STAT_*` in the driver's `cmd.c`, which
    /// is in no header; the names are ours).
    DeliveryStatus: u8 {
        OK = 0x00,
        SIGNATURE_ERR = 0x01,
        TOKEN_ERR = 0x02,
        BAD_BLK_NUM_ERR = 0x03,
        OUT_PTR_ALIGN_ERR = 0x04,
        IN_PTR_ALIGN_ERR = 0x05,
        FW_ERR = 0x06,
        INPUT_LEN_ERR = 0x07,
        OUTPUT_LEN_ERR = 0x08,
        RESERVED_ERR = 0x09,
        CMD_DESC_ERR = 0x10,
    }
}

//! The commands that move a queue pair from state to state.

use crate::{Qpc, layout};

layout! {
    /// Input of RST2INIT_QP.
    Rst2initQpIn = "rst2init_qp_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        qpn: u32 = 0x08[23:0],
        opt_param_mask: u32 = 0x10[31:0],
        ece: u32 = 0x14[31:0],
    }
    parts {
        qpc: Qpc = 0x18,
    }
}

layout! {
    /// Output of RST2INIT_QP.
    Rst2initQpOut = "rst2init_qp_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        ece: u32 = 0x0c[31:0],
    }
}

layout! {
    /// Input of INIT2INIT_QP.
    Init2initQpIn = "init2init_qp_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        qpn: u32 = 0x08[23:0],
        opt_param_mask: u32 = 0x10[31:0],
        ece: u32 = 0x14[31:0],
    }
    parts {
        qpc: Qpc = 0x18,
    }
}

layout! {
    /// Output of INIT2INIT_QP.
    Init2initQpOut = "init2init_qp_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        ece: u32 = 0x0c[31:0],
    }
}

layout! {
    /// Input of INIT2RTR_QP.
    Init2rtrQpIn = "init2rtr_qp_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        qpn: u32 = 0x08[23:0],
        opt_param_mask: u32 = 0x10[31:0],
        ece: u32 = 0x14[31:0],
    }
    parts {
        qpc: Qpc = 0x18,
    }
}

layout! {
    /// Output of INIT2RTR_QP.
    Init2rtrQpOut = "init2rtr_qp_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        ece: u32 = 0x0c[31:0],
    }
}

layout! {
    /// Input of RTR2RTS_QP.
    Rtr2rtsQpIn = "rtr2rts_qp_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        qpn: u32 = 0x08[23:0],
        opt_param_mask: u32 = 0x10[31:0],
        ece: u32 = 0x14[31:0],
    }
    parts {
        qpc: Qpc = 0x18,
    }
}

layout! {
    /// Output of RTR2RTS_QP.
    Rtr2rtsQpOut = "rtr2rts_qp_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        ece: u32 = 0x0c[31:0],
    }
}

layout! {
    /// Input of RTS2RTS_QP.
    Rts2rtsQpIn = "rts2rts_qp_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        qpn: u32 = 0x08[23:0],
        opt_param_mask: u32 = 0x10[31:0],
        ece: u32 = 0x14[31:0],
    }
    parts {
        qpc: Qpc = 0x18,
    }
}

layout! {
    /// Output of RTS2RTS_QP.
    Rts2rtsQpOut = "rts2rts_qp_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        ece: u32 = 0x0c[31:0],
    }
}

layout! {
    /// Input of SQERR2RTS_QP.
    Sqerr2rtsQpIn = "sqerr2rts_qp_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        qpn: u32 = 0x08[23:0],
        opt_param_mask: u32 = 0x10[31:0],
    }
    parts {
        qpc: Qpc = 0x18,
    }
}

layout! {
    /// Output of SQERR2RTS_QP.
    Sqerr2rtsQpOut = "sqerr2rts_qp_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of SQD_RTS_QP.
    Sqd2rtsQpIn = "sqd2rts_qp_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        qpn: u32 = 0x08[23:0],
        opt_param_mask: u32 = 0x10[31:0],
    }
    parts {
        qpc: Qpc = 0x18,
    }
}

layout! {
    /// Output of SQD_RTS_QP.
    Sqd2rtsQpOut = "sqd2rts_qp_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of 2ERR_QP.
    Qp2errIn = "qp_2err_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        qpn: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of 2ERR_QP.
    Qp2errOut = "qp_2err_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of 2RST_QP.
    Qp2rstIn = "qp_2rst_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        qpn: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of 2RST_QP.
    Qp2rstOut = "qp_2rst_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

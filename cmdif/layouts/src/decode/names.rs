//! Names of fields' values.

use crate::{
    CqeOpcode, CqeSyndrome, DeliveryStatus, EventQueueType, EventType, Mkc, Opcode, QpState,
    QpType, RegisterId, Status, WqeOpcode,
};

/// What the value of a field of a structure is called.
pub fn value_name(structure: &str, field: &str, value: u64) -> Option<&'static str> {
    let byte = value as u8;
    match (structure, field) {
        ("mlx5_wqe_ctrl_seg", "opcode") => WqeOpcode(byte).name(),
        ("mlx5_cqe64" | "mlx5_err_cqe" | "mlx5_sig_err_cqe", "opcode") => CqeOpcode(byte).name(),
        ("mlx5_cqe64", "sop") | ("mlx5_err_cqe", "s_wqe_opcode") => WqeOpcode(byte).name(),
        ("mlx5_err_cqe", "syndrome") => CqeSyndrome(byte).name(),
        ("mlx5_eqe", "type") => EventType(byte).name(),
        ("mlx5_eqe_qp_srq", "type") => EventQueueType(byte).name(),
        ("mlx5_cmd_layout", "status") => DeliveryStatus(byte).name(),
        ("qpc", "state") => QpState(byte).name(),
        ("qpc", "st") => QpType(byte).name(),
        ("mkc", "access_mode") => access_mode(byte),
        (_, "register_id") => RegisterId(value as u16).name(),
        (_, "opcode") if is_input(structure) => Opcode(value as u16).name(),
        (_, "status") if is_output(structure) => Status(byte).name(),
        _ => None,
    }
}

fn is_input(structure: &str) -> bool {
    structure.ends_with("_in") || structure.ends_with("_in_cmd_hdr")
}

fn is_output(structure: &str) -> bool {
    structure.ends_with("_out") || structure.ends_with("_out_cmd_hdr")
}

/// A value that a structure holds in several fields.
pub(super) fn derived(
    structure: &str,
    bytes: &[u8],
) -> Option<(&'static str, u64, Option<&'static str>)> {
    if structure != Mkc::INFO.name {
        return None;
    }
    let mkc = Mkc(bytes);
    let mode = mkc.access_mode_4_2() << 2 | mkc.access_mode_1_0();
    Some(("access_mode", mode.into(), access_mode(mode)))
}

/// `MLX5_MKC_ACCESS_MODE_*`.
fn access_mode(mode: u8) -> Option<&'static str> {
    Some(match mode {
        0 => "PA",
        1 => "MTT",
        2 => "KLM",
        3 => "KSM",
        4 => "SW_ICM",
        5 => "MEMIC",
        6 => "CROSSING",
        _ => return None,
    })
}

//! Which part of a union is meant.

use crate::{
    AccessRegisterIn, ArrayInfo, CapType, Eqe, EventType, GeneralObjInCmdHdr, LayoutInfo, McamReg,
    McqiReg, ModifyCqIn, Opcode, PageFaultType, PartInfo, PerfMad, PpcntReg, RegisterId,
    SetHcaCapIn, Smp, capability, register,
};

use super::Hints;

/// Whether this part is meant. Of a union about which nothing is known here no part is: its bits
/// come out as raw ones.
pub(super) fn applies(
    layout: &LayoutInfo,
    part: &PartInfo,
    bytes: &[u8],
    hints: Hints<'_>,
) -> bool {
    let by_name = |meant: Option<&str>| meant == Some(part.name);
    match layout.name {
        "mlx5_eqe" => by_name(event_part(Eqe(bytes))),
        "set_hca_cap_in" => is_capability(part, SetHcaCapIn(bytes).op_mod().into()),
        "query_hca_cap_out" => hints("op_mod").is_some_and(|op_mod| is_capability(part, op_mod)),
        "modify_cq_in" if part.byte == 0x0c => by_name(match ModifyCqIn(bytes).op_mod() {
            0 => Some("modify_field_select"),
            1 => Some("resize_field_select"),
            _ => None,
        }),
        "general_obj_in_cmd_hdr" => {
            let create = GeneralObjInCmdHdr(bytes).opcode() == Opcode::CREATE_GENERAL_OBJECT.0;
            by_name(Some(if create { "create" } else { "query" }))
        }
        "ppcnt_reg" => by_name(counter_group(PpcntReg(bytes).grp())),
        "mcqi_reg" => by_name(match McqiReg(bytes).info_type() {
            0 => Some("mcqi_caps"),
            1 => Some("mcqi_version"),
            5 => Some("mcqi_activation_mathod"),
            _ => None,
        }),
        "mcam_reg" if part.byte == 0x08 => by_name(match McamReg(bytes).access_reg_group() {
            0 => Some("access_regs"),
            1 => Some("access_regs1"),
            2 => Some("access_regs2"),
            3 => Some("access_regs3"),
            _ => None,
        }),
        "ib_perf_mad" => by_name(match PerfMad(bytes).attr_id() {
            0x01 => Some("class_port_info"),
            0x12 => Some("port_counters"),
            0x1d => Some("port_counters_ext"),
            _ => None,
        }),
        "ib_smp" => by_name(match Smp(bytes).attr_id() {
            0x11 => Some("node_info"),
            0x15 => Some("port_info"),
            _ => None,
        }),
        _ => !layout.parts.iter().any(|other| other.name != part.name && overlap(part, other)),
    }
}

/// `MLX5_*_COUNTERS_GROUP` in the kernel's `device.h`.
fn counter_group(group: u8) -> Option<&'static str> {
    Some(match group {
        0x00 => "eth_802_3_cntrs_grp_data_layout",
        0x01 => "eth_2863_cntrs_grp_data_layout",
        0x02 => "eth_2819_cntrs_grp_data_layout",
        0x03 => "eth_3635_cntrs_grp_data_layout",
        0x05 => "eth_extended_cntrs_grp_data_layout",
        0x12 => "phys_layer_cntrs",
        0x16 => "phys_layer_statistical_cntrs",
        0x20 => "ib_port_cntrs_grp_data_layout",
        0x21 => "ib_ext_port_cntrs_grp_data_layout",
        _ => return None,
    })
}

fn overlap(one: &PartInfo, other: &PartInfo) -> bool {
    one.byte < other.byte + other.layout.size && other.byte < one.byte + one.layout.size
}

fn is_capability(part: &PartInfo, op_mod: u64) -> bool {
    let set = CapType((op_mod >> 1) as u16);
    capability(set).is_some_and(|layout| layout.name == part.layout.name)
}

/// What an event says.
fn event_part(eqe: Eqe<&[u8]>) -> Option<&'static str> {
    Some(match EventType(eqe.r#type()) {
        EventType::COMP => "comp",
        EventType::CMD => "cmd",
        EventType::CQ_ERROR => "cq_err",
        EventType::PORT_CHANGE => "port",
        EventType::PAGE_REQUEST => "req_pages",
        EventType::PAGE_FAULT => match PageFaultType(eqe.sub_type()) {
            PageFaultType::WQE => "page_fault_wqe",
            PageFaultType::RDMA => "page_fault_rdma",
            PageFaultType::MEMORY => "page_fault_memory",
            _ => return None,
        },
        EventType::PATH_MIG
        | EventType::COMM_EST
        | EventType::SQ_DRAINED
        | EventType::WQ_CATAS_ERROR
        | EventType::PATH_MIG_FAILED
        | EventType::WQ_INVAL_REQ_ERROR
        | EventType::WQ_ACCESS_ERROR
        | EventType::SRQ_CATAS_ERROR
        | EventType::SRQ_LAST_WQE
        | EventType::SRQ_RQ_LIMIT => "qp_srq",
        EventType::XRQ_ERROR => "xrq_err",
        EventType::GPIO_EVENT => "gpio",
        EventType::DB_BF_CONGESTION => "cong",
        EventType::STALL_EVENT => "stall_vl",
        EventType::NIC_VPORT_CHANGE => "vport_change",
        EventType::PORT_MODULE_EVENT => "port_module",
        EventType::PPS_EVENT => "pps",
        EventType::DCT_DRAINED | EventType::DCT_KEY_VIOLATION => "dct",
        EventType::TEMP_WARN_EVENT => "temp_warning",
        EventType::GENERAL_EVENT => "sync_fw_update",
        EventType::VHCA_STATE_CHANGE => "vhca_state",
        EventType::OBJECT_CHANGE => "obj_change",
        _ => return None,
    })
}

/// What an array of a structure holds, when that follows from something else: the register of
/// ACCESS_REG, a management datagram.
pub(super) fn inside(
    layout: &LayoutInfo,
    array: &ArrayInfo,
    bytes: &[u8],
    hints: Hints<'_>,
) -> Option<&'static LayoutInfo> {
    let id = match layout.name {
        "access_register_in" => AccessRegisterIn(bytes).register_id(),
        "access_register_out" => hints("register_id")? as u16,
        "mad_ifc_in" | "mad_ifc_out" => {
            return match Smp(bytes.get(array.byte..)?).mgmt_class() {
                SUBNET_BY_LID | SUBNET_DIRECTED => Some(&Smp::INFO),
                PERFORMANCE => Some(&PerfMad::INFO),
                _ => None,
            };
        }
        _ => return None,
    };
    register(RegisterId(id))
}

/// Management classes (IBA 13.4.4).
const SUBNET_BY_LID: u8 = 0x01;
const SUBNET_DIRECTED: u8 = 0x81;
const PERFORMANCE: u8 = 0x04;

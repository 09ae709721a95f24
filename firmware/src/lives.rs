//! Objects that commands make, change and destroy, for whoever wants to know.

use layouts::{FieldInfo, MboxIn, Opcode, command};
use probe::{Point, Probe, Site};

/// Command, what it does, to which kind of object, and the field that has the object's number: of
/// the output of a command that makes one, of the input of others.
const LIVES: &[(Opcode, Point, &str, &str)] = &[
    (Opcode::CREATE_MKEY, Point::Create, "mkey", "mkey_index"),
    (Opcode::DESTROY_MKEY, Point::Destroy, "mkey", "mkey_index"),
    (Opcode::CREATE_EQ, Point::Create, "eq", "eq_number"),
    (Opcode::DESTROY_EQ, Point::Destroy, "eq", "eq_number"),
    (Opcode::CREATE_CQ, Point::Create, "cq", "cqn"),
    (Opcode::DESTROY_CQ, Point::Destroy, "cq", "cqn"),
    (Opcode::MODIFY_CQ, Point::Modify, "cq", "cqn"),
    (Opcode::CREATE_QP, Point::Create, "qp", "qpn"),
    (Opcode::DESTROY_QP, Point::Destroy, "qp", "qpn"),
    (Opcode::RST2INIT_QP, Point::Modify, "qp", "qpn"),
    (Opcode::INIT2RTR_QP, Point::Modify, "qp", "qpn"),
    (Opcode::RTR2RTS_QP, Point::Modify, "qp", "qpn"),
    (Opcode::RTS2RTS_QP, Point::Modify, "qp", "qpn"),
    (Opcode::SQERR2RTS_QP, Point::Modify, "qp", "qpn"),
    (Opcode::TOERR_QP, Point::Modify, "qp", "qpn"),
    (Opcode::TORST_QP, Point::Modify, "qp", "qpn"),
    (Opcode::SQD_RTS_QP, Point::Modify, "qp", "qpn"),
    (Opcode::INIT2INIT_QP, Point::Modify, "qp", "qpn"),
    (Opcode::CREATE_SRQ, Point::Create, "srq", "srqn"),
    (Opcode::DESTROY_SRQ, Point::Destroy, "srq", "srqn"),
    (Opcode::CREATE_XRC_SRQ, Point::Create, "srq", "xrc_srqn"),
    (Opcode::DESTROY_XRC_SRQ, Point::Destroy, "srq", "xrc_srqn"),
    (Opcode::CREATE_RMP, Point::Create, "srq", "rmpn"),
    (Opcode::MODIFY_RMP, Point::Modify, "srq", "rmpn"),
    (Opcode::DESTROY_RMP, Point::Destroy, "srq", "rmpn"),
    (Opcode::ALLOC_PD, Point::Create, "pd", "pd"),
    (Opcode::DEALLOC_PD, Point::Destroy, "pd", "pd"),
    (Opcode::ALLOC_UAR, Point::Create, "uar", "uar"),
    (Opcode::DEALLOC_UAR, Point::Destroy, "uar", "uar"),
    (Opcode::ALLOC_XRCD, Point::Create, "xrcd", "xrcd"),
    (Opcode::DEALLOC_XRCD, Point::Destroy, "xrcd", "xrcd"),
    (Opcode::ALLOC_TRANSPORT_DOMAIN, Point::Create, "td", "transport_domain"),
    (Opcode::DEALLOC_TRANSPORT_DOMAIN, Point::Destroy, "td", "transport_domain"),
    (Opcode::ALLOC_Q_COUNTER, Point::Create, "counter", "counter_set_id"),
    (Opcode::DEALLOC_Q_COUNTER, Point::Destroy, "counter", "counter_set_id"),
    (Opcode::CREATE_UCTX, Point::Create, "uctx", "uid"),
    (Opcode::DESTROY_UCTX, Point::Destroy, "uctx", "uid"),
    (Opcode::CREATE_UMEM, Point::Create, "umem", "umem_id"),
    (Opcode::DESTROY_UMEM, Point::Destroy, "umem", "umem_id"),
];

/// Tells of the object that a command, which succeeded, was about.
#[inline]
pub fn tell(probe: &Probe, opcode: Opcode, input: &[u8], output: &[u8]) {
    const ARMED: probe::Points = probe::Points::of(&[Point::Create, Point::Modify, Point::Destroy]);
    if probe.armed_any(ARMED) {
        look_up(probe, opcode, input, output);
    }
}

#[cold]
fn look_up(probe: &Probe, opcode: Opcode, input: &[u8], output: &[u8]) {
    let Some(&(_, point, kind, field)) = LIVES.iter().find(|(known, ..)| *known == opcode) else {
        return;
    };
    let bytes = if point == Point::Create { output } else { input };
    let id = numbered(opcode, point, field).map_or(0, |field| field.get(bytes));
    let uid = MboxIn(input).uid();
    let values = [("kind", kind.into()), ("id", id.into()), ("uid", uid.into())];
    if probe.armed(point) {
        let _ = probe.at(&Site { point, layout: None, bytes: &[], values: &values });
    }
}

fn numbered(opcode: Opcode, point: Point, field: &str) -> Option<&'static FieldInfo> {
    let (input, output) = command(opcode);
    if point == Point::Create { output.field(field) } else { input.field(field) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_exist() {
        for &(opcode, point, _, field) in LIVES {
            assert!(numbered(opcode, point, field).is_some(), "{opcode}");
        }
    }

    #[test]
    fn no_object_is_forgotten() {
        for opcode in crate::dispatch::opcodes() {
            let name = opcode.name().unwrap_or_default();
            let makes = ["CREATE_", "DESTROY_", "ALLOC_", "DEALLOC_"];
            if makes.iter().any(|prefix| name.starts_with(prefix)) {
                assert!(LIVES.iter().any(|(known, ..)| *known == opcode), "{name}");
            }
        }
    }
}

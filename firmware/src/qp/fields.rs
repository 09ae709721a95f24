//! Which fields of the context each command of the state machine takes: tables.
//!
//! A transition takes its own fields always, whatever the mask of optional parameters says (the
//! drivers do not set a bit for them), and beyond them those that the mask names.

use layouts::{Ads, LayoutInfo, Qpc, get_bits, set_bits};

use super::State;

/// A field of the context.
#[derive(Clone, Copy)]
struct Field {
    bit: usize,
    width: usize,
}

/// The field of a layout that has this name. Runs while compiling: a name that does not exist does
/// not compile.
const fn field(layout: &LayoutInfo, name: &str) -> Field {
    let mut n = 0;
    while n < layout.fields.len() {
        let field = &layout.fields[n];
        if equal(field.name.as_bytes(), name.as_bytes()) {
            return Field { bit: field.bit, width: field.width };
        }
        n += 1;
    }
    panic!("no such field")
}

/// The byte at which a part of a layout begins.
const fn part(layout: &LayoutInfo, name: &str) -> usize {
    let mut n = 0;
    while n < layout.parts.len() {
        let part = &layout.parts[n];
        if equal(part.name.as_bytes(), name.as_bytes()) {
            return part.byte;
        }
        n += 1;
    }
    panic!("no such part")
}

/// An array of a layout that begins at byte `from`.
const fn array(layout: &LayoutInfo, name: &str, from: usize) -> Field {
    let mut n = 0;
    while n < layout.arrays.len() {
        let array = &layout.arrays[n];
        if equal(array.name.as_bytes(), name.as_bytes()) {
            return Field { bit: (from + array.byte) * 8, width: array.element * array.count * 8 };
        }
        n += 1;
    }
    panic!("no such array")
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut n = 0;
    while n < a.len() {
        if a[n] != b[n] {
            return false;
        }
        n += 1;
    }
    true
}

/// A field of the context itself.
const fn qpc(name: &str) -> Field {
    field(&Qpc::INFO, name)
}

/// A field of the primary address path.
const fn path(name: &str) -> Field {
    let Field { bit, width } = field(&Ads::INFO, name);
    Field { bit: PRIMARY * 8 + bit, width }
}

/// Where the primary address path begins.
const PRIMARY: usize = part(&Qpc::INFO, "primary_address_path");
/// The whole alternate path.
const ALTERNATE: Field =
    Field { bit: part(&Qpc::INFO, "secondary_address_path") * 8, width: Ads::SIZE * 8 };
/// The remote GID of the primary path.
const RGID: Field = array(&Ads::INFO, "rgid_rip", PRIMARY);

/// One command of the state machine.
pub(super) struct Transition {
    pub from: State,
    pub to: State,
    takes: &'static [Field],
}

pub(super) static RST2INIT: Transition = Transition {
    from: State::Reset,
    to: State::Init,
    takes: &[
        qpc("pm_state"),
        qpc("lag_tx_port_affinity"),
        path("pkey_index"),
        path("vhca_port_num"),
        qpc("rre"),
        qpc("rwe"),
        qpc("rae"),
        qpc("atomic_mode"),
        qpc("q_key"),
        qpc("counter_set_id"),
        qpc("rlky"),
    ],
};

pub(super) static INIT2INIT: Transition =
    Transition { from: State::Init, to: State::Init, takes: &[] };

pub(super) static INIT2RTR: Transition = Transition {
    from: State::Init,
    to: State::Rtr,
    takes: &[
        qpc("mtu"),
        qpc("log_msg_max"),
        qpc("remote_qpn"),
        qpc("next_rcv_psn"),
        qpc("log_rra_max"),
        qpc("min_rnr_nak"),
        path("fl"),
        path("free_ar"),
        path("grh"),
        path("mlid"),
        path("rlid"),
        path("src_addr_index"),
        path("stat_rate"),
        path("hop_limit"),
        path("tclass"),
        path("flow_label"),
        RGID,
        path("sl"),
    ],
};

pub(super) static RTR2RTS: Transition = Transition {
    from: State::Rtr,
    to: State::Rts,
    takes: &[
        path("ack_timeout"),
        qpc("retry_count"),
        qpc("rnr_retry"),
        qpc("next_send_psn"),
        qpc("log_sra_max"),
        qpc("log_ack_req_freq"),
    ],
};

pub(super) static RTS2RTS: Transition = Transition { from: State::Rts, to: State::Rts, takes: &[] };
pub(super) static SQERR2RTS: Transition =
    Transition { from: State::SqError, to: State::Rts, takes: &[] };
pub(super) static SQD2RTS: Transition =
    Transition { from: State::SqDrained, to: State::Rts, takes: &[] };

/// Optional parameters by their bit in the mask (MLX5_QP_OPTPAR_*).
static OPTIONAL: &[(u32, &[Field])] = &[
    (0, &[ALTERNATE]),
    (1, &[qpc("rre")]),
    (2, &[qpc("rae"), qpc("atomic_mode")]),
    (3, &[qpc("rwe")]),
    (4, &[path("pkey_index")]),
    (5, &[qpc("q_key")]),
    (6, &[qpc("min_rnr_nak")]),
    (
        7,
        &[
            path("fl"),
            path("free_ar"),
            path("grh"),
            path("mlid"),
            path("rlid"),
            path("src_addr_index"),
            path("stat_rate"),
            path("hop_limit"),
            path("tclass"),
            path("flow_label"),
            RGID,
            path("sl"),
        ],
    ),
    (8, &[qpc("log_sra_max")]),
    (9, &[qpc("log_rra_max")]),
    (10, &[qpc("pm_state")]),
    (12, &[qpc("retry_count")]),
    (13, &[qpc("rnr_retry")]),
    (14, &[path("ack_timeout")]),
    (15, &[qpc("lag_tx_port_affinity")]),
    (16, &[path("vhca_port_num")]),
    (25, &[qpc("counter_set_id")]),
];

/// Optional parameters that change what a queue pair refers to.
pub(super) const SRQN: u32 = 1 << 18;
pub(super) const CQN_RCV: u32 = 1 << 19;

/// Every optional parameter there is. (Those of dynamically connected services are not.)
pub(super) fn known_parameters() -> u32 {
    OPTIONAL.iter().fold(SRQN | CQN_RCV, |all, (bit, _)| all | 1 << bit)
}

/// Copies one field.
fn take(field: Field, from: &[u8], to: &mut [u8]) {
    let Field { mut bit, mut width } = field;
    while width > 0 {
        let bits = width.min(32 - bit % 32);
        set_bits(to, bit, bits, get_bits(from, bit, bits));
        bit += bits;
        width -= bits;
    }
}

/// Takes the fields of a command into `context`.
pub(super) fn take_all(transition: &Transition, mask: u32, from: &[u8], context: &mut [u8]) {
    let named = OPTIONAL.iter().filter(|(bit, _)| mask >> bit & 1 == 1);
    let optional = named.flat_map(|(_, fields)| *fields);
    for field in transition.takes.iter().chain(optional) {
        take(*field, from, context);
    }
}

//! The state machine of a queue pair: which command leads from where to where, and which fields of
//! the context it takes. Both are tables.
//!
//! A transition takes its own fields always, whatever the mask of optional parameters says (the
//! drivers do not set a bit for them), and beyond them those that the mask names.

use layouts::{
    Ads, Init2initQpIn, Init2rtrQpIn, LayoutInfo, Qp2errIn, Qp2rstIn, Qpc, Rst2initQpIn,
    Rtr2rtsQpIn, Rts2rtsQpIn, Sqd2rtsQpIn, Sqerr2rtsQpIn, get_bits, set_bits,
};

use super::connection::{Requester, Responder};
use super::{Qp, Receives, Service, find};
use crate::error::{self, CmdError};
use crate::{Cx, Firmware, Work, port};

/// States, with the codes of the context's `state` (MLX5_QP_STATE_*).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Made, or reset.
    Reset = 0,
    /// Takes receives.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send.
    Rts = 3,
    /// A send failed: sends are flushed, receives go on.
    SqError = 4,
    /// Sends are held back.
    SqDrained = 5,
    /// Everything is flushed.
    Error = 6,
}

impl State {
    /// Whether packets are received.
    pub fn receives(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::SqError | Self::SqDrained)
    }

    /// Whether packets are sent, or answers to them are awaited.
    pub fn sends(self) -> bool {
        matches!(self, Self::Rts | Self::SqDrained)
    }

    /// Name for people and the control socket.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reset => "RST",
            Self::Init => "INIT",
            Self::Rtr => "RTR",
            Self::Rts => "RTS",
            Self::SqError => "SQER",
            Self::SqDrained => "SQD",
            Self::Error => "ERR",
        }
    }
}

/// Largest log_rra_max and log_sra_max (log_max_ra_res_qp, log_max_ra_req_qp).
pub const LOG_MAX_READS: u8 = 4;
/// Largest log_msg_max (log_max_msg): 1 GiB.
pub const LOG_MAX_MESSAGE: u8 = 30;
/// Path MTU codes: 256 to 4096 bytes.
const MTU_CODES: std::ops::RangeInclusive<u8> = 1..=5;

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
struct Transition {
    from: State,
    to: State,
    takes: &'static [Field],
}

static RST2INIT: Transition = Transition {
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

static INIT2INIT: Transition = Transition { from: State::Init, to: State::Init, takes: &[] };

static INIT2RTR: Transition = Transition {
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

static RTR2RTS: Transition = Transition {
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

static RTS2RTS: Transition = Transition { from: State::Rts, to: State::Rts, takes: &[] };
static SQERR2RTS: Transition = Transition { from: State::SqError, to: State::Rts, takes: &[] };
static SQD2RTS: Transition = Transition { from: State::SqDrained, to: State::Rts, takes: &[] };

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

/// Optional parameters that would change what a queue pair refers to (SRQN, CQN_RCV), or that
/// belong to services that are not offered (DC_HS, DC_KEY).
const REFUSED: u32 = 1 << 18 | 1 << 19 | 1 << 20 | 1 << 21;

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
fn take_all(transition: &Transition, mask: u32, from: &[u8], context: &mut [u8]) {
    let named = OPTIONAL.iter().filter(|(bit, _)| mask >> bit & 1 == 1);
    let optional = named.flat_map(|(_, fields)| *fields);
    for field in transition.takes.iter().chain(optional) {
        take(*field, from, context);
    }
}

/// Values that the device can't work with.
fn judge(fw: &Firmware, service: Service, to: State, context: &Qpc<&[u8]>) -> Result<(), CmdError> {
    let path = context.primary_address_path();
    port::own_port(path.vhca_port_num())?;
    let pkey = path.pkey_index();
    if fw.port.pkey(pkey.into()).is_none() {
        return Err(error::BAD_TABLE_INDEX.with(format!("P_Key index {pkey}")));
    }
    let gid = path.src_addr_index();
    if path.grh() && fw.port.gid(gid.into()).is_none() {
        return Err(error::BAD_TABLE_INDEX.with(format!("GID index {gid}")));
    }
    let connected = matches!(service, Service::Rc | Service::Uc | Service::Xrc);
    let beyond_init = !matches!(to, State::Reset | State::Init);
    let bounds = [
        ("mtu", context.mtu(), !(connected && beyond_init) || MTU_CODES.contains(&context.mtu())),
        ("log_msg_max", context.log_msg_max(), context.log_msg_max() <= LOG_MAX_MESSAGE),
        ("log_rra_max", context.log_rra_max(), context.log_rra_max() <= LOG_MAX_READS),
        ("log_sra_max", context.log_sra_max(), context.log_sra_max() <= LOG_MAX_READS),
    ];
    match bounds.iter().find(|(_, _, good)| !good) {
        None => Ok(()),
        Some((name, value, _)) => Err(error::BAD_VALUE.with(format!("{name} {value}"))),
    }
}

/// Carries a transition out.
fn change(
    fw: &mut Firmware,
    cx: &Cx,
    transition: &Transition,
    qpn: u32,
    mask: u32,
    new: Qpc<&[u8]>,
) -> Result<(), CmdError> {
    let qp = find(fw, cx, qpn)?;
    if qp.state != transition.from {
        let (is, wants) = (qp.state.name(), transition.from.name());
        return Err(error::BAD_STATE_CHANGE.with(format!("QP {qpn:#x} is in {is}, not {wants}")));
    }
    if mask & REFUSED != 0 {
        return Err(error::BAD_ATTRIBUTE.with(format!("optional parameters {mask:#x}")));
    }
    let (service, mut context) = (qp.service, qp.context);
    take_all(transition, mask, new.0, &mut context);
    judge(fw, service, transition.to, &Qpc(&context[..]))?;
    if service == Service::RegUmr && transition.to == State::Init {
        change_pd(fw, qpn, &mut context, new.pd())?;
    }
    if let Some(qp) = fw.qps.get_mut(qpn) {
        qp.context = context;
        qp.state = transition.to;
        match (transition.from, transition.to) {
            (State::Init, State::Rtr) => {
                qp.responder = Responder::new(qp.context().next_rcv_psn());
            }
            (State::Rtr, State::Rts) => {
                let c = qp.context();
                qp.requester = Requester::new(c.next_send_psn(), c.retry_count(), c.rnr_retry());
            }
            _ => {}
        }
        if transition.to == State::Rts {
            fw.work.push_back(Work::QueuePair(qpn));
        }
    }
    Ok(())
}

/// The UMR queue pair is made without a protection domain and gets one with RST2INIT.
fn change_pd(fw: &mut Firmware, qpn: u32, context: &mut [u8], pd: u32) -> Result<(), CmdError> {
    if !fw.mtt.hold_pd(pd) {
        return Err(error::NO_SUCH_PD.with(format!("PD {pd:#x}")));
    }
    Qpc(context).set_pd(pd);
    let old = fw.qps.get_mut(qpn).and_then(|qp| qp.pd.replace(pd));
    if let Some(old) = old {
        fw.mtt.release_pd(old);
    }
    Ok(())
}

macro_rules! handlers {
    ($( $(#[$doc:meta])* $name:ident($input:ident) = $transition:ident; )*) => { $(
        $(#[$doc])*
        pub fn $name(fw: &mut Firmware, cx: &Cx, input: $input<&[u8]>) -> Result<(), CmdError> {
            change(fw, cx, &$transition, input.qpn(), input.opt_param_mask(), input.qpc())
        }
    )* };
}

handlers! {
    /// RST2INIT_QP.
    rst2init(Rst2initQpIn) = RST2INIT;
    /// INIT2INIT_QP.
    init2init(Init2initQpIn) = INIT2INIT;
    /// INIT2RTR_QP.
    init2rtr(Init2rtrQpIn) = INIT2RTR;
    /// RTR2RTS_QP.
    rtr2rts(Rtr2rtsQpIn) = RTR2RTS;
    /// RTS2RTS_QP.
    rts2rts(Rts2rtsQpIn) = RTS2RTS;
    /// SQERR2RTS_QP.
    sqerr2rts(Sqerr2rtsQpIn) = SQERR2RTS;
    /// SQD_RTS_QP.
    sqd2rts(Sqd2rtsQpIn) = SQD2RTS;
}

/// 2ERR_QP, from any state: what its queues hold is flushed.
pub fn to_err(fw: &mut Firmware, cx: &Cx, input: Qp2errIn<&[u8]>) -> Result<(), CmdError> {
    let qpn = input.qpn();
    find(fw, cx, qpn)?.state = State::Error;
    fw.work.push_back(Work::QueuePair(qpn));
    Ok(())
}

/// 2RST_QP, from any state: what its queues hold is dropped.
pub fn to_rst(fw: &mut Firmware, cx: &Cx, input: Qp2rstIn<&[u8]>) -> Result<(), CmdError> {
    find(fw, cx, input.qpn())?.reset();
    Ok(())
}

impl Qp {
    /// As CREATE_QP left it.
    fn reset(&mut self) {
        self.state = State::Reset;
        self.last_wqe_told = false;
        self.requester = Requester::default();
        self.responder = Responder::default();
        if let Some(sq) = &mut self.sq {
            (sq.next, sq.posted) = (0, 0);
        }
        if let Receives::Own(rq) = &mut self.receives {
            rq.next = 0;
        }
        let zero = [0; Qpc::SIZE];
        for transition in [&RST2INIT, &INIT2RTR, &RTR2RTS] {
            take_all(transition, u32::MAX, &zero, &mut self.context);
        }
        // Migrated: there is one path (MLX5_QP_PM_MIGRATED).
        Qpc(&mut self.context[..]).set_pm_state(3);
    }
}

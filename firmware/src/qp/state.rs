//! The state machine of a queue pair: which command leads from where to where, and which fields of
//! the context it takes. Both are tables.
//!
//! A transition takes its own fields always, whatever the mask of optional parameters says (the
//! drivers do not set a bit for them), and beyond them those that the mask names.

use layouts::{
    Init2initQpIn, Init2initQpOut, Init2rtrQpIn, Init2rtrQpOut, Qp2errIn, Qp2rstIn, Qpc,
    Rst2initQpIn, Rst2initQpOut, Rtr2rtsQpIn, Rtr2rtsQpOut, Rts2rtsQpIn, Rts2rtsQpOut, Sqd2rtsQpIn,
    Sqerr2rtsQpIn,
};

use super::{Qp, Receives, Service, unknown};
use crate::error::{self, CmdError};
use crate::{Cx, Firmware, Work};

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

/// Copies one field from the context of a command to that of the queue pair.
type Take = fn(&Qpc<&[u8]>, &mut Qpc<&mut [u8]>);

macro_rules! takes {
    // Fields of the primary path are written `path.field`, the whole alternate path `alternate`.
    (@one path $field:ident) => { pastey::paste! {
        |from, to| to.primary_address_path_mut().[<set_ $field>](from.primary_address_path().$field())
    } };
    (@one alternate path) => {
        |from, to| crate::cq::copy(
            path(to.secondary_address_path_mut().0),
            from.secondary_address_path().0,
        )
    };
    (@one context $field:ident) => { pastey::paste! {
        |from, to| to.[<set_ $field>](from.$field())
    } };
    ($( $where:ident . $field:ident ),* $(,)?) => {
        &[$( takes!(@one $where $field) as Take ),*]
    };
}

/// The bytes of one address path, of those from where it begins.
fn path(bytes: &mut [u8]) -> &mut [u8] {
    let len = bytes.len().min(layouts::Ads::SIZE);
    bytes.get_mut(..len).unwrap_or_default()
}

/// One command of the state machine.
struct Transition {
    from: State,
    to: State,
    takes: &'static [Take],
}

static RST2INIT: Transition = Transition {
    from: State::Reset,
    to: State::Init,
    takes: takes![
        context.pm_state,
        context.lag_tx_port_affinity,
        path.pkey_index,
        path.vhca_port_num,
        context.rre,
        context.rwe,
        context.rae,
        context.atomic_mode,
        context.q_key,
        context.counter_set_id,
        context.rlky,
    ],
};

static INIT2INIT: Transition = Transition { from: State::Init, to: State::Init, takes: &[] };

static INIT2RTR: Transition = Transition {
    from: State::Init,
    to: State::Rtr,
    takes: takes![
        context.mtu,
        context.log_msg_max,
        context.remote_qpn,
        context.next_rcv_psn,
        context.log_rra_max,
        context.min_rnr_nak,
        path.fl,
        path.free_ar,
        path.grh,
        path.mlid,
        path.rlid,
        path.src_addr_index,
        path.stat_rate,
        path.hop_limit,
        path.tclass,
        path.flow_label,
        path.rgid_hi,
        path.rgid_lo,
        path.udp_sport,
        path.dscp,
        path.eth_prio,
        path.sl,
        path.rmac_47_32,
        path.rmac_31_0,
    ],
};

static RTR2RTS: Transition = Transition {
    from: State::Rtr,
    to: State::Rts,
    takes: takes![
        path.ack_timeout,
        context.retry_count,
        context.rnr_retry,
        context.next_send_psn,
        context.log_sra_max,
        context.log_ack_req_freq,
    ],
};

static RTS2RTS: Transition = Transition { from: State::Rts, to: State::Rts, takes: &[] };
static SQERR2RTS: Transition = Transition { from: State::SqError, to: State::Rts, takes: &[] };
static SQD2RTS: Transition = Transition { from: State::SqDrained, to: State::Rts, takes: &[] };

/// Optional parameters by their bit in the mask (MLX5_QP_OPTPAR_*).
static OPTIONAL: &[(u32, &[Take])] = &[
    (1 << 0, takes![alternate.path]),
    (1 << 1, takes![context.rre]),
    (1 << 2, takes![context.rae, context.atomic_mode]),
    (1 << 3, takes![context.rwe]),
    (1 << 4, takes![path.pkey_index]),
    (1 << 5, takes![context.q_key]),
    (1 << 6, takes![context.min_rnr_nak]),
    (1 << 7, INIT2RTR_PATH),
    (1 << 8, takes![context.log_sra_max]),
    (1 << 9, takes![context.log_rra_max]),
    (1 << 10, takes![context.pm_state]),
    (1 << 12, takes![context.retry_count]),
    (1 << 13, takes![context.rnr_retry]),
    (1 << 14, takes![path.ack_timeout]),
    (1 << 15, takes![context.lag_tx_port_affinity]),
    (1 << 16, takes![path.vhca_port_num]),
    (1 << 25, takes![context.counter_set_id]),
];

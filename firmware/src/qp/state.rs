//! The state machine of a queue pair: which command leads from where to where. What each takes of
//! the context is in `fields`.

use layouts::{
    Init2initQpIn, Init2rtrQpIn, Qp2errIn, Qp2rstIn, Qpc, Rst2initQpIn, Rtr2rtsQpIn, Rts2rtsQpIn,
    Sqd2rtsQpIn, Sqerr2rtsQpIn,
};

use super::connection::{Requester, Responder};
use super::fields::{
    CQN_RCV, INIT2INIT, INIT2RTR, RST2INIT, RTR2RTS, RTS2RTS, SQD2RTS, SQERR2RTS, SRQN, Transition,
    known_parameters, take_all,
};
use super::{Qp, Receives, Service, find};
use crate::error::{self, CmdError};
use crate::references::{self, Reference};
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
    if mask & !known_parameters() != 0 {
        return Err(error::BAD_ATTRIBUTE.with(format!("optional parameters {mask:#x}")));
    }
    let (service, mut context) = (qp.service, qp.context);
    take_all(transition, mask, new.0, &mut context);
    judge(fw, service, transition.to, &Qpc(&context[..]))?;
    if mask & (SRQN | CQN_RCV) != 0 {
        change_receives(fw, cx.uid, qpn, mask, &mut context, &new)?;
    }
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

/// The queue pair takes its receives from another shared queue, or completes them into another.
fn change_receives(
    fw: &mut Firmware,
    uid: u16,
    qpn: u32,
    mask: u32,
    context: &mut [u8],
    new: &Qpc<&[u8]>,
) -> Result<(), CmdError> {
    let Some(qp) = fw.qps.get(qpn) else { return Ok(()) };
    let (srqn, cqn) = (new.srqn_rmpn_xrqn(), new.cqn_rcv());
    let (mut needs, mut old) = ([None; 2], [None; 2]);
    if mask & SRQN != 0 {
        let Receives::Shared(before) = qp.receives else {
            return Err(error::BAD_ATTRIBUTE.with(format!("QP {qpn:#x} has no shared queue")));
        };
        (needs[0], old[0]) = (Some(Reference::Srq(srqn)), Some(Reference::Srq(before)));
    }
    if mask & CQN_RCV != 0 {
        let Some(before) = qp.receive_cqn else {
            return Err(error::BAD_ATTRIBUTE.with(format!("QP {qpn:#x} completes no receives")));
        };
        (needs[1], old[1]) = (Some(Reference::Cq(cqn)), Some(Reference::Cq(before)));
    }
    references::hold(fw, uid, &needs)?;
    references::release(fw, &old);
    let (mut context, Some(qp)) = (Qpc(context), fw.qps.get_mut(qpn)) else { return Ok(()) };
    if mask & SRQN != 0 {
        context.set_srqn_rmpn_xrqn(srqn);
        qp.receives = Receives::Shared(srqn);
    }
    if mask & CQN_RCV != 0 {
        context.set_cqn_rcv(cqn);
        qp.receive_cqn = Some(cqn);
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

//! Which handler a command has, what it needs, and how a failure becomes a reply.

use cmdif::Executor;
use dma::Bus;
use layouts::*;
use probe::Probe;

use crate::lifecycle::State;
use crate::{
    CmdError, Cx, Firmware, caps, counters, cq, eq, error, lifecycle, lives, mad, mkey, multicast,
    objects, pages, port, qp, registers, special, srq, uar, uctx, umem,
};

/// In which states of the function a command is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// Before ENABLE_HCA.
    Off,
    /// From ENABLE_HCA to DISABLE_HCA.
    Enabled,
    /// Between ENABLE_HCA and INIT_HCA.
    BeforeInit,
    /// From INIT_HCA to TEARDOWN_HCA.
    Ready,
}

impl When {
    fn holds(self, state: State) -> bool {
        match self {
            Self::Off => state == State::Off,
            Self::Enabled => state != State::Off,
            Self::BeforeInit => state == State::Enabled,
            Self::Ready => state == State::Ready,
        }
    }
}

/// One command.
struct Command {
    opcode: Opcode,
    when: When,
    /// Least bytes of input and output.
    min_in: usize,
    min_out: usize,
    run: Handler,
}

/// A handler behind untyped bytes: input and output.
type Handler = fn(&mut Firmware, &Cx, &[u8], &mut [u8]) -> Result<(), CmdError>;

/// Bytes of the header that every command begins with, and of the one that every reply does.
const HEADER: usize = 8;

/// One row of the table: the handler gets the typed input, output, both or neither.
macro_rules! command {
    ($opcode:ident $when:ident $handler:path) => {
        command!(@ $opcode $when HEADER HEADER (|fw, cx, _, _| $handler(fw, cx)))
    };
    ($opcode:ident $when:ident $handler:path, in $in:ident) => {
        command!(@ $opcode $when ($in::SIZE) HEADER (|fw, cx, i, _| $handler(fw, cx, $in(i))))
    };
    ($opcode:ident $when:ident $handler:path, out $out:ident) => {
        command!(@ $opcode $when HEADER ($out::SIZE) (|fw, cx, _, o| $handler(fw, cx, $out(o))))
    };
    ($opcode:ident $when:ident $handler:path, in $in:ident, out $out:ident) => {
        command!(@ $opcode $when ($in::SIZE) ($out::SIZE)
            (|fw, cx, i, o| $handler(fw, cx, $in(i), $out(o))))
    };
    (@ $opcode:ident $when:ident $min_in:tt $min_out:tt $run:tt) => {
        Command {
            opcode: Opcode::$opcode,
            when: When::$when,
            min_in: $min_in,
            min_out: $min_out,
            run: $run,
        }
    };
}

/// Every command that exists, by opcode.
static COMMANDS: &[Command] = &[
    // Users ask for as much of the capabilities as they know of.
    command!(@ QUERY_HCA_CAP Enabled (QueryHcaCapIn::SIZE) (caps::AT)
        (|fw, cx, i, o| caps::query(fw, cx, QueryHcaCapIn(i), QueryHcaCapOut(o)))),
    command!(QUERY_ADAPTER Enabled special::query_adapter, out QueryAdapterOut),
    command!(INIT_HCA BeforeInit lifecycle::init, in InitHcaIn),
    command!(TEARDOWN_HCA Ready lifecycle::teardown, in TeardownHcaIn, out TeardownHcaOut),
    command!(ENABLE_HCA Off lifecycle::enable, in EnableHcaIn),
    command!(DISABLE_HCA Enabled lifecycle::disable, in DisableHcaIn),
    command!(QUERY_PAGES Enabled pages::query, in QueryPagesIn, out QueryPagesOut),
    command!(MANAGE_PAGES Enabled pages::manage, in ManagePagesIn, out ManagePagesOut),
    command!(SET_HCA_CAP BeforeInit caps::set, in SetHcaCapIn),
    command!(QUERY_ISSI Enabled lifecycle::query_issi, out QueryIssiOut),
    command!(SET_ISSI Enabled lifecycle::set_issi, in SetIssiIn),
    command!(SET_DRIVER_VERSION Ready lifecycle::set_driver_version, in SetDriverVersionIn),
    command!(CREATE_MKEY Ready mkey::create, in CreateMkeyIn, out CreateMkeyOut),
    command!(QUERY_MKEY Ready mkey::query, in QueryMkeyIn, out QueryMkeyOut),
    command!(DESTROY_MKEY Ready mkey::destroy, in DestroyMkeyIn),
    command!(QUERY_SPECIAL_CONTEXTS Ready special::query_special_contexts,
        out QuerySpecialContextsOut),
    command!(CREATE_EQ Ready eq::create, in CreateEqIn, out CreateEqOut),
    command!(DESTROY_EQ Ready eq::destroy, in DestroyEqIn),
    command!(QUERY_EQ Ready eq::query, in QueryEqIn, out QueryEqOut),
    command!(CREATE_CQ Ready cq::create, in CreateCqIn, out CreateCqOut),
    command!(DESTROY_CQ Ready cq::destroy, in DestroyCqIn),
    command!(QUERY_CQ Ready cq::query, in QueryCqIn, out QueryCqOut),
    command!(MODIFY_CQ Ready cq::modify, in ModifyCqIn),
    command!(CREATE_QP Ready qp::create, in CreateQpIn, out CreateQpOut),
    command!(DESTROY_QP Ready qp::destroy, in DestroyQpIn),
    command!(RST2INIT_QP Ready qp::rst2init, in Rst2initQpIn),
    command!(INIT2RTR_QP Ready qp::init2rtr, in Init2rtrQpIn),
    command!(RTR2RTS_QP Ready qp::rtr2rts, in Rtr2rtsQpIn),
    command!(RTS2RTS_QP Ready qp::rts2rts, in Rts2rtsQpIn),
    command!(SQERR2RTS_QP Ready qp::sqerr2rts, in Sqerr2rtsQpIn),
    command!(TOERR_QP Ready qp::to_err, in Qp2errIn),
    command!(TORST_QP Ready qp::to_rst, in Qp2rstIn),
    command!(QUERY_QP Ready qp::query, in QueryQpIn, out QueryQpOut),
    command!(SQD_RTS_QP Ready qp::sqd2rts, in Sqd2rtsQpIn),
    command!(MAD_IFC Ready mad::mad_ifc, in MadIfcIn, out MadIfcOut),
    command!(INIT2INIT_QP Ready qp::init2init, in Init2initQpIn),
    command!(CREATE_SRQ Ready srq::create, in CreateSrqIn, out CreateSrqOut),
    command!(DESTROY_SRQ Ready srq::destroy, in DestroySrqIn),
    command!(QUERY_SRQ Ready srq::query, in QuerySrqIn, out QuerySrqOut),
    command!(ARM_RQ Ready srq::arm, in ArmRqIn),
    command!(CREATE_XRC_SRQ Ready srq::create_xrc, in CreateXrcSrqIn, out CreateXrcSrqOut),
    command!(DESTROY_XRC_SRQ Ready srq::destroy_xrc, in DestroyXrcSrqIn),
    command!(QUERY_XRC_SRQ Ready srq::query_xrc, in QueryXrcSrqIn, out QueryXrcSrqOut),
    command!(ARM_XRC_SRQ Ready srq::arm_xrc, in ArmXrcSrqIn),
    command!(QUERY_VPORT_STATE Ready port::query_state, in QueryVportStateIn, out QueryVportStateOut),
    command!(QUERY_HCA_VPORT_CONTEXT Ready port::query_context,
        in QueryHcaVportContextIn, out QueryHcaVportContextOut),
    command!(MODIFY_HCA_VPORT_CONTEXT Ready port::modify_context, in ModifyHcaVportContextIn),
    command!(QUERY_HCA_VPORT_GID Ready port::query_gid,
        in QueryHcaVportGidIn, out QueryHcaVportGidOut),
    command!(QUERY_HCA_VPORT_PKEY Ready port::query_pkey,
        in QueryHcaVportPkeyIn, out QueryHcaVportPkeyOut),
    command!(QUERY_VPORT_COUNTER Ready port::query_counter,
        in QueryVportCounterIn, out QueryVportCounterOut),
    command!(ALLOC_Q_COUNTER Ready counters::alloc, out AllocQCounterOut),
    command!(DEALLOC_Q_COUNTER Ready counters::dealloc, in DeallocQCounterIn),
    command!(QUERY_Q_COUNTER Ready counters::query, in QueryQCounterIn, out QueryQCounterOut),
    command!(ALLOC_PD Ready mkey::alloc_pd, out AllocPdOut),
    command!(DEALLOC_PD Ready mkey::dealloc_pd, in DeallocPdIn),
    command!(ALLOC_UAR Ready uar::alloc, out AllocUarOut),
    command!(DEALLOC_UAR Ready uar::dealloc, in DeallocUarIn),
    command!(ACCESS_REG Enabled registers::access, in AccessRegisterIn, out AccessRegisterOut),
    command!(ATTACH_TO_MCG Ready multicast::attach, in AttachToMcgIn),
    command!(DETACH_FROM_MCG Ready multicast::detach, in DetachFromMcgIn),
    command!(NOP Enabled special::nop),
    command!(ALLOC_XRCD Ready objects::alloc_xrcd, out AllocXrcdOut),
    command!(DEALLOC_XRCD Ready objects::dealloc_xrcd, in DeallocXrcdIn),
    command!(ALLOC_TRANSPORT_DOMAIN Ready objects::alloc_td, out AllocTransportDomainOut),
    command!(DEALLOC_TRANSPORT_DOMAIN Ready objects::dealloc_td, in DeallocTransportDomainIn),
    command!(CREATE_RMP Ready srq::create_rmp, in CreateRmpIn, out CreateRmpOut),
    command!(MODIFY_RMP Ready srq::modify_rmp, in ModifyRmpIn),
    command!(DESTROY_RMP Ready srq::destroy_rmp, in DestroyRmpIn),
    command!(QUERY_RMP Ready srq::query_rmp, in QueryRmpIn, out QueryRmpOut),
    command!(CREATE_UCTX Ready uctx::create, in CreateUctxIn, out CreateUctxOut),
    command!(DESTROY_UCTX Ready uctx::destroy, in DestroyUctxIn),
    command!(CREATE_UMEM Ready umem::create, in CreateUmemIn, out CreateUmemOut),
    command!(DESTROY_UMEM Ready umem::destroy, in DestroyUmemIn),
];

/// The firmware as the command interface sees it.
pub struct CommandExecutor<'a> {
    /// What commands act on.
    pub firmware: &'a mut Firmware,
    /// What is noted about the guest.
    pub probe: &'a Probe,
}

impl Executor for CommandExecutor<'_> {
    fn execute(&mut self, bus: &dyn Bus, input: &[u8], output: &mut [u8]) {
        let header = MboxIn(input);
        let opcode = Opcode(header.opcode());
        let cx = Cx { bus, probe: self.probe, uid: header.uid(), op_mod: header.op_mod() };
        self.probe.command(opcode.0);
        let result = carry_out(self.firmware, &cx, opcode, input, output);
        let mut reply = MboxOut(&mut *output);
        match result {
            Ok(()) => {
                reply.set_status(Status::OK.0);
                reply.set_syndrome(0);
                lives::tell(self.probe, opcode, input, output);
            }
            Err(error) => {
                // A command that failed says nothing but why.
                reply.0.fill(0);
                reply.set_status(error.cause.status.0);
                reply.set_syndrome(error.cause.syndrome);
                self.probe.mistake(error.cause.name, || format!("{opcode} failed: {error}"));
            }
        }
        pages::replenish(self.firmware, &cx);
    }
}

fn carry_out(
    fw: &mut Firmware,
    cx: &Cx,
    opcode: Opcode,
    input: &[u8],
    output: &mut [u8],
) -> Result<(), CmdError> {
    let Some(command) = COMMANDS
        .binary_search_by_key(&opcode.0, |command| command.opcode.0)
        .ok()
        .and_then(|at| COMMANDS.get(at))
    else {
        cx.probe.missing("opcode", opcode.0, opcode);
        return Err(error::UNKNOWN_OPCODE.with(opcode.to_string()));
    };
    if !command.when.holds(fw.life.state) {
        return Err(error::WRONG_STATE.with(format!("{opcode} while {}", fw.life.state.name())));
    }
    if input.len() < command.min_in {
        return Err(error::INPUT_TOO_SHORT.with(format!(
            "{opcode} takes {} bytes, {} came",
            command.min_in,
            input.len()
        )));
    }
    if output.len() < command.min_out {
        return Err(error::OUTPUT_TOO_SHORT.with(format!(
            "{opcode} answers {} bytes, there is room for {}",
            command.min_out,
            output.len()
        )));
    }
    if cx.uid != 0 && !uctx::known(fw, cx.uid) {
        return Err(error::NO_SUCH_UCTX.with(format!("{opcode} for user context {}", cx.uid)));
    }
    (command.run)(fw, cx, input, output)
}

/// Every command that exists.
#[cfg(test)]
pub(crate) fn opcodes() -> impl Iterator<Item = Opcode> {
    COMMANDS.iter().map(|command| command.opcode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(COMMANDS.is_sorted_by_key(|command| command.opcode.0));
    }
}

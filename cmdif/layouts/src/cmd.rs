//! Commands: the structures that go in and come out, and which command has which.
//!
//! An output may be longer than its structure says here, and an input that names an array without
//! end is: `SIZE` is the least there must be.

mod cq;
mod eq;
mod function;
mod mkey;
mod objects;
mod port;
mod qp;
mod qp_state;
mod rmp;
mod srq;
mod user;

pub use cq::*;
pub use eq::*;
pub use function::*;
pub use mkey::*;
pub use objects::*;
pub use port::*;
pub use qp::*;
pub use qp_state::*;
pub use rmp::*;
pub use srq::*;
pub use user::*;

use crate::caps::{QueryHcaCapIn, QueryHcaCapOut, SetHcaCapIn, SetHcaCapOut};
use crate::{LayoutInfo, Opcode, layout};

layout! {
    /// What every input begins with.
    MboxIn = "mbox_in", 0x8 {
        opcode: u16 = 0x00[31:16],
        /// The DEVX user; 0 is the driver.
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
    }
}

layout! {
    /// What every output begins with.
    MboxOut = "mbox_out", 0x8 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

macro_rules! commands {
    ($( $opcode:ident $input:ident $output:ident, )*) => {
        /// The structures of the commands that are described here: opcode, input, output.
        pub const COMMANDS: &[(Opcode, &LayoutInfo, &LayoutInfo)] = &[
            $( (Opcode::$opcode, &$input::INFO, &$output::INFO), )*
        ];

        /// A command's input and output. One that is not described has only the headers.
        pub const fn command(opcode: Opcode) -> (&'static LayoutInfo, &'static LayoutInfo) {
            match opcode {
                $( Opcode::$opcode => (&$input::INFO, &$output::INFO), )*
                _ => (&MboxIn::INFO, &MboxOut::INFO),
            }
        }
    };
}

commands! {
    QUERY_HCA_CAP QueryHcaCapIn QueryHcaCapOut,
    QUERY_ADAPTER QueryAdapterIn QueryAdapterOut,
    INIT_HCA InitHcaIn InitHcaOut,
    TEARDOWN_HCA TeardownHcaIn TeardownHcaOut,
    ENABLE_HCA EnableHcaIn EnableHcaOut,
    DISABLE_HCA DisableHcaIn DisableHcaOut,
    QUERY_PAGES QueryPagesIn QueryPagesOut,
    MANAGE_PAGES ManagePagesIn ManagePagesOut,
    SET_HCA_CAP SetHcaCapIn SetHcaCapOut,
    QUERY_ISSI QueryIssiIn QueryIssiOut,
    SET_ISSI SetIssiIn SetIssiOut,
    SET_DRIVER_VERSION SetDriverVersionIn SetDriverVersionOut,
    CREATE_MKEY CreateMkeyIn CreateMkeyOut,
    QUERY_MKEY QueryMkeyIn QueryMkeyOut,
    DESTROY_MKEY DestroyMkeyIn DestroyMkeyOut,
    QUERY_SPECIAL_CONTEXTS QuerySpecialContextsIn QuerySpecialContextsOut,
    PAGE_FAULT_RESUME PageFaultResumeIn PageFaultResumeOut,
    ALLOC_MEMIC AllocMemicIn AllocMemicOut,
    DEALLOC_MEMIC DeallocMemicIn DeallocMemicOut,
    MODIFY_MEMIC ModifyMemicIn ModifyMemicOut,
    CREATE_EQ CreateEqIn CreateEqOut,
    DESTROY_EQ DestroyEqIn DestroyEqOut,
    QUERY_EQ QueryEqIn QueryEqOut,
    CREATE_CQ CreateCqIn CreateCqOut,
    DESTROY_CQ DestroyCqIn DestroyCqOut,
    QUERY_CQ QueryCqIn QueryCqOut,
    MODIFY_CQ ModifyCqIn ModifyCqOut,
    CREATE_QP CreateQpIn CreateQpOut,
    DESTROY_QP DestroyQpIn DestroyQpOut,
    RST2INIT_QP Rst2initQpIn Rst2initQpOut,
    INIT2RTR_QP Init2rtrQpIn Init2rtrQpOut,
    RTR2RTS_QP Rtr2rtsQpIn Rtr2rtsQpOut,
    RTS2RTS_QP Rts2rtsQpIn Rts2rtsQpOut,
    SQERR2RTS_QP Sqerr2rtsQpIn Sqerr2rtsQpOut,
    TOERR_QP Qp2errIn Qp2errOut,
    TORST_QP Qp2rstIn Qp2rstOut,
    QUERY_QP QueryQpIn QueryQpOut,
    SQD_RTS_QP Sqd2rtsQpIn Sqd2rtsQpOut,
    MAD_IFC MadIfcIn MadIfcOut,
    INIT2INIT_QP Init2initQpIn Init2initQpOut,
    CREATE_SRQ CreateSrqIn CreateSrqOut,
    DESTROY_SRQ DestroySrqIn DestroySrqOut,
    QUERY_SRQ QuerySrqIn QuerySrqOut,
    ARM_RQ ArmRqIn ArmRqOut,
    CREATE_XRC_SRQ CreateXrcSrqIn CreateXrcSrqOut,
    DESTROY_XRC_SRQ DestroyXrcSrqIn DestroyXrcSrqOut,
    QUERY_XRC_SRQ QueryXrcSrqIn QueryXrcSrqOut,
    ARM_XRC_SRQ ArmXrcSrqIn ArmXrcSrqOut,
    QUERY_VPORT_STATE QueryVportStateIn QueryVportStateOut,
    MODIFY_VPORT_STATE ModifyVportStateIn ModifyVportStateOut,
    QUERY_HCA_VPORT_CONTEXT QueryHcaVportContextIn QueryHcaVportContextOut,
    MODIFY_HCA_VPORT_CONTEXT ModifyHcaVportContextIn ModifyHcaVportContextOut,
    QUERY_HCA_VPORT_GID QueryHcaVportGidIn QueryHcaVportGidOut,
    QUERY_HCA_VPORT_PKEY QueryHcaVportPkeyIn QueryHcaVportPkeyOut,
    QUERY_VPORT_COUNTER QueryVportCounterIn QueryVportCounterOut,
    ALLOC_Q_COUNTER AllocQCounterIn AllocQCounterOut,
    DEALLOC_Q_COUNTER DeallocQCounterIn DeallocQCounterOut,
    QUERY_Q_COUNTER QueryQCounterIn QueryQCounterOut,
    ALLOC_PD AllocPdIn AllocPdOut,
    DEALLOC_PD DeallocPdIn DeallocPdOut,
    ALLOC_UAR AllocUarIn AllocUarOut,
    DEALLOC_UAR DeallocUarIn DeallocUarOut,
    ACCESS_REG AccessRegisterIn AccessRegisterOut,
    ATTACH_TO_MCG AttachToMcgIn AttachToMcgOut,
    DETACH_FROM_MCG DetachFromMcgIn DetachFromMcgOut,
    NOP NopIn NopOut,
    ALLOC_XRCD AllocXrcdIn AllocXrcdOut,
    DEALLOC_XRCD DeallocXrcdIn DeallocXrcdOut,
    ALLOC_TRANSPORT_DOMAIN AllocTransportDomainIn AllocTransportDomainOut,
    DEALLOC_TRANSPORT_DOMAIN DeallocTransportDomainIn DeallocTransportDomainOut,
    CREATE_RMP CreateRmpIn CreateRmpOut,
    MODIFY_RMP ModifyRmpIn ModifyRmpOut,
    DESTROY_RMP DestroyRmpIn DestroyRmpOut,
    QUERY_RMP QueryRmpIn QueryRmpOut,
    CREATE_GENERAL_OBJECT GeneralObjInCmdHdr GeneralObjOutCmdHdr,
    MODIFY_GENERAL_OBJECT GeneralObjInCmdHdr GeneralObjOutCmdHdr,
    QUERY_GENERAL_OBJECT GeneralObjInCmdHdr GeneralObjOutCmdHdr,
    DESTROY_GENERAL_OBJECT GeneralObjInCmdHdr GeneralObjOutCmdHdr,
    CREATE_UCTX CreateUctxIn CreateUctxOut,
    DESTROY_UCTX DestroyUctxIn DestroyUctxOut,
    CREATE_UMEM CreateUmemIn CreateUmemOut,
    DESTROY_UMEM DestroyUmemIn DestroyUmemOut,
}

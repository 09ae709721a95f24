//! Registers that the driver reaches with ACCESS_REG.

mod capability;
mod counters;
mod management;
mod port;

pub use capability::*;
pub use counters::*;
pub use management::*;
pub use port::*;

use crate::{LayoutInfo, RegisterId};

macro_rules! registers {
    ($( $id:ident $layout:ident, )*) => {
        /// The registers that are described here.
        pub const REGISTERS: &[(RegisterId, &LayoutInfo)] = &[
            $( (RegisterId::$id, &$layout::INFO), )*
        ];

        /// A register's structure, if it is described here. In the command and in the reply it
        /// begins behind the fixed part.
        pub const fn register(id: RegisterId) -> Option<&'static LayoutInfo> {
            Some(match id {
                $( RegisterId::$id => &$layout::INFO, )*
                _ => return None,
            })
        }
    };
}

registers! {
    PMLP PmlpReg,
    PMTU PmtuReg,
    PTYS PtysReg,
    PAOS PaosReg,
    PFCC PfccReg,
    PPCNT PpcntReg,
    PVLC PvlcReg,
    PPLM PplmReg,
    PDDR PddrReg,
    PCAM PcamReg,
    NODE_DESC NodeDesc,
    HOST_ENDIANNESS HostEndianness,
    MTCAP MtcapReg,
    MTMP MtmpReg,
    MCIA MciaReg,
    MFRL MfrlReg,
    MRTC MrtcReg,
    MPEIN MpeinReg,
    MPCNT MpcntReg,
    MTUTC MtutcReg,
    MCQS McqsReg,
    MCQI McqiReg,
    MCAM McamReg,
    DTOR DtorReg,
}

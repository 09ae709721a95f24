//! Why a command fails: what the guest sees (status and syndrome) and what the log says.
//!
//! Real syndromes are numbers that only the vendor can look up. Where no public source names the
//! one a card gives, ours are from the table below: stable, one a cause, so that the number that a
//! driver prints can be looked up here.

use std::fmt;

use layouts::Status;

/// One cause of failure.
#[derive(Debug, PartialEq, Eq)]
pub struct Cause {
    /// Name in this table.
    pub name: &'static str,
    /// Status of the reply.
    pub status: Status,
    /// Syndrome of the reply. Ours: `0x00e_____` is in no public report of a real card.
    pub syndrome: u32,
    /// What it means.
    pub text: &'static str,
}

impl Cause {
    /// An error of this cause, with the values that mattered.
    #[cold]
    pub fn with(&'static self, detail: impl Into<String>) -> CmdError {
        CmdError { cause: self, detail: detail.into() }
    }
}

/// A command's failure.
#[derive(Debug, PartialEq, Eq)]
pub struct CmdError {
    /// What the guest will see.
    pub cause: &'static Cause,
    /// For the log.
    pub detail: String,
}

impl fmt::Display for CmdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cause, detail } = self;
        write!(
            f,
            "{} ({detail}): status {}, syndrome {:#x}",
            cause.text, cause.status, cause.syndrome
        )
    }
}

impl std::error::Error for CmdError {}

macro_rules! causes {
    ($( $name:ident = $syndrome:literal, $status:ident, $text:literal; )*) => {
        $(
            #[doc = $text]
            pub static $name: Cause = Cause {
                name: stringify!($name), status: Status::$status, syndrome: $syndrome, text: $text,
            };
        )*
        /// Every cause, by rising syndrome.
        pub static CAUSES: &[&Cause] = &[$( &$name ),*];
    };
}

causes! {
    UNKNOWN_OPCODE = 0x00e00001, BAD_OP, "no such command";
    WRONG_STATE = 0x00e00002, BAD_SYS_STATE, "the command is not for this state of the device";
    INPUT_TOO_SHORT = 0x00e00003, BAD_INPUT_LEN, "the input is shorter than the command";
    OUTPUT_TOO_SHORT = 0x00e00004, BAD_OUTPUT_LEN, "the output is shorter than the reply";
    BAD_OP_MOD = 0x00e00005, BAD_PARAM, "the operation modifier is not one of this command's";
    UNKNOWN_REGISTER = 0x00e00006, BAD_PARAM, "no such register";
    BAD_FUNCTION = 0x00e00007, BAD_PARAM, "no such function";
    BAD_PORT = 0x00e00008, BAD_PARAM, "no such port";
    BAD_TABLE_INDEX = 0x00e00009, IX_ERR, "no such entry in the port's table";
    BAD_VALUE = 0x00e0000a, BAD_PARAM, "a field has a value that it can't have";
    BAD_MAD = 0x00e0000c, BAD_PKT, "a management datagram of a class that is not answered here";
    BAD_ISSI = 0x00e0000b, BAD_PARAM, "an interface step sequence that is not supported";
    CAP_TYPE = 0x00e00010, BAD_PARAM, "no such capability type";
    CAP_TOO_LARGE = 0x00e00011, BAD_PARAM, "a capability above its maximum";
    CAP_TOO_LATE = 0x00e00012, BAD_SYS_STATE, "capabilities are set before INIT_HCA";
    PAGE_NOT_GIVEN = 0x00e00020, BAD_PARAM, "a page that can't be given";
    PAGES_TOO_MANY = 0x00e00021, LIM_ERR, "more pages than the device keeps count of";
    NO_SUCH_UAR = 0x00e00030, BAD_RES, "no such UAR";
    NO_SUCH_EQ = 0x00e00031, BAD_RES, "no such event queue";
    NO_SUCH_PD = 0x00e00032, BAD_RES, "no such protection domain";
    NO_SUCH_XRCD = 0x00e00033, BAD_RES, "no such XRC domain";
    NO_SUCH_TD = 0x00e00034, BAD_RES, "no such transport domain";
    NO_SUCH_COUNTER = 0x00e00035, BAD_RES, "no such counter set";
    NO_SUCH_MKEY = 0x00e00036, BAD_RES, "no such memory key";
    NO_SUCH_CQ = 0x00e00037, BAD_RES, "no such completion queue";
    NO_SUCH_QP = 0x00e00038, BAD_RES, "no such queue pair";
    NO_SUCH_SRQ = 0x00e00039, BAD_RES, "no such shared receive queue";
    NO_SUCH_UCTX = 0x00e0003a, BAD_RES, "no such user context";
    NOT_A_MEMBER = 0x00e0003b, BAD_RES, "the queue pair is not in this multicast group";
    NO_SUCH_UMEM = 0x00e0003c, BAD_RES, "no such user memory";
    IN_USE = 0x00e00040, RES_BUSY, "other objects refer to it";
    TABLE_FULL = 0x00e00041, LIM_ERR, "the configured number of objects exists";
    NO_TRANSLATIONS = 0x00e00042, NO_RES, "the configured number of translation entries is filled";
    NO_QUEUE_MEMORY = 0x00e00043, NO_RES, "the configured memory for queues is used";
    BAD_QUEUE_SIZE = 0x00e00050, BAD_PARAM, "a queue size that is not supported";
    BAD_PAGE_LIST = 0x00e00051, BAD_PARAM, "the page list does not hold the queue";
    BAD_VECTOR = 0x00e00052, BAD_PARAM, "no such interrupt vector";
    BAD_STATE_CHANGE = 0x00e00053, BAD_QP_STATE, "the queue pair's state does not allow it";
    BAD_ATTRIBUTE = 0x00e00054, BAD_PARAM, "an attribute that this object does not take";
    CQES_OUTSTANDING = 0x00e00055, BAD_SIZE_OUTS_CQES, "a size that does not hold the entries that are not read yet";
    BAD_MKEY = 0x00e00060, BAD_PARAM, "a memory key that can't be made so";
}

/// The error for an object that could not be removed; `unknown` is this kind's "no such object".
pub fn removal(error: dma::RemoveError, unknown: &'static Cause) -> CmdError {
    match error {
        dma::RemoveError::Unknown(_) => unknown.with(error.to_string()),
        dma::RemoveError::Busy { .. } => IN_USE.with(error.to_string()),
    }
}

/// Refuses user context `uid` an object that belongs to another: it sees no such object. The
/// driver itself (0) may reach everything.
pub fn owned(
    owner: Option<u16>,
    uid: u16,
    id: u32,
    unknown: &'static Cause,
) -> Result<(), CmdError> {
    match owner {
        Some(owner) if uid == 0 || owner == uid => Ok(()),
        Some(owner) => {
            Err(unknown.with(format!("{id:#x} belongs to user context {owner}, not {uid}")))
        }
        None => Err(unknown.with(format!("{id:#x}"))),
    }
}

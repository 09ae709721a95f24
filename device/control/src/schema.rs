//! The messages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Hex;

/// Version of this schema; it rises with every change that an older reader would misread.
pub const SCHEMA: u32 = 1;

/// Longest line either side may send, in bytes, its newline included.
pub const MAX_LINE: usize = 1 << 20;

/// The server's first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Greeting {
    /// Version of the program.
    pub mlx5emu: String,
    /// [`SCHEMA`] of the server.
    pub schema: u32,
}

/// One request with the number that its answer will carry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// Chosen by the client, repeated in the answer.
    pub id: u64,
    /// What to do.
    #[serde(flatten)]
    pub request: Request,
}

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Life cycle, connection and object counts → [`Status`].
    Status {},
    /// One key's context → [`Mkey`].
    Mkey {
        /// The full 32-bit key.
        key: Hex,
    },
    /// All keys, by rising index → [`MkeyPage`].
    Mkeys {
        /// Leave out keys that can't be used until a UMR enables them.
        #[serde(default)]
        live_only: bool,
        /// Index to begin at (not the key: its upper 24 bits).
        #[serde(default)]
        from: u32,
        /// At most this many (and at most 4096).
        #[serde(default = "default_page")]
        limit: u32,
    },
    /// What an access through a key would reach → [`Translation`].
    Translate {
        /// The full 32-bit key.
        key: Hex,
        /// First address, in the key's own address space.
        address: Hex,
        /// Length in bytes.
        length: Hex,
        /// The right that the access needs.
        access: Access,
        /// The protection domain of the queue that asks; without it the domain is not compared.
        #[serde(default)]
        pd: Option<u32>,
        /// Skip this many pieces.
        #[serde(default)]
        skip: u64,
        /// At most this many pieces (and at most 8192).
        #[serde(default = "default_page")]
        limit: u32,
    },
    /// Registers, commands and fields that the guest touched and the device does not model →
    /// [`Missing`].
    Missing {},
    /// The card as a tree, for people → [`Node`].
    Inspect {
        /// Which node, as `qps/0x45`; the empty one is all of it, long lists cut short.
        #[serde(default)]
        node: String,
        /// At most this many children of a list (and at most 2048).
        #[serde(default = "default_page")]
        limit: u32,
    },
    /// Everything that is counted and measured → [`Metrics`].
    Metrics {},
    /// Trace something else, or, with neither, only ask → [`TraceStatus`].
    Trace {
        /// `off`, `commands`, `work`, `dma` or `all`; without it, the level stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        level: Option<String>,
        /// Only events that match; an empty one is none. Without it, the filter stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filter: Option<String>,
    },
    /// One more fault rule → [`Faults`].
    FaultAdd {
        /// As `docs/faults.md` describes it.
        rule: serde_json::Value,
    },
    /// All fault rules and what they have done → [`Faults`].
    FaultList {},
    /// Forget fault rules; what they keep back goes on → [`Faults`], those that are left.
    FaultClear {
        /// Which one; without it, all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// What a fault rule keeps back goes on → [`Released`].
    FaultRelease {
        /// Which one.
        name: String,
    },
    /// Whoever has started the card is asked to take it out of its slot, or to put it in again →
    /// [`SlotAsked`].
    Slot {
        /// Which of both.
        change: SlotChange,
    },
}

fn default_page() -> u32 {
    1024
}

/// A right that an access needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// The device reads on behalf of its own guest's work request.
    LocalRead,
    /// The device writes on behalf of its own guest's work request.
    LocalWrite,
    /// A remote peer reads.
    RemoteRead,
    /// A remote peer writes.
    RemoteWrite,
    /// A remote peer's atomic operation.
    RemoteAtomic,
}

/// The answer to the request with the same `id`: exactly one of `ok` and `error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Of the request; 0 when the request had none that could be read.
    pub id: u64,
    /// The reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<serde_json::Value>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Refusal>,
}

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(deny_unknown_fields)]
#[error("{message}")]
pub struct Refusal {
    /// For programs.
    pub kind: RefusalKind,
    /// For people.
    pub message: String,
}

/// Kinds of refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The line is not a request of this schema.
    BadRequest,
    /// There is no such object.
    NotFound,
}

/// Reply to [`Request::Status`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// Where the function is in its life cycle (`off`, `enabled`, `ready`, …).
    pub state: String,
    /// Whether a vfio-user client is connected.
    pub connected: bool,
    /// How many clients have connected since the process began.
    pub connections: u64,
    /// Objects that exist, by kind (`mkey`, `mkey_live`, `pd`, `cq`, `qp`, …); kinds with none are
    /// listed with 0.
    pub objects: BTreeMap<String, u64>,
    /// Pages that the guest has given and not got back.
    pub pages: u64,
    /// Running counters (`commands`, `command:CREATE_MKEY`, `umr`, `interrupts`, …).
    pub counters: BTreeMap<String, u64>,
}

/// Reply to [`Request::Mkey`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mkey {
    /// The full 32-bit key: index and variant.
    pub key: Hex,
    /// It can't be used until a UMR enables it.
    pub free: bool,
    /// `PA`, `MTT`, `KLM`, `KSM`, …
    pub mode: String,
    /// Protection domain.
    pub pd: u32,
    /// First address in the key's address space.
    pub start: Hex,
    /// Length in bytes.
    pub length: Hex,
    /// The length is 2^64 and `length` is not used.
    pub length64: bool,
    /// Page size as a power of two.
    pub log_page_size: u8,
    /// Rights that accesses have through it.
    pub access: Vec<Access>,
    /// How many 8-byte entries it may hold.
    pub capacity: u64,
    /// How many entries it holds.
    pub filled: u64,
}

/// Reply to [`Request::Mkeys`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MkeyPage {
    /// The keys.
    pub keys: Vec<Mkey>,
    /// Where to go on, when there are more.
    pub next: Option<u32>,
}

/// A run of guest memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// DMA address.
    pub address: Hex,
    /// Length in bytes.
    pub length: Hex,
}

/// Reply to [`Request::Translate`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Translation {
    /// The access is permitted and reaches these pieces, in order; adjacent ones are joined.
    Pieces {
        /// The pieces from `skip` on.
        pieces: Vec<Piece>,
        /// There are more.
        more: bool,
    },
    /// The access is refused.
    Refused {
        /// The reason, one of a fixed set (`no_such_key`, `wrong_variant`, `free_key`, `pd_mismatch`,
        /// `out_of_bounds`, `right_missing`, `entry_not_present`, `dma_unmapped`, …).
        reason: String,
        /// The same for people, with the values that mattered.
        message: String,
    },
}

/// Reply to [`Request::Missing`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// What was touched and how often, e.g. `opcode 0x826 QUERY_CONG_STATISTICS` → 2.
    pub touched: BTreeMap<String, u64>,
}

/// Reply to [`Request::Trace`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceStatus {
    /// Where the trace goes.
    pub file: String,
    /// How much is traced.
    pub level: String,
    /// Only events that match this.
    pub filter: Option<String>,
    /// Events noted so far.
    pub events: u64,
    /// Events that were dropped because the file could not keep up.
    pub dropped: u64,
}

/// Reply to requests about fault rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Faults {
    /// The rules, in the order in which they are tried.
    pub rules: Vec<FaultState>,
}

/// A fault rule and what it has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultState {
    /// Its name.
    pub name: String,
    /// Its point.
    pub at: String,
    /// How often what it is about has happened.
    pub matched: u64,
    /// How often it has fired.
    pub fired: u64,
    /// A run in which it does not fire has failed.
    pub must_fire: bool,
    /// All of it.
    pub rule: serde_json::Value,
}

/// Reply to [`Request::FaultRelease`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Released {
    /// How many things go on.
    pub released: u64,
}

/// What is done with the card's slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotChange {
    /// The guest is asked to let go of the card, and then the card is gone.
    Unplug,
    /// The card is there again, as after power-on.
    Replug,
}

impl SlotChange {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unplug => "unplug",
            Self::Replug => "replug",
        }
    }
}

/// Reply to [`Request::Slot`]: what was asked for. `connected` of a [`Status`] tells when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotAsked {
    /// Which of both.
    pub asked: SlotChange,
}

/// Reply to [`Request::Inspect`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its name under its parent.
    pub name: String,
    /// What is known of it. Which names there are may change with every version.
    pub values: serde_json::Map<String, serde_json::Value>,
    /// What is in it.
    pub children: Vec<Node>,
    /// How many more children there are.
    pub more: u64,
}

/// Reply to [`Request::Metrics`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// The card's clock in ns: rates are differences of counters by differences of times.
    pub time: u64,
    /// The card's life cycle, objects and counters.
    pub status: Status,
    /// From a doorbell until the card has done all that it set going, by what that was: `commands`
    /// or `work`.
    pub latencies: BTreeMap<String, Latency>,
}

/// Counts by duration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Their sum in ns.
    pub sum: u64,
    /// How many of each length; lengths of which there are none are left out.
    pub buckets: Vec<Bucket>,
}

/// Durations between the bucket before and `below`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// In ns.
    pub below: u64,
    /// How many.
    pub count: u64,
}

//! Traces: what was observed in a card. `docs/trace.md` has the schema.
//!
//! [`Encoder`] writes what a [`probe::Hook`] is told; [`TraceReader`] gives it back, event by event.

mod encode;
mod event;
mod level;
mod reader;

pub use encode::Encoder;
pub use event::{TraceEvent, TraceValue};
pub(crate) use event::{fields_of, value_name};
pub use level::Level;
pub use reader::{Entry, TraceError, TraceReader};

use serde::{Deserialize, Serialize};

/// Kinds of record. One is never given another meaning.
mod kind {
    pub const HEADER: u16 = 0x40;
    pub const NAME: u16 = 0x41;
    pub const EVENT: u16 = 0x42;
    pub const DROPPED: u16 = 0x43;
    pub const SETTINGS: u16 = 0x44;
}

/// What stands before a value: how it is written.
mod tag {
    pub const U64: u8 = 0;
    pub const WORD: u8 = 1;
    pub const U8: u8 = 2;
    pub const U16: u8 = 3;
    pub const U32: u8 = 4;
}

/// First record of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceHeader {
    /// Name and version of the program that wrote it.
    pub program: String,
    /// What the machine's clocks showed at time 0.
    pub clocks: Clocks,
    /// Names of the functions, by number.
    pub functions: Vec<String>,
    /// What was traced in the beginning.
    pub settings: Settings,
}

/// Clocks of the machine, in ns, at a trace's time 0: they put its times on another clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// CLOCK_MONOTONIC.
    pub monotonic: u64,
    /// CLOCK_REALTIME: since 1970.
    pub realtime: u64,
}

/// What is traced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Which points.
    pub level: Level,
    /// Only events that match this expression.
    pub filter: Option<String>,
}

/// Most bytes of a structure that an event keeps.
pub const MAX_BYTES: usize = 64 << 10;

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;

//! Traces and recordings: the container of both (`docs/recording.md`), the records of a recording,
//! and those of a trace (`docs/trace.md`) with what reads and shows them.
#![forbid(unsafe_code)]

mod difference;
mod event;
mod filter;
mod log;
mod reader;
mod show;
mod writer;

pub use difference::{Difference, LastTold, register_differences};
pub use event::{Event, EventError, Next};
pub use filter::{BadFilter, Filter, Subject};
pub use log::{
    Clocks, Encoder, Entry, Level, MAX_BYTES, Settings, TraceError, TraceEvent, TraceHeader,
    TraceReader, TraceValue,
};
pub use reader::{End, ReadError, Reader, Record};
pub use show::{Perfetto, Text, json};
pub use writer::{TooLong, WriteError, Writer};

/// First bytes of a file.
pub const MAGIC: [u8; 8] = *b"mlx5emu\x1a";

/// Version of the format.
pub const VERSION: u32 = 1;

/// Most bytes in one block: a reader never needs to hold more.
pub const MAX_BLOCK: usize = 64 << 20;

/// Bytes before a record's body: its length and its kind.
const RECORD_HEAD: usize = 6;

/// Bytes before a block's payload: its length and its checksum.
const BLOCK_HEAD: usize = 8;

#[cfg(test)]
mod tests;

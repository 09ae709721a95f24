//! Tells what a program's verbs calls did, from the library to the card's tables.
//!
//! A program in the guest ([`GUEST_PROGRAMS`], sources in `guest/`) runs the command with the kernel's own
//! tracer on and writes what it saw. Together with the card's trace that becomes a [`Story`]: nested spans
//! on one clock. [`tree()`] shows it in a terminal, [`page()`] makes one HTML page of it.
//!
//! What lives where: `capture`, `ring`, `format` and `events` read what the guest wrote; `spans` nests
//! it; `card` does the same for the card's trace; `clock` puts both on one clock; `story` joins them and
//! answers what people ask; `names` and `words` have the plain words; `tree` and `page` show
//! it; `trim` makes traces small.
#![forbid(unsafe_code)]

mod capture;
mod card;
mod clock;
mod events;
mod format;
mod names;
mod page;
mod programs;
mod ring;
mod spans;
mod story;
mod tree;
mod trim;
mod words;

use thiserror::Error;

pub use clock::Clock;
pub use names::Category;
pub use page::page;
pub use programs::{DEFAULT, GUEST_PROGRAMS, Program, TRACER};
pub use story::{Call, Detail, Frames, Lane, Line, Span, Story};
pub use tree::{Show, tree};
pub use trim::trim;

/// Why there is no story.
#[derive(Debug, Error)]
pub enum Error {
    /// What came from the guest can't be read.
    #[error("what the guest traced can't be read: {0}")]
    Capture(String),
    /// What came from the card can't be read.
    #[error("the card's trace can't be read: {0}")]
    Trace(#[from] trace::TraceError),
    /// A trace could not be written.
    #[error("the trace can't be written: {0}")]
    Write(#[from] std::io::Error),
}

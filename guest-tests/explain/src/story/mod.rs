//! The story: spans of all lanes on one clock, each below what it was done for.

mod answers;
mod build;
mod failure;
mod frames;
mod link;

use std::io::Read;

use serde::Serialize;

pub use frames::{Frames, Line};

use crate::capture::Capture;
use crate::card::Card;
use crate::clock::Clock;
use crate::events::events;
use crate::names::Category;
use crate::spans::{Spans, spans};
use crate::{Error, card};

/// Everything that is told.
#[derive(Debug, Serialize)]
pub struct Story {
    /// What was run.
    pub command: String,
    /// The guest's kernel.
    pub kernel: String,
    /// All spans, by the time at which they begin.
    pub spans: Vec<Span>,
    /// What is told of each call, in order.
    pub calls: Vec<Call>,
    /// Bytes taken apart.
    pub details: Vec<Detail>,
    /// How the card's clock was put on the guest's.
    pub clock: Option<Clock>,
    /// What the reader should know: records that were lost, a trace that is missing.
    pub notes: Vec<String>,
    /// What is below each span.
    #[serde(skip)]
    children: Vec<Vec<usize>>,
}

/// A stretch of time in which something was done.
#[derive(Debug, Clone, Serialize)]
pub struct Span {
    /// Where it is drawn.
    pub lane: Lane,
    /// What it was done for.
    pub parent: Option<usize>,
    /// Ns since the command began.
    pub start: i64,
    /// Ns since the command began.
    pub end: i64,
    /// Its own name: of a function, a system call, an event of the card.
    pub name: String,
    /// In words, if it is part of the story.
    pub title: Option<String>,
    /// Names and values of the data that passed.
    pub facts: Vec<(String, String)>,
    /// What its time is spent on.
    pub category: Category,
    /// How it failed.
    pub failed: Option<String>,
    /// It had not ended when the trace did.
    pub open: bool,
    /// Its bytes: an index of [`Story::details`].
    pub detail: Option<usize>,
}

/// Where a span is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// The program and its libraries.
    User,
    /// The kernel, for the program.
    Kernel,
    /// The kernel's own threads.
    Worker,
    /// Interrupt handlers and what runs right after them.
    Interrupt,
    /// Between guest and card.
    Bus,
    /// The card.
    Card,
}

/// One call of the verbs library, or what the kernel did for the program without one.
#[derive(Debug, Clone, Serialize)]
pub struct Call {
    /// Its span.
    pub span: usize,
    /// It is told in full even where calls that only prepare are told in a line.
    pub main: bool,
    /// So many calls that look the same, one after the other: this is the first.
    pub times: usize,
    /// Answers to what people ask, a line each.
    pub answers: Vec<String>,
    /// The translations of its key beside the guest's page frames.
    pub frames: Option<Frames>,
}

/// Bytes of a structure, field by field.
#[derive(Debug, Clone, Serialize)]
pub struct Detail {
    /// The structure's name.
    pub structure: String,
    /// Names and values of what is not zero.
    pub fields: Vec<(String, String)>,
    /// The bytes in hexadecimal, as many as are kept.
    pub bytes: String,
    /// How many bytes there were.
    pub length: u64,
}

/// The time of the command, on the card's clock.
pub(crate) struct Window {
    clock: Clock,
    first: i64,
    last: i64,
}

/// When the command ran, if the card's clock is known.
pub(crate) fn window(capture: &Capture) -> Option<Window> {
    Window::new(capture, &spans(capture, &events(capture)))
}

impl Window {
    fn new(capture: &Capture, guest: &Spans) -> Option<Self> {
        let clock = Clock::fit(&capture.exchanges)?;
        let first = guest.spans.iter().map(|span| span.start).min()?;
        let last = guest.spans.iter().map(|span| span.end).max()?;
        Some(Self { clock, first, last })
    }

    /// Whether a time of the card may be within.
    pub(crate) fn has(&self, card: i64) -> bool {
        let (guest, error) = (self.clock.guest(card), self.clock.error);
        self.first - error <= guest && guest <= self.last + error
    }
}

impl Story {
    /// Tells it, from what the guest wrote and the card's trace.
    pub fn new(guest: &[u8], trace: Option<impl Read>) -> Result<Self, Error> {
        let capture = Capture::parse(guest)?;
        let guest = spans(&capture, &events(&capture));
        let window = Window::new(&capture, &guest);
        let card = match (trace, &window) {
            (Some(trace), Some(window)) => card::read(trace, |time| window.has(time))?,
            _ => Card::default(),
        };
        let clock = window.map(|window| window.clock);
        Ok(build::story(&capture, clock, &guest, &card))
    }

    /// The spans below one, in the order of time.
    pub fn below(&self, parent: usize) -> impl DoubleEndedIterator<Item = (usize, &Span)> {
        let children = self.children.get(parent).map_or(&[][..], Vec::as_slice);
        children.iter().filter_map(|&index| Some((index, self.spans.get(index)?)))
    }

    /// To be called when the spans are in order and have their parents.
    fn find_children(&mut self) {
        self.children = vec![Vec::new(); self.spans.len()];
        for (index, span) in self.spans.iter().enumerate() {
            if let Some(children) = span.parent.and_then(|parent| self.children.get_mut(parent)) {
                children.push(index);
            }
        }
    }
}

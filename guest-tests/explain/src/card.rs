//! The card's trace to spans: commands and work requests, and what happened during them.

mod fields;

use std::collections::HashMap;
use std::io::Read;

use layouts::Opcode;
use probe::Point;
use trace::{TraceEvent, TraceReader};

use crate::Error;
use crate::story::{Detail, Lane};
use fields::{detail, entries, entries_of_command, important, values};

/// What the card did.
#[derive(Debug, Default)]
pub(crate) struct Card {
    /// There is a trace of it.
    pub(crate) traced: bool,
    /// By the time at which they begin.
    pub(crate) spans: Vec<Span>,
    /// Events that the trace could not keep up with.
    pub(crate) dropped: u64,
}

/// A stretch of the card's time, or an instant.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) kind: Kind,
    pub(crate) lane: Lane,
    /// During which command or work request.
    pub(crate) parent: Option<usize>,
    /// Of a doorbell: what it began.
    pub(crate) began: Option<usize>,
    /// Ns of the card's clock.
    pub(crate) start: i64,
    /// Ns of the card's clock.
    pub(crate) end: i64,
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) failed: Option<String>,
    pub(crate) detail: Option<Detail>,
    /// Translation entries that passed: addresses of pages.
    pub(crate) entries: Vec<u64>,
}

/// What it can be found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A command of this opcode.
    Command(u16),
    /// A work request of this queue pair; of a UMR, the key that it changes.
    Work(u32, Option<u32>),
    /// Anything else.
    Other,
}

/// More are not kept: a page of so many could not be looked at.
const MOST: usize = 200_000;

/// Reads a trace: those of its events whose time is `wanted`.
pub(crate) fn read(trace: impl Read, wanted: impl Fn(i64) -> bool) -> Result<Card, Error> {
    let mut builder = Builder::default();
    builder.card.traced = true;
    for entry in TraceReader::new(trace)? {
        match entry? {
            trace::Entry::Event(event) if wanted(event.time as i64) => builder.take(&event),
            trace::Entry::Event(_) => {}
            trace::Entry::Dropped { time, count } if wanted(time as i64) => {
                builder.card.dropped += count;
            }
            trace::Entry::Dropped { .. } => {}
            trace::Entry::Settings { .. } => {}
        }
    }
    Ok(builder.card)
}

#[derive(Default)]
struct Builder {
    card: Card,
    /// Commands that are not answered, by slot.
    commands: HashMap<u64, usize>,
    /// The last work request of each queue pair.
    work: HashMap<u64, usize>,
    /// The last doorbell of each queue pair, and of the command queue.
    doorbells: HashMap<Option<u64>, usize>,
    /// What the card is busy with.
    current: Option<usize>,
    /// It is a work request that has no completion yet.
    working: bool,
}

impl Builder {
    fn take(&mut self, event: &TraceEvent) {
        if self.card.spans.len() >= MOST {
            self.card.dropped += 1;
            return;
        }
        let number = |name: &str| event.number(name).unwrap_or_default();
        match event.point {
            // Registers are read for the driver's health poll all the time.
            Point::RegisterRead | Point::Mailbox => {}
            Point::Command => {
                let opcode = event.opcode().unwrap_or(Opcode(0));
                let index = self.push(event, None, Lane::Card, Kind::Command(opcode.0));
                self.edit(index, |span| {
                    span.title = Some(format!("card: {}", opcode_name(opcode)));
                    span.facts = important(event);
                    span.entries = entries_of_command(event);
                });
                self.commands.insert(number("slot"), index);
                self.begin(index, None);
            }
            Point::Reply => self.reply(event),
            Point::WorkRequest => {
                let key = event.field("mlx5_wqe_umr_ctrl_seg.flags").is_some();
                let key = key.then(|| event.field("imm").unwrap_or_default() as u32);
                let kind = Kind::Work(number("qpn") as u32, key);
                let index = self.push(event, None, Lane::Card, kind);
                self.edit(index, |span| {
                    span.title = Some(work_title(event));
                    span.facts = important(event);
                });
                self.work.insert(number("qpn"), index);
                self.begin(index, event.number("qpn"));
            }
            Point::Completion => {
                self.working = false;
                let parent = self.work.get(&number("qpn")).copied();
                let index = self.push(event, parent, Lane::Card, Kind::Other);
                let failed = completion_error(event);
                self.edit(index, |span| {
                    span.title = Some("card: completion".to_owned());
                    span.failed = failed.clone();
                });
                if let Some(parent) = parent {
                    self.edit(parent, |span| {
                        span.end = event.time as i64;
                        span.failed = failed;
                    });
                }
            }
            _ => self.other(event),
        }
    }

    /// A command or work request begins; a doorbell said so.
    fn begin(&mut self, index: usize, queue: Option<u64>) {
        self.current = Some(index);
        self.working = queue.is_some();
        if let Some(doorbell) = self.doorbells.remove(&queue) {
            self.edit(doorbell, |span| span.began = Some(index));
        }
    }

    fn reply(&mut self, event: &TraceEvent) {
        let parent = self.commands.remove(&event.number("slot").unwrap_or_default());
        let index = self.push(event, parent, Lane::Card, Kind::Other);
        let status = event.field("status").unwrap_or_default();
        let syndrome = event.field("syndrome").unwrap_or_default();
        let delivered = event.number("delivery").unwrap_or_default();
        let failed = if status != 0 {
            let name = layouts::Status(status as u8).name().unwrap_or("unknown");
            Some(format!("status {name} ({status:#x}), syndrome {syndrome:#x}"))
        } else if delivered != 0 {
            Some(format!("delivery status {}", event.value_name("delivery").unwrap_or("unknown")))
        } else {
            None
        };
        self.edit(index, |span| {
            span.title = Some("card: answer".to_owned());
            span.facts = important(event);
            span.failed = failed.clone();
        });
        if let Some(parent) = parent {
            self.edit(parent, |span| {
                span.end = event.time as i64;
                span.failed = failed;
            });
        }
    }

    fn other(&mut self, event: &TraceEvent) {
        // A queue's entry is written in two steps: its body, and the byte that says whose it is.
        let is_entry = matches!(event.number("len"), Some(63 | 1));
        let (lane, title) = match event.point {
            // Those of completion and event queues only allow another interrupt.
            Point::Doorbell if ["cqn", "eqn"].iter().any(|n| event.number(n).is_some()) => {
                (Lane::Bus, None)
            }
            Point::Doorbell => (Lane::Bus, Some("bus: doorbell")),
            Point::Interrupt => (Lane::Bus, Some("bus: interrupt")),
            Point::DmaRead if self.working => (Lane::Bus, Some("bus: the card reads memory")),
            Point::DmaWrite if self.working && !is_entry => {
                (Lane::Bus, Some("bus: the card writes memory"))
            }
            Point::DmaCopy => (Lane::Bus, Some("bus: the card copies memory")),
            Point::DmaRead | Point::DmaWrite | Point::DmaExchange | Point::RegisterWrite => {
                (Lane::Bus, None)
            }
            Point::Create => (Lane::Card, Some("card: made")),
            Point::Modify => (Lane::Card, Some("card: changed")),
            Point::Destroy => (Lane::Card, Some("card: destroyed")),
            Point::Translation => (Lane::Card, Some("card: what the key reaches")),
            Point::PacketSent => (Lane::Card, Some("card: packet sent")),
            Point::PacketReceived => (Lane::Card, Some("card: packet received")),
            _ => (Lane::Card, None),
        };
        // A doorbell and a register write begin something: they are part of nothing.
        let parent = match event.point {
            Point::Doorbell | Point::RegisterWrite => None,
            _ => self.current,
        };
        let index = self.push(event, parent, lane, Kind::Other);
        if event.point == Point::Doorbell {
            self.doorbells.insert(event.number("qpn"), index);
        }
        let refused = event.word("refused").map(|why| format!("refused: {why}"));
        self.edit(index, |span| {
            span.title = title.map(str::to_owned);
            span.failed = refused;
            if event.point == Point::DmaRead {
                span.entries = entries(&event.bytes);
            }
        });
    }

    fn push(&mut self, event: &TraceEvent, parent: Option<usize>, lane: Lane, kind: Kind) -> usize {
        let time = event.time as i64;
        self.card.spans.push(Span {
            kind,
            lane,
            parent,
            began: None,
            start: time,
            end: time,
            name: event.structure.as_deref().unwrap_or(event.point.name()).to_owned(),
            title: None,
            facts: values(event),
            failed: None,
            detail: detail(event),
            entries: Vec::new(),
        });
        self.card.spans.len() - 1
    }

    fn edit(&mut self, index: usize, edit: impl FnOnce(&mut Span)) {
        if let Some(span) = self.card.spans.get_mut(index) {
            edit(span);
        }
    }
}

pub(crate) fn opcode_name(opcode: Opcode) -> String {
    opcode.name().map_or_else(|| format!("command {:#x}", opcode.0), str::to_owned)
}

fn work_title(event: &TraceEvent) -> String {
    let named = event.fields().into_iter().find(|field| field.path.is("opcode"));
    let name = named.and_then(|field| field.name);
    format!("card: work request {}", name.unwrap_or("of an unknown kind"))
}

fn completion_error(event: &TraceEvent) -> Option<String> {
    (event.structure.as_deref() == Some("mlx5_err_cqe")).then(|| {
        let syndrome = event.field("syndrome").unwrap_or_default();
        format!("completion with error, syndrome {syndrome:#x}")
    })
}

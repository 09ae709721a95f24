//! Records to events, of all processors in the order of time.

use std::collections::BTreeMap;

use crate::capture::Capture;
use crate::format::{Format, Value};
use crate::ring;

/// Values by name.
pub(crate) type Values = BTreeMap<String, Value>;

/// One thing that the guest's kernel noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// Ns of the guest's monotonic clock.
    pub(crate) time: i64,
    /// Where it was.
    pub(crate) place: Place,
    /// The processor.
    pub(crate) cpu: usize,
    /// What it was.
    pub(crate) what: What,
}

/// What ran: on each of these, functions nest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A thread.
    Task(i32),
    /// An interrupt handler, of a processor.
    Interrupt(usize),
    /// What the kernel does right after interrupts, of a processor.
    SoftInterrupt(usize),
}

/// What was noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// A function of the graph began.
    Enter(String),
    /// It returned.
    Leave(String),
    /// A function's arguments; of the library, its beginning as well.
    Begin(String, Values),
    /// A function's result; of the library, its end as well.
    End(String, Values),
    /// A system call began.
    SystemCall(i64, Vec<u64>),
    /// It returned.
    SystemReturn(i64),
    /// A device's interrupt handler was called, by this name.
    Handler(String),
    /// It returned.
    HandlerEnd,
    /// The processor turned to another thread.
    Switch {
        /// The one before waits for something; otherwise it had to make room.
        sleeps: bool,
        /// The thread that runs now.
        next: i32,
        /// Its name.
        name: String,
    },
    /// A thread made another.
    Fork(i32),
}

/// What the probes of results are called.
const RESULT: &str = "__ret";
/// Flags of every record: it is of an interrupt handler, or of what follows one.
const HARD: i64 = 0x08;
const SOFT: i64 = 0x10;

/// Bytes of an `endbr64`, and of what a compiler may put before it.
const LANDING_PAD: u64 = 16;

/// Whether a probe is one of the verbs library.
pub(crate) fn library(name: &str) -> bool {
    name.starts_with("ibv_")
}

/// A function's name without what the compiler added: `.isra.0`, `.part.0`.
fn plain(name: &str) -> String {
    name.split('.').next().unwrap_or(name).to_owned()
}

/// All events of a capture.
pub(crate) fn events(capture: &Capture) -> Vec<Event> {
    let mut events = Vec::new();
    for (cpu, pages) in capture.records.iter().enumerate() {
        ring::records(pages, |time, record| {
            events.extend(event(capture, cpu, time as i64, record));
        });
    }
    // Stable: what one processor noted at the same time stays in order.
    events.sort_by_key(|event| event.time);
    events
}

fn event(capture: &Capture, cpu: usize, time: i64, record: &[u8]) -> Option<Event> {
    let kind = u16::from_le_bytes(*record.first_chunk()?);
    let format = capture.formats.get(&kind)?;
    let flags = format.number(record, "common_flags")?;
    let pid = format.number(record, "common_pid")? as i32;
    let place = match flags {
        flags if flags & HARD != 0 => Place::Interrupt(cpu),
        flags if flags & SOFT != 0 => Place::SoftInterrupt(cpu),
        _ => Place::Task(pid),
    };
    let what = what(capture, format, record)?;
    let place = match &what {
        // The handler's own event comes before the flag is set.
        What::Handler(_) | What::HandlerEnd => Place::Interrupt(cpu),
        // A probe of a program looks like an interrupt of it.
        What::Begin(name, _) | What::End(name, _) if library(name) => Place::Task(pid),
        What::Switch { .. } => Place::Task(pid),
        _ => place,
    };
    Some(Event { time, place, cpu, what })
}

fn what(capture: &Capture, format: &Format, record: &[u8]) -> Option<What> {
    let number = |name| format.number(record, name);
    let function = || {
        let address = number("func")? as u64;
        // The tracer's address is behind the function's first instruction, where there is a landing pad.
        let near = capture.symbols.range(..=address).next_back();
        let symbol = near.filter(|(start, _)| address - *start <= LANDING_PAD);
        Some(symbol.map_or_else(|| format!("{address:#x}"), |(_, symbol)| plain(&symbol.name)))
    };
    Some(match format.name.as_str() {
        "funcgraph_entry" => What::Enter(function()?),
        "funcgraph_exit" => What::Leave(function()?),
        "sys_enter" => match format.value(record, "args")? {
            Value::Numbers(list) => What::SystemCall(number("id")?, list),
            _ => return None,
        },
        "sys_exit" => What::SystemReturn(number("ret")?),
        "irq_handler_entry" => What::Handler(format.text(record, "name")?),
        "irq_handler_exit" => What::HandlerEnd,
        "sched_switch" => What::Switch {
            sleeps: number("prev_state")? != 0,
            next: number("next_pid")? as i32,
            name: format.text(record, "next_comm")?,
        },
        "sched_process_fork" => What::Fork(number("child_pid")? as i32),
        "sched_process_exit" => return None,
        name => {
            let values = format.own_values(record);
            match name.strip_suffix(RESULT) {
                Some(function) => What::End(function.to_owned(), values),
                None => What::Begin(name.to_owned(), values),
            }
        }
    })
}

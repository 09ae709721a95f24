//! The steps of a clean run, from the card's trace.

use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};
use trace::{Entry, TraceReader};

use crate::Error;
use crate::class::Class;
use crate::workload::Phase;

/// A class of steps and how many of them a clean run has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// Which.
    pub class: Class,
    /// How many.
    pub count: u64,
}

/// The classes that a trace shows, in the order of their first steps, and how many events it has.
/// `phases` says which events belong to which phase.
pub(crate) fn read(
    trace: &Path,
    phases: &[(Phase, Range<u64>)],
) -> Result<(Vec<Steps>, u64), Error> {
    let file =
        File::open(trace).map_err(|source| Error::File { path: trace.to_owned(), source })?;
    let mut reader = TraceReader::new(BufReader::new(file)).map_err(Error::Trace)?;
    let mut found: Vec<Steps> = Vec::new();
    let mut events = 0;
    while let Some(entry) = reader.next_entry().map_err(Error::Trace)? {
        let event = match entry {
            Entry::Event(event) => event,
            Entry::Dropped { count, .. } => {
                return Err(Error::Clean(format!(
                    "the trace lacks {count} events: a busy machine?"
                )));
            }
            Entry::Settings { .. } => continue,
        };
        events = event.index + 1;
        let phase = phases.iter().find(|(_, events)| events.contains(&event.index));
        let Some(class) = phase.and_then(|(phase, _)| Class::of(*phase, &event)) else { continue };
        match found.iter_mut().find(|steps| steps.class == class) {
            Some(steps) => steps.count += 1,
            None => found.push(Steps { class, count: 1 }),
        }
    }
    Ok((found, events))
}

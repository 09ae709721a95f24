//! The points at which something happens in the device, and what is noted there.
//!
//! One [`Probe`] is handed down by reference to whoever has something to note. It takes `&self`
//! everywhere, so that it can be lent to several layers of one call at once; a function runs on one
//! thread, so plain cells do. What is noted lives as long as the process: a reset of the function
//! does not touch it.
//!
//! * [`Probe::missing`]: what the guest touched and the device does not model (the burn-down list);
//! * [`Probe::mistake`]: what the guest did wrong;
//! * [`Probe::count`], [`Probe::command`]: running counters, cheap enough for every work request.
#![forbid(unsafe_code)]

mod counters;
mod notes;

use std::collections::BTreeMap;
use std::fmt::Display;

pub use counters::Counter;

use counters::Counters;
use notes::{Missing, Mistakes};

/// What is noted about one function and its guest.
#[derive(Debug, Default)]
pub struct Probe {
    missing: Missing,
    mistakes: Mistakes,
    counters: Counters,
}

impl Probe {
    /// Nothing noted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that the guest touched `id` of `kind`, called `name`, which the device does not model.
    /// The first time is logged; all are counted. The number of different ones that are told apart
    /// is bounded.
    #[cold]
    pub fn missing(&self, kind: &'static str, id: impl Into<u64>, name: impl Display) {
        self.missing.note(kind, id.into(), &name);
    }

    /// What was touched and is not modelled, and how often: `opcode 0x826 QUERY_CONG_STATISTICS` → 2.
    pub fn touched(&self) -> BTreeMap<String, u64> {
        self.missing.list()
    }

    /// Notes a mistake of the guest. `kind` names the kind of mistake; the first of each kind is
    /// logged with its `message`, all are counted.
    #[cold]
    pub fn mistake(&self, kind: &'static str, message: impl FnOnce() -> String) {
        self.mistakes.note(kind, message);
    }

    /// Kinds of mistakes that the guest made, and how often.
    pub fn mistakes(&self) -> BTreeMap<&'static str, u64> {
        self.mistakes.list()
    }

    /// Counts one.
    #[inline]
    pub fn count(&self, counter: Counter) {
        self.counters.add(counter, 1);
    }

    /// Counts `n`.
    #[inline]
    pub fn add(&self, counter: Counter, n: u64) {
        self.counters.add(counter, n);
    }

    /// The value of a counter.
    pub fn value(&self, counter: Counter) -> u64 {
        self.counters.get(counter)
    }

    /// Counts one command.
    #[inline]
    pub fn command(&self, opcode: u16) {
        self.counters.command(opcode);
    }

    /// All counters: every [`Counter`] by name, `commands`, and `command:NAME` for every opcode that
    /// was seen; `name` gives an opcode's name.
    pub fn counters<N: Display>(&self, name: impl Fn(u16) -> N) -> BTreeMap<String, u64> {
        self.counters.list(name)
    }
}

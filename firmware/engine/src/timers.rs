//! What is to be done at a time.

use std::collections::{BTreeMap, BTreeSet};

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A completion queue tells of entries that it has held back.
    CompletionEvent(u32),
    /// A queue pair in error is looked at for receives that were posted since: posting one rings no
    /// doorbell.
    LateReceives(u32),
    /// A packet of a requester counts as lost.
    Unanswered(u32),
    /// The time is over that a responder without receives asked for.
    NotReady(u32),
}

/// Timers by time; one of each kind and number at most.
#[derive(Debug, Default)]
pub struct Timers {
    by_time: BTreeSet<(u64, Timer)>,
    /// When, and a number that the one who set it wants back.
    by_timer: BTreeMap<Timer, (u64, u64)>,
}

impl Timers {
    /// Sets a timer, instead of the one of its kind and number that is set.
    pub fn set(&mut self, timer: Timer, at: u64, note: u64) {
        if let Some((old, _)) = self.by_timer.insert(timer, (at, note)) {
            self.by_time.remove(&(old, timer));
        }
        self.by_time.insert((at, timer));
    }

    /// The earliest.
    pub fn next(&self) -> Option<u64> {
        self.by_time.first().map(|&(at, _)| at)
    }

    /// Takes the earliest if it is due.
    pub fn due(&mut self, now: u64) -> Option<(Timer, u64)> {
        let &(at, timer) = self.by_time.first().filter(|(at, _)| *at <= now)?;
        self.by_time.remove(&(at, timer));
        let (_, note) = self.by_timer.remove(&timer)?;
        Some((timer, note))
    }

    /// None.
    pub fn reset(&mut self) {
        let Self { by_time, by_timer } = self;
        *by_time = BTreeSet::new();
        *by_timer = BTreeMap::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_order_of_time_and_each_once() {
        let mut timers = Timers::default();
        timers.set(Timer::CompletionEvent(1), 30, 0);
        timers.set(Timer::LateReceives(1), 20, 7);
        timers.set(Timer::CompletionEvent(1), 10, 0);
        assert_eq!(timers.next(), Some(10));
        assert_eq!(timers.due(9), None);
        assert_eq!(timers.due(25), Some((Timer::CompletionEvent(1), 0)));
        assert_eq!(timers.due(25), Some((Timer::LateReceives(1), 7)));
        assert_eq!(timers.due(u64::MAX), None);
        assert_eq!(timers.next(), None);
    }
}

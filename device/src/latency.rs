//! How long work takes: from a doorbell until the card has nothing to do any more.

use std::collections::BTreeMap;

use control::{Bucket, Latency};
use probe::{Counter, Probe};

/// How long the card was at work, since the process began.
#[derive(Debug, Default)]
pub struct Measured {
    /// When the first doorbell rang of those whose work is not done.
    since: Option<u64>,
    /// What had been counted then: commands and work requests.
    done: (u64, u64),
    commands: Histogram,
    work: Histogram,
}

impl Measured {
    /// A register is written: perhaps a doorbell.
    pub fn rung(&mut self, now: u64, probe: &Probe) {
        if self.since.is_none() {
            self.since = Some(now);
            self.done = done(probe);
        }
    }

    /// Whether it is not known yet when the work is done.
    pub fn is_running(&self) -> bool {
        self.since.is_some()
    }

    /// The card has nothing to do any more.
    pub fn finished(&mut self, now: u64, probe: &Probe) {
        let Some(since) = self.since.take() else { return };
        let (before, after) = (self.done, done(probe));
        if before.0 != after.0 {
            self.commands.add(now.saturating_sub(since));
        } else if before.1 != after.1 {
            self.work.add(now.saturating_sub(since));
        }
    }

    /// The work will never be done.
    pub fn stop(&mut self) {
        self.since = None;
    }

    /// What was counted, for the control socket.
    pub fn shown(&self) -> BTreeMap<String, Latency> {
        let all = [("commands", &self.commands), ("work", &self.work)];
        all.map(|(name, histogram)| (name.into(), histogram.shown())).into()
    }
}

/// Commands and work requests so far.
fn done(probe: &Probe) -> (u64, u64) {
    (probe.commands(), probe.value(Counter::Wqe))
}

/// Steps of an octave, as a power of two.
const LOG_STEPS: u32 = 3;
const STEPS: usize = 1 << LOG_STEPS;
/// Durations from here on are one: 2^40 ns are 18 minutes.
const OCTAVES: usize = 40;

/// Counts by duration, in steps of an eighth.
#[derive(Debug, Clone)]
struct Histogram {
    counts: Box<[u64; OCTAVES * STEPS]>,
    count: u64,
    sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; OCTAVES * STEPS]), count: 0, sum: 0 }
    }
}

impl Histogram {
    fn add(&mut self, ns: u64) {
        let last = self.counts.len() - 1;
        if let Some(count) = self.counts.get_mut(index(ns).min(last)) {
            *count += 1;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(ns);
    }

    fn shown(&self) -> Latency {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count != 0);
        let buckets = counts.map(|(at, &count)| Bucket { below: begin(at + 1), count }).collect();
        Latency { count: self.count, sum: self.sum, buckets }
    }
}

/// Where a duration is counted.
fn index(ns: u64) -> usize {
    let octave = ns.max(1).ilog2();
    if octave < LOG_STEPS {
        return ns as usize;
    }
    let step = (ns >> (octave - LOG_STEPS)) as usize & (STEPS - 1);
    (octave - LOG_STEPS + 1) as usize * STEPS + step
}

/// The shortest duration that is counted at an index.
fn begin(index: usize) -> u64 {
    match (index / STEPS).checked_sub(1) {
        None => index as u64,
        Some(octave) => ((STEPS + index % STEPS) as u64) << octave,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doorbell_is_measured_by_what_it_set_going() {
        let (mut measured, probe) = (Measured::default(), Probe::new());
        for (begin, command, work) in [(100, true, true), (200, false, true), (300, false, false)] {
            measured.rung(begin, &probe);
            measured.rung(begin + 50, &probe);
            if command {
                probe.command(0x200);
            }
            if work {
                probe.count(Counter::Wqe);
            }
            measured.finished(begin + 60, &probe);
            measured.finished(begin + 99, &probe);
        }
        measured.rung(500, &probe);
        measured.stop();
        assert!(!measured.is_running());
        let shown = measured.shown();
        for name in ["commands", "work"] {
            assert_eq!((shown[name].count, shown[name].sum), (1, 60), "{name}");
        }
    }

    #[test]
    fn durations_are_counted_near_to_what_they_are() {
        for ns in (0..10_000).chain([1 << 20, (1 << 30) + 12_345, 1 << 39]) {
            let at = index(ns);
            assert!(begin(at) <= ns && ns < begin(at + 1), "{ns}: {at}");
            assert!(begin(at + 1) - begin(at) <= (ns / STEPS as u64).max(1), "{ns}");
        }
    }

    #[test]
    fn what_is_counted_is_shown() {
        let mut histogram = Histogram::default();
        [5, 5, 1000, u64::MAX].into_iter().for_each(|ns| histogram.add(ns));
        let shown = histogram.shown();
        assert_eq!(shown.count, 4);
        assert_eq!(shown.sum, u64::MAX);
        let counts: Vec<_> = shown.buckets.iter().map(|bucket| bucket.count).collect();
        assert_eq!(counts, [2, 1, 1]);
        assert_eq!(shown.buckets[0].below, 6);
    }
}

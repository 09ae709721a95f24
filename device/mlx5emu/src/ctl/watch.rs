//! `mlx5emu ctl watch`: a screen with rates, again and again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::time::Duration;

use control::{Bucket, Client, ClientError, Latency, Metrics, Request};

/// Opcodes that are shown.
const OPCODES: usize = 12;
/// Home, and clear from there on.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Options of `ctl watch`.
#[derive(Debug, clap::Args)]
pub struct Watch {
    /// Seconds between two looks
    #[arg(long, default_value = "1", value_name = "SECONDS")]
    interval: f64,
    /// End after so many screens
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

impl Watch {
    /// Shows rates until the card is gone.
    pub fn run(&self, client: &mut Client, json: bool) -> Result<(), ClientError> {
        let interval = Duration::try_from_secs_f64(self.interval.max(0.1))
            .map_err(|error| ClientError::Which(format!("--interval: {error}")))?;
        let mut before: Metrics = client.ask(Request::Metrics {})?;
        let mut shown = 0;
        while self.count.is_none_or(|count| shown < count) {
            std::thread::sleep(interval);
            let now: Metrics = client.ask(Request::Metrics {})?;
            let rates = Rates::between(&before, &now);
            let mut out = io::stdout().lock();
            let text = match (json, out.is_terminal()) {
                (true, _) => rates.json() + "\n",
                (false, true) => format!("{CLEAR}{}", rates.text(&now)),
                (false, false) => rates.text(&now) + "\n",
            };
            match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                other => other?,
            }
            before = now;
            shown += 1;
        }
        Ok(())
    }
}

/// What happened between two looks.
#[derive(Debug, PartialEq, serde::Serialize)]
struct Rates {
    /// Seconds between them.
    seconds: f64,
    /// Counters, per second; those that stand still are left out.
    per_second: BTreeMap<String, f64>,
    /// By what was done: how often, and durations in ns.
    latencies: BTreeMap<String, Percentiles>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
struct Percentiles {
    count: u64,
    p50: u64,
    p90: u64,
    p99: u64,
    max: u64,
}

impl Rates {
    fn between(before: &Metrics, now: &Metrics) -> Self {
        let seconds = now.time.saturating_sub(before.time).max(1) as f64 / 1e9;
        let old = |name: &str| before.status.counters.get(name).copied().unwrap_or(0);
        let rates =
            now.status.counters.iter().map(|(name, value)| {
                (name.clone(), value.saturating_sub(old(name)) as f64 / seconds)
            });
        let per_second = rates.filter(|(_, rate)| *rate > 0.0).collect();
        let none = Latency::default();
        let latencies = now.latencies.iter().filter_map(|(name, latency)| {
            let before = before.latencies.get(name).unwrap_or(&none);
            Some((name.clone(), Percentiles::between(before, latency)?))
        });
        Self { seconds, per_second, latencies: latencies.collect() }
    }

    fn json(&self) -> String {
        // A type of our own without maps with keys other than strings: nothing to fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    fn text(&self, now: &Metrics) -> String {
        let status = &now.status;
        let client = if status.connected { "connected" } else { "none" };
        let of = |name: &str| self.per_second.get(name).copied().unwrap_or(0.0);
        let mut text = format!(
            "state {}   client {client}   {} keys ({} live)   {} queue pairs   {} pages\n\n",
            status.state,
            status.objects.get("mkey").unwrap_or(&0),
            status.objects.get("mkey_live").unwrap_or(&0),
            status.objects.get("qp").unwrap_or(&0),
            status.pages,
        );
        for (name, counter) in [
            ("commands", "commands"),
            ("work requests", "wqes"),
            ("UMR", "umr"),
            ("completions", "cqes"),
            ("events", "eqes"),
            ("interrupts", "interrupts"),
            ("bytes sent", "port:transmitted_bytes"),
            ("bytes received", "port:received_bytes"),
        ] {
            line(&mut text, format_args!("{name:16} {:>14}/s", amount(of(counter))));
        }
        let mut opcodes: Vec<_> = self
            .per_second
            .iter()
            .filter_map(|(name, rate)| Some((name.strip_prefix("command:")?, *rate)))
            .collect();
        opcodes.sort_by(|one, other| other.1.total_cmp(&one.1));
        if !opcodes.is_empty() {
            text.push('\n');
        }
        for (opcode, rate) in opcodes.into_iter().take(OPCODES) {
            line(&mut text, format_args!("  {opcode:28} {:>10}/s", amount(rate)));
        }
        if !self.latencies.is_empty() {
            line(
                &mut text,
                format_args!(
                    "\ndoorbell to done {:>9} {:>9} {:>9} {:>9}",
                    "p50", "p90", "p99", "max"
                ),
            );
        }
        for (name, Percentiles { p50, p90, p99, max, .. }) in &self.latencies {
            let [p50, p90, p99, max] = [p50, p90, p99, max].map(|ns| micro(*ns));
            line(&mut text, format_args!("{name:16} {p50:>9} {p90:>9} {p99:>9} {max:>9}"));
        }
        text
    }
}

impl Percentiles {
    fn between(before: &Latency, now: &Latency) -> Option<Self> {
        let old = |below| {
            before.buckets.iter().find(|bucket| bucket.below == below).map_or(0, |b| b.count)
        };
        let fresh: Vec<Bucket> = now
            .buckets
            .iter()
            .map(|bucket| Bucket {
                count: bucket.count.saturating_sub(old(bucket.below)),
                ..*bucket
            })
            .filter(|bucket| bucket.count > 0)
            .collect();
        let count = fresh.iter().map(|bucket| bucket.count).sum::<u64>();
        let at = |percent: u64| {
            let wanted = (count * percent).div_ceil(100);
            let mut seen = 0;
            let reached = fresh.iter().find(|bucket| {
                seen += bucket.count;
                seen >= wanted
            });
            reached.map(|bucket| bucket.below)
        };
        Some(Self { count, p50: at(50)?, p90: at(90)?, p99: at(99)?, max: at(100)? })
    }
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{content}");
}

fn micro(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{:.1} us", ns as f64 / 1e3),
        10_000..10_000_000 => format!("{} us", ns / 1000),
        _ => format!("{} ms", ns / 1_000_000),
    }
}

fn amount(rate: f64) -> String {
    match rate {
        1e9.. => format!("{:.2} G", rate / 1e9),
        1e6.. => format!("{:.2} M", rate / 1e6),
        1e4.. => format!("{:.1} k", rate / 1e3),
        _ => format!("{rate:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::Status;

    fn metrics(time: u64, mkeys: u64, buckets: &[(u64, u64)]) -> Metrics {
        let counters = [("commands", mkeys + 1), ("command:CREATE_MKEY", mkeys), ("umr", 7)];
        let status = Status {
            state: "ready".into(),
            connected: true,
            connections: 1,
            objects: BTreeMap::new(),
            pages: 5,
            counters: counters.map(|(name, value)| (name.to_owned(), value)).into(),
        };
        let buckets: Vec<_> =
            buckets.iter().map(|&(below, count)| Bucket { below, count }).collect();
        let count = buckets.iter().map(|bucket| bucket.count).sum();
        let latency = Latency { count, sum: 0, buckets };
        Metrics { time, status, latencies: BTreeMap::from([("commands".into(), latency)]) }
    }

    #[test]
    fn rates_are_of_what_came_since() {
        let before = metrics(1_000_000_000, 100, &[(1000, 5)]);
        let now = metrics(3_000_000_000, 120, &[(1000, 55), (2000, 45), (90_000, 5)]);
        let rates = Rates::between(&before, &now);
        let names: Vec<_> = rates.per_second.iter().map(|(name, rate)| (&**name, *rate)).collect();
        assert_eq!(names, [("command:CREATE_MKEY", 10.0), ("commands", 10.0)]);
        let expected = Percentiles { count: 100, p50: 1000, p90: 2000, p99: 90_000, max: 90_000 };
        assert_eq!(rates.latencies["commands"], expected);
        let text = rates.text(&now);
        assert!(text.contains("commands                     10/s"), "{text}");
        assert!(text.contains("CREATE_MKEY"), "{text}");
        assert!(
            text.contains("commands            1.0 us    2.0 us     90 us     90 us"),
            "{text}"
        );
        // Nothing happens: nothing is shown of it.
        let rates = Rates::between(&now, &now);
        assert!(rates.per_second.is_empty() && rates.latencies.is_empty());
    }
}

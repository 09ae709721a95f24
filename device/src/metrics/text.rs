//! Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use control::{Latency, Metrics};

/// Bounds of the histograms' buckets: from a microsecond to about a second, in ns.
const BOUNDS: std::ops::RangeInclusive<u32> = 10..=30;

/// Everything, as Prometheus reads it.
pub fn metrics(metrics: &Metrics) -> String {
    let Metrics { time, status, latencies } = metrics;
    let mut text = Text(String::new());
    text.single("uptime_seconds", "counter", "Age of the process.", *time as f64 / 1e9);
    text.single(
        "connected",
        "gauge",
        "Whether a client is connected.",
        f64::from(status.connected),
    );
    text.single(
        "connections_total",
        "counter",
        "Clients that have connected.",
        status.connections as f64,
    );
    text.single("pages", "gauge", "Pages that the guest has given.", status.pages as f64);
    text.head("state", "gauge", "The function's place in its life cycle.");
    text.line("state", &[("state", &status.state)], 1.0);
    text.head("objects", "gauge", "Objects that exist.");
    for (kind, count) in &status.objects {
        text.line("objects", &[("kind", kind)], *count as f64);
    }
    text.counters(&status.counters);
    text.head(
        "latency_seconds",
        "histogram",
        "From a doorbell until all that it set going is done.",
    );
    for (of, latency) in latencies {
        text.histogram(of, latency);
    }
    text.0
}

struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Memory takes everything: there is nothing to fail.
        let _ = writeln!(self.0, "# HELP mlx5emu_{name} {help}\n# TYPE mlx5emu_{name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "mlx5emu_{name}{labels} {value}");
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        self.line(name, &[], value);
    }

    /// Commands by opcode, then every other counter by its own name.
    fn counters(&mut self, counters: &BTreeMap<String, u64>) {
        self.head("commands_total", "counter", "Commands that came.");
        let (mut named, mut commands) = (Vec::new(), Vec::new());
        for (name, value) in counters {
            match name.split_once(':') {
                Some(("command", opcode)) => commands.push((opcode, *value)),
                _ if name == "commands" => {}
                _ => named.push((name.replace(':', "_"), *value)),
            }
        }
        for (opcode, value) in commands {
            self.line("commands_total", &[("opcode", opcode)], value as f64);
        }
        for (name, value) in named {
            let name = format!("{name}_total");
            self.single(&name, "counter", "See docs/control.md.", value as f64);
        }
    }

    fn histogram(&mut self, of: &str, latency: &Latency) {
        for bound in BOUNDS {
            let bound = 1u64 << bound;
            let below = latency.buckets.iter().filter(|bucket| bucket.below <= bound);
            let count: u64 = below.map(|bucket| bucket.count).sum();
            let le = (bound as f64 / 1e9).to_string();
            self.line("latency_seconds_bucket", &[("of", of), ("le", &le)], count as f64);
        }
        let all = latency.count as f64;
        self.line("latency_seconds_bucket", &[("of", of), ("le", "+Inf")], all);
        self.line("latency_seconds_sum", &[("of", of)], latency.sum as f64 / 1e9);
        self.line("latency_seconds_count", &[("of", of)], all);
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use control::{Bucket, Status};

    use super::*;

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let one = |name: &str, value| BTreeMap::from([(name.to_owned(), value)]);
        let status = Status {
            state: "ready".into(),
            connected: true,
            connections: 2,
            objects: one("qp", 3),
            pages: 576,
            counters: [("commands", 9), ("command:CREATE_MKEY", 5), ("port:received_bytes", 64)]
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
        };
        let buckets = vec![Bucket { below: 1024, count: 1 }, Bucket { below: 1 << 20, count: 2 }];
        let latency = Latency { count: 3, sum: 2_000_000, buckets };
        let latencies = BTreeMap::from([("commands".to_owned(), latency)]);
        let text = metrics(&Metrics { time: 1_500_000_000, status, latencies });
        for line in [
            "mlx5emu_uptime_seconds 1.5",
            "mlx5emu_connected 1",
            "mlx5emu_connections_total 2",
            "mlx5emu_pages 576",
            "mlx5emu_state{state=\"ready\"} 1",
            "mlx5emu_objects{kind=\"qp\"} 3",
            "# TYPE mlx5emu_commands_total counter",
            "mlx5emu_commands_total{opcode=\"CREATE_MKEY\"} 5",
            "mlx5emu_port_received_bytes_total 64",
            "# TYPE mlx5emu_latency_seconds histogram",
            "mlx5emu_latency_seconds_bucket{of=\"commands\",le=\"0.000001024\"} 1",
            "mlx5emu_latency_seconds_bucket{of=\"commands\",le=\"0.001048576\"} 3",
            "mlx5emu_latency_seconds_bucket{of=\"commands\",le=\"+Inf\"} 3",
            "mlx5emu_latency_seconds_sum{of=\"commands\"} 0.002",
            "mlx5emu_latency_seconds_count{of=\"commands\"} 3",
        ] {
            assert!(text.lines().any(|other| other == line), "no {line} in\n{text}");
        }
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}

//! How fast the card is beside soft-RoCE, in the same boot and taking turns.

use std::fmt::Write as _;

use crate::talk::ToolResult;
use crate::tools::{self, Tool};

/// How often each measurement is made on each device.
const TURNS: usize = 3;

/// The devices: the card's and soft-RoCE's.
const DEVICES: [&str; 2] = ["mlx5_0", "rxe0"];

/// A measurement with perftest.
#[derive(Debug)]
struct Measurement {
    name: &'static str,
    command: &'static str,
    /// Which number of perftest's row: of bandwidths the average, of latencies the typical one.
    column: usize,
    /// More is better.
    more: bool,
    /// The least ratio that is wanted, the better device's way up.
    goal: Option<f64>,
}

const fn bandwidth(name: &'static str, command: &'static str, goal: Option<f64>) -> Measurement {
    Measurement { name, command, column: 3, more: true, goal }
}

const fn latency(name: &'static str, command: &'static str) -> Measurement {
    Measurement { name, command, column: 4, more: false, goal: Some(2.0) }
}

const MEASUREMENTS: &[Measurement] = &[
    bandwidth("write, 64 KiB, MiB/s", "ib_write_bw -F -s 65536 -n 200", Some(50.0)),
    bandwidth("write, 1 MiB, MiB/s", "ib_write_bw -F -s 1048576 -n 20 -t 8", Some(50.0)),
    bandwidth("read, 64 KiB, MiB/s", "ib_read_bw -F -s 65536 -n 200", None),
    bandwidth("read, 1 MiB, MiB/s", "ib_read_bw -F -s 1048576 -n 20 -t 8", None),
    bandwidth("send, 64 KiB, MiB/s", "ib_send_bw -F -s 65536 -n 200", None),
    bandwidth("send, 1 MiB, MiB/s", "ib_send_bw -F -s 1048576 -n 20 -t 8 -r 32", None),
    latency("write, 2 bytes, µs", "ib_write_lat -F -s 2 -n 2000"),
    latency("read, 2 bytes, µs", "ib_read_lat -F -s 2 -n 2000"),
    latency("send, 2 bytes, µs", "ib_send_lat -F -s 2 -n 2000"),
];

/// What is run: each measurement on both devices, again and again.
pub fn tools(limit: u32) -> Vec<Tool> {
    let turn = |turn| {
        MEASUREMENTS.iter().flat_map(move |measurement| {
            DEVICES.map(|device| {
                let command = format!("{} -d {device}", measurement.command);
                tools::pair(&name(measurement, device, turn), &command, limit)
            })
        })
    };
    (0..TURNS).flat_map(turn).collect()
}

fn name(measurement: &Measurement, device: &str, turn: usize) -> String {
    format!("{}, {device}, turn {turn}", measurement.name)
}

/// The table for people; a measurement that failed has no number.
pub fn table(results: &[ToolResult]) -> String {
    let mut text = String::from(
        "| | mlx5, best (median) | soft-RoCE, best (median) | ratio of the medians | goal |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for measurement in MEASUREMENTS {
        let [card, other] = DEVICES.map(|device| turns(measurement, device, results));
        let ratio = median(&card)
            .zip(median(&other))
            .map(|(card, other)| if measurement.more { card / other } else { other / card });
        let (ratio, goal) = match (ratio, measurement.goal) {
            (None, _) => ("failed".to_owned(), String::new()),
            (Some(ratio), None) => (format!("{ratio:.1}"), String::new()),
            (Some(ratio), Some(goal)) if ratio < goal => {
                (format!("{ratio:.1}"), format!("{goal:.0}: **missed**"))
            }
            (Some(ratio), Some(goal)) => (format!("{ratio:.1}"), format!("{goal:.0}")),
        };
        let cells = [measurement.name, &shown(&card), &shown(&other), &ratio, &goal];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// The numbers of all turns, the best first.
fn turns(measurement: &Measurement, device: &str, results: &[ToolResult]) -> Vec<f64> {
    let turn = |turn| {
        let name = name(measurement, device, turn);
        let client = results.iter().find(|result| result.name == name)?.programs.last()?;
        (client.status == Some(0)).then(|| row(&client.output, measurement.column)).flatten()
    };
    let mut numbers: Vec<f64> = (0..TURNS).filter_map(turn).collect();
    numbers.sort_by(f64::total_cmp);
    if measurement.more {
        numbers.reverse();
    }
    numbers
}

/// A number of the row behind perftest's heading.
fn row(output: &str, column: usize) -> Option<f64> {
    let row = output.lines().skip_while(|line| !line.trim().starts_with("#bytes")).nth(1)?;
    row.split_whitespace().nth(column)?.parse().ok()
}

fn median(numbers: &[f64]) -> Option<f64> {
    numbers.get(numbers.len() / 2).copied()
}

fn shown(numbers: &[f64]) -> String {
    match (numbers.first(), median(numbers)) {
        (Some(best), Some(median)) => format!("{best:.1} ({median:.1})"),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::talk::Program;

    fn result(name: &str, row: &str) -> ToolResult {
        let output = format!("bla\n #bytes  #iterations  BW peak\n {row}\n-----\n");
        let program = Program { command: String::new(), status: Some(0), output };
        ToolResult { name: name.to_owned(), programs: vec![program], waiting: None, seconds: 1.0 }
    }

    #[test]
    fn turns_are_sorted_and_compared_with_the_goal() {
        let tools = tools(60);
        assert_eq!(tools.len(), MEASUREMENTS.len() * DEVICES.len() * TURNS);
        let results: Vec<_> = tools
            .iter()
            .enumerate()
            .map(|(at, tool)| {
                let fast = tool.name.contains("mlx5_0");
                let more = if fast { 1000 + at } else { 10 };
                let less = if fast { 20 } else { 30 };
                result(&tool.name, &format!("2 100 1 {more} {less} 7"))
            })
            .collect();
        let text = table(&results);
        assert!(
            text.contains("| write, 64 KiB, MiB/s | 1036.0 (1018.0) | 10.0 (10.0) | 101.8 | 50 |"),
            "{text}"
        );
        assert!(
            text.contains(
                "| read, 2 bytes, µs | 20.0 (20.0) | 30.0 (30.0) | 1.5 | 2: **missed** |"
            ),
            "{text}"
        );
    }

    #[test]
    fn what_failed_has_no_number() {
        let text = table(&[]);
        assert_eq!(text.matches("| - | - | failed |").count(), MEASUREMENTS.len());
    }
}

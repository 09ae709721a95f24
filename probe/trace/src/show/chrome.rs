//! What the Chrome trace format asks for, checked.

use std::collections::BTreeMap;

use serde_json::Value;

/// Checks a file; panics at what is wrong. Returns how many parts each arrow has, by its number.
pub fn check(file: &Value) -> Vec<usize> {
    let mut spans: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    let mut flows: BTreeMap<u64, Vec<(&str, f64)>> = BTreeMap::new();
    let mut named = Vec::new();
    let events = file["traceEvents"].as_array().expect("a list of events");
    let place = |event: &Value| (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
    for event in events {
        let phase = event["ph"].as_str().expect("a phase");
        assert!(event["name"].is_string(), "{event}");
        let at = place(event);
        if phase == "M" {
            named.push(at);
            continue;
        }
        assert!(named.contains(&at), "a track without a name: {event}");
        let begin = event["ts"].as_f64().expect("a time");
        match phase {
            "X" => {
                let length = event["dur"].as_f64().expect("a duration");
                assert!(length > 0.0, "{event}");
                spans.entry(at).or_default().push((begin, begin + length));
            }
            "s" | "t" | "f" => {
                flows.entry(event["id"].as_u64().unwrap()).or_default().push((phase, begin));
            }
            other => panic!("phase {other}"),
        }
    }
    for spans in spans.values_mut() {
        nested(spans);
    }
    for event in
        events.iter().filter(|event| ["s", "t", "f"].contains(&event["ph"].as_str().unwrap()))
    {
        let ts = event["ts"].as_f64().unwrap();
        let around = spans[&place(event)].iter().any(|&(begin, end)| begin <= ts && ts <= end);
        assert!(around, "an arrow that touches nothing: {event}");
    }
    for (id, parts) in &flows {
        assert_eq!(parts[0].0, "s", "arrow {id}");
        assert_eq!(parts.iter().filter(|part| part.0 == "s").count(), 1, "arrow {id}");
        let end = parts.iter().position(|part| part.0 == "f").unwrap_or(parts.len() - 1);
        assert_eq!(end, parts.len() - 1, "arrow {id} goes on behind its end");
        assert!(parts.is_sorted_by(|one, next| one.1 <= next.1), "arrow {id} goes back in time");
    }
    assert!(flows.keys().copied().eq(1..=flows.len() as u64), "arrows are numbered");
    flows.values().map(Vec::len).collect()
}

/// Spans of one track lie behind or in each other.
fn nested(spans: &mut [(f64, f64)]) {
    spans.sort_by(|one, other| one.0.total_cmp(&other.0).then(other.1.total_cmp(&one.1)));
    let mut around: Vec<f64> = Vec::new();
    for &mut (begin, end) in spans {
        // Times are a thousandth of what the format counts in.
        while around.last().is_some_and(|&outer| outer <= begin + 0.0001) {
            around.pop();
        }
        let outer = around.last().copied().unwrap_or(f64::INFINITY);
        assert!(end <= outer + 0.0001, "{begin} to {end} goes beyond {outer}");
        around.push(end);
    }
}

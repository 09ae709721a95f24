//! Answers for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use control::{
    Access, FaultState, Faults, Missing, Mkey, MkeyPage, Node, Released, Status, TraceStatus,
    Translation,
};

pub fn status(status: &Status) -> String {
    let client = if status.connected { "connected" } else { "none" };
    let mut text = format!(
        "state    {}\nclient   {client} ({} so far)\npages    {}\n",
        status.state, status.connections, status.pages
    );
    table(&mut text, "objects", &status.objects);
    table(&mut text, "counters", &status.counters);
    text
}

pub fn missing(missing: &Missing) -> String {
    if missing.touched.is_empty() {
        return "nothing\n".into();
    }
    let mut text = String::new();
    for (what, times) in &missing.touched {
        line(&mut text, format_args!("{times:>8} x {what}"));
    }
    text
}

pub fn node(node: &Node) -> String {
    let mut text = String::new();
    branch(&mut text, node, 0);
    text
}

/// A node with what is in it. Values stand in the line of a node without children, and below one that
/// has some.
fn branch(text: &mut String, node: &Node, depth: usize) {
    let indent = depth * 2;
    let value = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => "-".into(),
        other => other.to_string(),
    };
    if node.children.is_empty() && depth > 1 && node.values.len() <= 8 {
        let mut line_text = format!("{:indent$}{}", "", node.name);
        for (name, of) in &node.values {
            line_text.push_str(&format!("  {name}={}", value(of)));
        }
        return line(text, format_args!("{line_text}"));
    }
    line(text, format_args!("{:indent$}{}", "", node.name));
    let width = node.values.keys().map(String::len).max().unwrap_or(0);
    for (name, of) in &node.values {
        line(text, format_args!("{:indent$}  {name:width$}  {}", "", value(of)));
    }
    for child in &node.children {
        branch(text, child, depth + 1);
    }
    if node.more > 0 {
        line(text, format_args!("{:indent$}  … {} more", "", node.more));
    }
}

pub fn trace(trace: &TraceStatus) -> String {
    let TraceStatus { file, level, filter, events, dropped } = trace;
    let filter = filter.as_deref().unwrap_or("none");
    format!(
        "file     {file}\nlevel    {level}\nfilter   {filter}\nevents   {events}\ndropped  {dropped}\n"
    )
}

fn table(text: &mut String, title: &str, rows: &BTreeMap<String, u64>) {
    line(text, format_args!("{title}"));
    let width = rows.keys().map(String::len).max().unwrap_or(0);
    for (name, value) in rows {
        line(text, format_args!("  {name:width$}  {value}"));
    }
}

pub fn mkey(mkey: &Mkey) -> String {
    let length = if mkey.length64 { "2^64".to_owned() } else { mkey.length.to_string() };
    let mut text = String::new();
    for (name, value) in [
        ("key", mkey.key.to_string()),
        ("free", if mkey.free { "yes" } else { "no" }.into()),
        ("mode", mkey.mode.clone()),
        ("pd", format!("{:#x}", mkey.pd)),
        ("start", mkey.start.to_string()),
        ("length", length),
        ("page", format!("2^{}", mkey.log_page_size)),
        ("access", rights(&mkey.access)),
        ("entries", format!("{} of {}", mkey.filled, mkey.capacity)),
    ] {
        line(&mut text, format_args!("{name:8} {value}"));
    }
    text
}

pub fn mkeys(page: &MkeyPage) -> String {
    let mut text = String::from(
        "key         mode  pd        start              length             page  entries        access\n",
    );
    for key in &page.keys {
        let free = if key.free { " (free)" } else { "" };
        line(
            &mut text,
            format_args!(
                "{:<#10x}  {:4}  {:<#8x}  {:<#17x}  {:<17}  2^{:<2}  {:<13}  {}{free}",
                key.key.0,
                key.mode,
                key.pd,
                key.start.0,
                if key.length64 { "2^64".to_owned() } else { key.length.to_string() },
                key.log_page_size,
                format!("{}/{}", key.filled, key.capacity),
                rights(&key.access),
            ),
        );
    }
    line(&mut text, format_args!("{} keys", page.keys.len()));
    text
}

pub fn translation(translation: &Translation) -> String {
    match translation {
        Translation::Refused { reason, message } => format!("refused: {reason}: {message}\n"),
        Translation::Pieces { pieces, .. } => {
            let mut text = String::new();
            for piece in pieces {
                line(&mut text, format_args!("{:<#18x} {:#x}", piece.address.0, piece.length.0));
            }
            text
        }
    }
}

pub fn faults(faults: &Faults) -> String {
    let mut text = String::new();
    for rule in &faults.rules {
        let FaultState { name, at, matched, fired, must_fire, rule: _ } = rule;
        let due = if *must_fire && *fired == 0 { ", but must" } else { "" };
        line(&mut text, format_args!("{name} ({at}): matched {matched}, fired {fired}{due}"));
    }
    line(&mut text, format_args!("{} rules", faults.rules.len()));
    text
}

pub fn released(released: &Released) -> String {
    format!("{} released\n", released.released)
}

fn rights(access: &[Access]) -> String {
    let names: Vec<&str> = access
        .iter()
        .map(|access| match access {
            Access::LocalRead => "local-read",
            Access::LocalWrite => "local-write",
            Access::RemoteRead => "remote-read",
            Access::RemoteWrite => "remote-write",
            Access::RemoteAtomic => "remote-atomic",
        })
        .collect();
    names.join(" ")
}

/// Memory takes every line: there is nothing to fail.
fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{content}");
}

//! The Chrome trace format, which Perfetto (ui.perfetto.dev) reads.
//!
//! A process a function; in it a track a command slot, queue pair, completion queue, event queue
//! and interrupt vector. Arrows lead from a doorbell over what it sets going to its completion.

mod flows;

use std::collections::HashMap;
use std::io::{self, Write};

use layouts::decode::{Content, Decoded};
use probe::Point;
use serde_json::{Map, Value, json as object};

use super::json::hex;
use super::text::headline;
use crate::log::value_name;
use crate::{Entry, TraceEvent, TraceHeader, TraceValue};

use flows::Flows;

/// Most fields of a structure that are kept.
const FIELDS: usize = 64;
/// How long something takes that has no end of its own, in ns.
const MOMENT: u64 = 1;

/// Writes a trace for Perfetto.
pub struct Perfetto<W: Write> {
    out: W,
    first: bool,
    tracks: HashMap<(u16, String), u64>,
    /// What has begun, by track: a command or a work request.
    open: HashMap<Place, Span>,
    flows: Flows,
    last: u64,
}

/// A track: process and thread of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    pid: u64,
    tid: u64,
}

/// Something with a duration.
struct Span {
    name: String,
    begin: u64,
    args: Map<String, Value>,
}

impl<W: Write> Perfetto<W> {
    /// Begins the file.
    pub fn new(mut out: W, header: &TraceHeader) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        let mut this = Self {
            out,
            first: true,
            tracks: HashMap::new(),
            open: HashMap::new(),
            flows: Flows::default(),
            last: 0,
        };
        for (n, name) in header.functions.iter().enumerate() {
            let args = object!({"name": name});
            let pid = n as u64 + 1;
            this.put(
                &object!({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": args}),
            )?;
        }
        Ok(this)
    }

    /// One entry.
    pub fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        match entry {
            Entry::Event(event) => self.event(event),
            Entry::Dropped { time, count } => {
                self.last = self.last.max(*time);
                let place = self.track(0, "trace".into())?;
                let args = object!({"count": count});
                let args = args.as_object().cloned().unwrap_or_default();
                self.moment(place, *time, "events dropped".into(), args)
            }
            Entry::Settings { .. } => Ok(()),
        }
    }

    /// Ends what is open and the file.
    pub fn finish(mut self) -> io::Result<W> {
        let mut open: Vec<_> = self.open.drain().collect();
        open.sort_by_key(|(place, span)| (span.begin, place.tid));
        for (place, span) in open {
            self.span(place, span, self.last)?;
        }
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn event(&mut self, event: &TraceEvent) -> io::Result<()> {
        let time = event.time.max(self.last);
        self.last = time;
        let fields = event.fields();
        let place = self.track(event.function, track(event))?;
        let name = headline(event, &fields).unwrap_or_else(|| event.point.name().into());
        let mut args = args(event, &fields);
        match event.point {
            Point::Command | Point::WorkRequest => {
                self.close(place, time)?;
                self.open.insert(place, Span { name, begin: time, args });
            }
            Point::Reply => match self.open.remove(&place) {
                Some(mut span) => {
                    span.args.append(&mut args);
                    span.name = name;
                    self.span(place, span, time)?;
                }
                None => self.moment(place, time, name, args)?,
            },
            _ => self.moment(place, time, name, args)?,
        }
        for flow in self.flows.event(event, place, time, &fields) {
            self.put(&flow)?;
        }
        if event.point == Point::Completion
            && let Some(qpn) = event.number("qpn").filter(|_| flows::is_send(&fields))
        {
            let place = self.track(event.function, format!("QP {qpn:#x}"))?;
            self.close(place, time)?;
        }
        Ok(())
    }

    fn close(&mut self, place: Place, time: u64) -> io::Result<()> {
        match self.open.remove(&place) {
            Some(span) => self.span(place, span, time),
            None => Ok(()),
        }
    }

    fn moment(
        &mut self,
        place: Place,
        begin: u64,
        name: String,
        args: Map<String, Value>,
    ) -> io::Result<()> {
        self.span(place, Span { name, begin, args }, begin + MOMENT)
    }

    fn span(&mut self, place: Place, span: Span, end: u64) -> io::Result<()> {
        let Span { name, begin, args } = span;
        let Place { pid, tid } = place;
        let dur = micro(end.saturating_sub(begin).max(MOMENT));
        let ts = micro(begin);
        self.put(&object!({
            "ph": "X", "name": name, "cat": "card", "pid": pid, "tid": tid, "ts": ts, "dur": dur,
            "args": args,
        }))
    }

    /// The track of this name, which is introduced when it is new.
    fn track(&mut self, function: u16, name: String) -> io::Result<Place> {
        let pid = u64::from(function) + 1;
        let new = self.tracks.len() as u64 + 1;
        let tid = *self.tracks.entry((function, name.clone())).or_insert(new);
        if tid == new {
            let args = object!({"name": name});
            self.put(
                &object!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": args}),
            )?;
        }
        Ok(Place { pid, tid })
    }

    fn put(&mut self, value: &Value) -> io::Result<()> {
        self.out.write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        serde_json::to_writer(&mut self.out, value).map_err(io::Error::from)
    }
}

/// The format counts in µs.
fn micro(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// Where an event is shown.
fn track(event: &TraceEvent) -> String {
    let numbered = |what: &str, name: &str| event.number(name).map(|n| format!("{what} {n:#x}"));
    let found = match event.point {
        Point::Command | Point::Reply | Point::Mailbox => {
            event.number("slot").map(|slot| format!("command slot {slot}"))
        }
        Point::WorkRequest | Point::Translation | Point::PacketSent | Point::PacketReceived => {
            numbered("QP", "qpn")
        }
        Point::Completion => numbered("CQ", "cqn"),
        Point::Event => numbered("EQ", "eqn"),
        Point::Interrupt => event.number("vector").map(|vector| format!("vector {vector}")),
        Point::Doorbell => Some("doorbells".into()),
        Point::DmaRead | Point::DmaWrite | Point::DmaCopy | Point::DmaExchange => {
            Some("guest memory".into())
        }
        Point::RegisterRead | Point::RegisterWrite => Some("registers".into()),
        Point::Create | Point::Modify | Point::Destroy => Some("objects".into()),
        _ => None,
    };
    found.unwrap_or_else(|| event.point.name().into())
}

fn args(event: &TraceEvent, fields: &[Decoded]) -> Map<String, Value> {
    let number = |number: u64, called: Option<&str>| match called {
        Some(called) => Value::from(called),
        None => format!("{number:#x}").into(),
    };
    let mut args = Map::new();
    for (name, value) in &event.values {
        let value = match value {
            TraceValue::Number(n) => number(*n, value_name(name, *n)),
            TraceValue::Word(word) => (&**word).into(),
        };
        args.insert(name.to_string(), value);
    }
    for field in fields.iter().filter(|field| !field.is_zero()).take(FIELDS) {
        let value = match &field.content {
            Content::Number(n) => number(*n, field.name),
            Content::Bytes(bytes) => hex(bytes).into(),
        };
        args.insert(field.path.brief(), value);
    }
    args
}

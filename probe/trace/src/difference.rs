//! The first place where a replayed card does something else than what was recorded, by the names
//! of the fields that differ.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use layouts::decode::{Content, Decoded, decode, decode_at};
use layouts::{InitialSegment, LayoutInfo};
use probe::{Hook, Point, Points, Probe, Site, Value};

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Number of the record in the file, from 0.
    pub index: u64,
    /// What was recorded.
    pub recorded: String,
    /// What the card does now.
    pub now: String,
    /// What the card was about: the structure that it wrote last.
    pub about: Option<String>,
    /// Fields that differ, a line each.
    pub fields: Vec<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, recorded, now, about, fields } = self;
        write!(f, "record {index} differs\n  recorded: {recorded}\n  now:      {now}")?;
        if let Some(about) = about {
            write!(f, "\n  about:    {about}")?;
        }
        fields.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// Structures that the card tells of before it writes them, and what leads to them.
const TOLD: Points = Points::of(&[
    Point::Command,
    Point::Reply,
    Point::Event,
    Point::WorkRequest,
    Point::Completion,
]);

/// What a card told last.
#[derive(Debug, Clone, Default)]
pub struct LastTold(Arc<Mutex<Option<Told>>>);

#[derive(Debug, Clone)]
struct Told {
    point: Point,
    layout: &'static LayoutInfo,
    bytes: Vec<u8>,
    values: Vec<(&'static str, u64)>,
}

impl Hook for LastTold {
    fn at(&self, _now: u64, site: &Site<'_>) {
        let Some(layout) = site.layout else { return };
        let number = |(name, value): &(&'static str, Value)| match value {
            Value::Number(number) => Some((*name, *number)),
            Value::Word(_) => None,
        };
        let values = site.values.iter().filter_map(number).collect();
        let told = Told { point: site.point, layout, bytes: site.bytes.to_vec(), values };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }
}

impl Told {
    fn decode(&self, bytes: &[u8]) -> Vec<Decoded> {
        let hints = |name: &str| {
            self.values.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
        };
        decode(self.layout, bytes, &hints)
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.point, self.layout.name)?;
        self.values.iter().try_for_each(|(name, number)| write!(f, " {name}={number:#x}"))
    }
}

impl LastTold {
    /// Has a card tell it what it does.
    pub fn listen(probe: &Probe) -> Self {
        let told = Self::default();
        probe.install(Box::new(told.clone()));
        probe.arm(TOLD);
        told
    }

    fn get(&self) -> Option<Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A difference in something without fields.
    pub fn differs(&self, index: u64, recorded: String, now: String) -> Difference {
        let about = self.get().map(|told| told.to_string());
        Difference { index, recorded, now, about, fields: Vec::new() }
    }

    /// The fields in which two writes of the structure that was told last differ. What is written is
    /// some part of it.
    pub fn written(&self, recorded: &[u8], now: &[u8]) -> Vec<String> {
        let Some(told) = self.get().filter(|_| !now.is_empty() && recorded.len() == now.len())
        else {
            return Vec::new();
        };
        let Some(at) = told.bytes.windows(now.len()).position(|part| part == now) else {
            return Vec::new();
        };
        let mut before = told.bytes.clone();
        if let Some(part) = before.get_mut(at..at + now.len()) {
            part.copy_from_slice(recorded);
        }
        lines(&told.decode(&before), &told.decode(&told.bytes))
    }
}

/// The registers in which two answers differ.
pub fn register_differences(offset: u64, recorded: &[u8], now: &[u8]) -> Vec<String> {
    let Some(at) = usize::try_from(offset).ok().filter(|&at| at < InitialSegment::SIZE) else {
        return Vec::new();
    };
    let fields = |bytes| decode_at(&InitialSegment::INFO, at, bytes);
    lines(&fields(recorded), &fields(now))
}

fn lines(recorded: &[Decoded], now: &[Decoded]) -> Vec<String> {
    let find = |all: &[Decoded], wanted: &Decoded| {
        all.iter().find(|field| field.path == wanted.path).map_or("nothing".into(), value)
    };
    let mut lines: Vec<String> = now
        .iter()
        .filter(|field| !recorded.contains(field))
        .map(|field| {
            let before = find(recorded, field);
            format!("{}: recorded {before}, now {}", field.path, value(field))
        })
        .collect();
    // What is only in the recording: of another part of a union, or without a name.
    let gone = recorded.iter().filter(|field| !now.iter().any(|other| other.path == field.path));
    lines.extend(
        gone.map(|field| format!("{}: recorded {}, now nothing", field.path, value(field))),
    );
    lines
}

fn value(field: &Decoded) -> String {
    match (&field.content, field.name) {
        (Content::Number(number), Some(name)) => format!("{name} ({number:#x})"),
        (Content::Number(number), None) => format!("{number:#x}"),
        (Content::Bytes(bytes), _) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layouts::{Cqe64, CqeOpcode};

    #[test]
    fn a_write_differs_by_fields() {
        let probe = Probe::new();
        let told = LastTold::listen(&probe);
        let mut entry = [0; 64];
        Cqe64(&mut entry[..]).set_opcode(CqeOpcode::REQ.0);
        Cqe64(&mut entry[..]).set_wqe_counter(5);
        let info = &Cqe64::INFO;
        probe::at!(probe, Completion, (info, &entry), cqn = 7u32);
        let mut before = entry;
        Cqe64(&mut before[..]).set_wqe_counter(4);
        Cqe64(&mut before[..]).set_opcode(CqeOpcode::REQ_ERR.0);
        assert_eq!(
            told.written(&before[32..], &entry[32..]),
            ["wqe_counter: recorded 0x4, now 0x5", "opcode: recorded REQ_ERR (0xd), now REQ (0x0)"]
        );
        // Something else is written.
        assert_eq!(told.written(&[1, 2, 3], &[4, 5, 6]), Vec::<String>::new());
        let difference = told.differs(3, "one".into(), "other".into());
        let expected = "record 3 differs\n  recorded: one\n  now:      other\n  \
                        about:    completion mlx5_cqe64 cqn=0x7";
        assert_eq!(difference.to_string(), expected);
    }

    #[test]
    fn registers_have_names() {
        let lines = register_differences(0x1fc, &[0x80, 0, 0, 0], &[0, 0, 0, 0]);
        assert_eq!(lines, ["initializing: recorded 0x1, now 0x0"]);
        assert!(register_differences(0x10000, &[1], &[2]).is_empty());
    }
}

//! One event of a trace.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use layouts::decode::{Content, Decoded, Hints, decode, decode_at};
use layouts::{
    DeliveryStatus, InitialSegment, LayoutInfo, Opcode, QpState, QpType, RegisterId, Status,
};
use probe::Point;

/// One event of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// Its number in the file, from 0. Dropped ones have none.
    pub index: u64,
    /// Ns since the trace's time 0; see [`super::Clocks`].
    pub time: u64,
    /// Which function; the header has their names.
    pub function: u16,
    /// The operating system's number of the thread.
    pub thread: u32,
    /// What happened.
    pub point: Point,
    /// Name of the structure that `bytes` hold, if they are one: `create_mkey_in`.
    pub structure: Option<Arc<str>>,
    /// The structure, or data: as much of it as was kept.
    pub bytes: Vec<u8>,
    /// How many bytes there were.
    pub length: u64,
    /// What is known beside the bytes, by name.
    pub values: Vec<(Arc<str>, TraceValue)>,
}

/// A value beside the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceValue {
    /// A number, an address or a flag.
    Number(u64),
    /// A name from a small set.
    Word(Arc<str>),
}

impl TraceEvent {
    /// The value of this name beside the bytes.
    pub fn value(&self, name: &str) -> Option<&TraceValue> {
        self.values.iter().find(|(known, _)| **known == *name).map(|(_, value)| value)
    }

    /// The number of this name beside the bytes.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            TraceValue::Number(number) => Some(*number),
            TraceValue::Word(_) => None,
        }
    }

    /// The word of this name beside the bytes.
    pub fn word(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            TraceValue::Number(_) => None,
            TraceValue::Word(word) => Some(word),
        }
    }

    /// What the value of this name beside the bytes is called: `CREATE_MKEY`, or the word itself.
    pub fn value_name(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            TraceValue::Number(number) => value_name(name, *number),
            TraceValue::Word(word) => Some(word),
        }
    }

    /// The structure's description, if this program knows it.
    pub fn layout(&self) -> Option<&'static LayoutInfo> {
        layout(self.structure.as_ref()?)
    }

    /// Every field of the structure, or every register that an access to registers reached. Nothing
    /// when the bytes are no structure that is known here.
    pub fn fields(&self) -> Vec<Decoded> {
        fields_of(self.layout(), &self.bytes, &|name| self.number(name))
    }

    /// The field of the structure that `path` names ([`layouts::decode::Path::is`]), as a number.
    pub fn field(&self, path: &str) -> Option<u64> {
        self.fields().into_iter().find(|field| field.path.is(path)).and_then(|field| {
            match field.content {
                Content::Number(number) => Some(number),
                Content::Bytes(_) => None,
            }
        })
    }

    /// The command of a command or reply.
    pub fn opcode(&self) -> Option<Opcode> {
        let number = match self.point {
            Point::Command => self.bytes.first_chunk().map(|&b| u64::from(u16::from_be_bytes(b))),
            Point::Reply => self.number("opcode"),
            _ => None,
        };
        number.map(|number| Opcode(number as u16))
    }
}

/// The fields of a structure, or of the initialization segment at the offset that is beside it.
pub(crate) fn fields_of(
    layout: Option<&'static LayoutInfo>,
    bytes: &[u8],
    hints: Hints<'_>,
) -> Vec<Decoded> {
    match (layout, hints("offset")) {
        (Some(layout), _) => decode(layout, bytes, hints),
        (None, Some(offset)) if offset < InitialSegment::SIZE as u64 => {
            decode_at(&InitialSegment::INFO, offset as usize, bytes)
        }
        _ => Vec::new(),
    }
}

/// The structure of this name.
pub(crate) fn layout(name: &str) -> Option<&'static LayoutInfo> {
    static ALL: LazyLock<HashMap<&'static str, &'static LayoutInfo>> = LazyLock::new(|| {
        let own = [&probe::Piece::INFO];
        layouts::all().into_iter().chain(own).map(|layout| (layout.name, layout)).collect()
    });
    ALL.get(name).copied()
}

/// What the number of this name beside an event's bytes is called.
pub(crate) fn value_name(name: &str, number: u64) -> Option<&'static str> {
    let byte = number as u8;
    match name {
        "opcode" => Opcode(number as u16).name(),
        "register_id" => RegisterId(number as u16).name(),
        "delivery" => DeliveryStatus(byte).name(),
        "status" => Status(byte).name(),
        "st" => QpType(byte).name(),
        "state" => QpState(byte).name(),
        _ => None,
    }
}

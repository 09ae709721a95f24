//! Sites to records.
//!
//! Names are written once, with a number that stands for them afterwards. They are found by where
//! they are in the program, so an event costs no hashing of strings.

use std::collections::HashMap;

use probe::{Site, Value};

use super::{MAX_BYTES, Settings, TraceHeader, kind, tag};
use crate::RECORD_HEAD;
use crate::writer::frame;

/// Slots of the table that is looked at first, as a power of two: many more than there are names, so
/// that few share one.
const LOG_SLOTS: u32 = 10;
const SLOTS: usize = 1 << LOG_SLOTS;

/// Most values of one event.
const MAX_VALUES: usize = 16;
/// A record's head, the fixed part of an event, and its values.
const MAX_HEAD: usize = RECORD_HEAD + 22 + MAX_VALUES * 11;

/// The beginning of an event's record, put together where that is cheap.
struct Head {
    bytes: [u8; MAX_HEAD],
    at: usize,
}

impl Head {
    #[inline(always)]
    fn new() -> Self {
        Self { bytes: [0; MAX_HEAD], at: RECORD_HEAD }
    }

    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some(to) = self.bytes.get_mut(self.at..self.at + N) {
            to.copy_from_slice(&bytes);
            self.at += N;
        }
    }

    /// A number, in as few bytes as hold it: what is short is written fast.
    #[inline(always)]
    fn number(&mut self, number: u64) {
        match number {
            0..=0xff => {
                self.put([tag::U8]);
                self.put([number as u8]);
            }
            0x100..=0xffff => {
                self.put([tag::U16]);
                self.put((number as u16).to_le_bytes());
            }
            0x1_0000..=0xffff_ffff => {
                self.put([tag::U32]);
                self.put((number as u32).to_le_bytes());
            }
            _ => {
                self.put([tag::U64]);
                self.put(number.to_le_bytes());
            }
        }
    }

    /// The record's own head: length of the body, and kind.
    fn frame(&mut self, length: u32, kind: u16) {
        let end = std::mem::replace(&mut self.at, 0);
        self.put(length.to_le_bytes());
        self.put(kind.to_le_bytes());
        self.at = end;
    }
}

/// Makes records of what happens, in a buffer that is handed over block by block. Names that a block
/// defines are known in later ones: no block may be lost.
#[derive(Debug)]
pub struct Encoder {
    records: Vec<u8>,
    slots: Box<[Slot; SLOTS]>,
    names: HashMap<&'static str, u16>,
}

/// A name by where it is.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    at: usize,
    len: usize,
    id: u16,
}

impl Default for Encoder {
    fn default() -> Self {
        Self {
            records: Vec::new(),
            slots: Box::new([Slot::default(); SLOTS]),
            names: HashMap::new(),
        }
    }
}

impl Encoder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the first record of a trace.
    pub fn header(&mut self, header: &TraceHeader) {
        self.json(kind::HEADER, None, header);
    }

    /// Appends an event.
    pub fn event(&mut self, time: u64, function: u16, thread: u32, site: &Site<'_>) {
        let structure = site.layout.map_or(0, |layout| self.id(layout.name));
        let values = site.values.get(..MAX_VALUES).unwrap_or(site.values);
        let kept = site.bytes.get(..MAX_BYTES).unwrap_or(site.bytes);
        let mut head = Head::new();
        head.put(time.to_le_bytes());
        head.put(function.to_le_bytes());
        head.put(thread.to_le_bytes());
        head.put([site.point as u8]);
        head.put(structure.to_le_bytes());
        head.put((site.bytes.len() as u32).to_le_bytes());
        head.put([values.len() as u8]);
        for (name, value) in values {
            head.put(self.id(name).to_le_bytes());
            match value {
                Value::Number(number) => head.number(*number),
                Value::Word(word) => {
                    head.put([tag::WORD]);
                    head.put(self.id(word).to_le_bytes());
                }
            }
        }
        // Names that are new have been appended by now: they come before the event that uses them.
        let length = head.at - RECORD_HEAD + kept.len();
        head.frame(length as u32, kind::EVENT);
        self.records.reserve(RECORD_HEAD + length);
        self.records.extend_from_slice(head.bytes.get(..head.at).unwrap_or_default());
        self.records.extend_from_slice(kept);
    }

    /// Appends that `count` events are missing here.
    pub fn dropped(&mut self, time: u64, count: u64) {
        let _ = frame(&mut self.records, kind::DROPPED, |body| {
            body.extend_from_slice(&time.to_le_bytes());
            body.extend_from_slice(&count.to_le_bytes());
        });
    }

    /// Appends that something else is traced from here on.
    pub fn settings(&mut self, time: u64, settings: &Settings) {
        self.json(kind::SETTINGS, Some(time), settings);
    }

    /// How many bytes wait to be taken.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether nothing waits to be taken.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Takes the records, for [`crate::Writer::records`]. `empty` is used for what comes next.
    pub fn take(&mut self, mut empty: Vec<u8>) -> Vec<u8> {
        empty.clear();
        std::mem::replace(&mut self.records, empty)
    }

    fn json(&mut self, kind: u16, time: Option<u64>, value: &impl serde::Serialize) {
        let _ = frame(&mut self.records, kind, |body| {
            body.extend(time.into_iter().flat_map(u64::to_le_bytes));
            // Our own types into memory: there is nothing to fail.
            let _ = serde_json::to_writer(body, value);
        });
    }

    /// The number of a name, which is defined if it is new.
    #[inline]
    fn id(&mut self, name: &'static str) -> u16 {
        let (at, len) = (name.as_ptr() as usize, name.len());
        let mixed = (at as u64 ^ len as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = (mixed >> (u64::BITS - LOG_SLOTS)) as usize;
        match self.slots.get(index) {
            Some(slot) if slot.at == at && slot.len == len => slot.id,
            _ => {
                let id = self.define(name);
                if let Some(slot) = self.slots.get_mut(index) {
                    *slot = Slot { at, len, id };
                }
                id
            }
        }
    }

    fn define(&mut self, name: &'static str) -> u16 {
        if let Some(&id) = self.names.get(name) {
            return id;
        }
        // 0 stands for none; a program has far fewer names than there are numbers.
        let id = self.names.len() as u16 + 1;
        self.names.insert(name, id);
        let _ = frame(&mut self.records, kind::NAME, |body| {
            body.extend_from_slice(&id.to_le_bytes());
            body.extend_from_slice(name.as_bytes());
        });
        id
    }
}

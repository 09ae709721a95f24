//! Records to events.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use probe::Point;
use thiserror::Error;

use super::{Settings, TraceEvent, TraceHeader, TraceValue, kind, tag};
use crate::{End, ReadError, Reader, Record};

/// Why a trace can't be read (on).
#[derive(Debug, Error)]
pub enum TraceError {
    /// The container.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The first record is not the header of a trace.
    #[error("no trace: {0}")]
    Header(String),
    /// A record does not hold what its kind says.
    #[error("record {0} is malformed")]
    Record(u64),
}

/// What a trace holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Something happened.
    Event(TraceEvent),
    /// So many events are missing here: the trace could not keep up.
    Dropped {
        /// Ns since the trace's time 0.
        time: u64,
        /// How many.
        count: u64,
    },
    /// From here on something else is traced.
    Settings {
        /// Ns since the trace's time 0.
        time: u64,
        /// What.
        settings: Settings,
    },
}

/// Reads a trace, entry by entry.
#[derive(Debug)]
pub struct TraceReader<R: Read> {
    reader: Reader<R>,
    header: TraceHeader,
    names: HashMap<u16, Arc<str>>,
    events: u64,
}

impl<R: Read> TraceReader<R> {
    /// Reads the header.
    pub fn new(input: R) -> Result<Self, TraceError> {
        let mut reader = Reader::new(input)?;
        let header = match reader.next_record()? {
            None => Err("the file is empty".into()),
            Some(Record { kind: kind::HEADER, body, .. }) => {
                serde_json::from_slice(body).map_err(|error| error.to_string())
            }
            Some(Record { kind: 1, .. }) => Err("it is a recording, for mlx5emu replay".into()),
            Some(Record { kind, .. }) => Err(format!("it begins with a record of kind {kind:#x}")),
        };
        let header = header.map_err(TraceError::Header)?;
        Ok(Self { reader, header, names: HashMap::new(), events: 0 })
    }

    /// Who wrote it and when.
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// The next entry, or none at the end. Records of kinds, and events of points, that are not known
    /// here are skipped.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, TraceError> {
        while let Some(record) = self.reader.next_record()? {
            let index = record.index;
            let entry = match record.kind {
                kind::NAME => {
                    define(&mut self.names, record.body).ok_or(TraceError::Record(index))?;
                    continue;
                }
                kind::EVENT => {
                    let event = Body(record.body).event(&self.names, self.events);
                    let Some(event) = event.ok_or(TraceError::Record(index))? else { continue };
                    Some(Entry::Event(event))
                }
                kind::DROPPED => Body(record.body).dropped(),
                kind::SETTINGS => Body(record.body).settings(),
                _ => continue,
            };
            let entry = entry.ok_or(TraceError::Record(index))?;
            if matches!(entry, Entry::Event(_)) {
                self.events += 1;
            }
            return Ok(Some(entry));
        }
        Ok(None)
    }

    /// How the file ended, once [`TraceReader::next_entry`] said that there is no more.
    pub fn end(&self) -> Option<End> {
        self.reader.end()
    }
}

impl<R: Read> Iterator for TraceReader<R> {
    type Item = Result<Entry, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_entry().transpose()
    }
}

fn define(names: &mut HashMap<u16, Arc<str>>, body: &[u8]) -> Option<()> {
    let mut body = Body(body);
    let id = body.u16()?;
    names.insert(id, std::str::from_utf8(body.0).ok()?.into());
    Some(())
}

/// What is left of a record's body.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    /// Outer `None` when the body is malformed, inner when the point is of a newer program.
    fn event(mut self, names: &HashMap<u16, Arc<str>>, index: u64) -> Option<Option<TraceEvent>> {
        let (time, function, thread) = (self.u64()?, self.u16()?, self.u32()?);
        let point = Point::from_number(self.u8()?);
        let structure = match self.u16()? {
            0 => None,
            id => Some(names.get(&id)?.clone()),
        };
        let length = self.u32()?.into();
        let count = self.u8()?;
        let mut values = Vec::with_capacity(count.into());
        for _ in 0..count {
            let name = names.get(&self.u16()?)?.clone();
            let value = match self.u8()? {
                tag::U8 => TraceValue::Number(self.u8()?.into()),
                tag::U16 => TraceValue::Number(self.u16()?.into()),
                tag::U32 => TraceValue::Number(self.u32()?.into()),
                tag::U64 => TraceValue::Number(self.u64()?),
                tag::WORD => TraceValue::Word(names.get(&self.u16()?)?.clone()),
                _ => return None,
            };
            values.push((name, value));
        }
        let bytes = self.0.to_vec();
        Some(point.map(|point| TraceEvent {
            index,
            time,
            function,
            thread,
            point,
            structure,
            bytes,
            length,
            values,
        }))
    }

    fn dropped(mut self) -> Option<Entry> {
        Some(Entry::Dropped { time: self.u64()?, count: self.u64()? })
    }

    fn settings(mut self) -> Option<Entry> {
        let time = self.u64()?;
        Some(Entry::Settings { time, settings: serde_json::from_slice(self.0).ok()? })
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

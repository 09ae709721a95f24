//! A trace cut to the time of the command: a card is traced from its first register on.

use std::io::{Read, Write};

use trace::{Reader, Writer};

use crate::story::window;
use crate::{Error, capture::Capture};

/// Number of the records that hold an event; `docs/trace.md` has them all.
const EVENT: u16 = 0x42;

/// Copies a trace without the events of before and after what the guest traced.
pub fn trim(guest: &[u8], trace: impl Read, to: impl Write) -> Result<(), Error> {
    let window = window(&Capture::parse(guest)?);
    let wanted = |body: &[u8]| {
        let time = body.first_chunk().map_or(0, |time| u64::from_le_bytes(*time));
        window.as_ref().is_some_and(|window| window.has(time as i64))
    };
    let mut reader = Reader::new(trace).map_err(trace::TraceError::from)?;
    let mut writer = Writer::new(to)?;
    while let Some(record) = reader.next_record().map_err(trace::TraceError::from)? {
        if record.kind != EVENT || wanted(record.body) {
            // It was in such a file: it is not too long for another.
            let copied = writer.record(record.kind, |body| body.extend_from_slice(record.body));
            copied.map_err(std::io::Error::other)?;
        }
    }
    writer.flush()?;
    Ok(())
}

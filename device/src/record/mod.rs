//! Recording: everything that goes into a card and comes out of it, so that it can be played again.

mod bus;
mod replay;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use control::{Refusal, Request, SlotChange};
use dma::Bus;
use function::{Config, Function, Unfired, Wake};
use probe::Probe;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trace::{Event, Next, WriteError, Writer};

use bus::RecordingBus;
pub use replay::{Outcome, ReplayError, replay};
pub use trace::Difference;

/// A card, and what is noted about it. Without a recorder a call costs one branch more, guest memory and
/// interrupts nothing.
pub struct Card {
    function: Function,
    recorder: Option<Recorder>,
}

impl Card {
    /// A new card that is recorded to `recorder`.
    pub fn new(config: &Config, recorder: Option<Recorder>) -> Self {
        Self { function: Function::new(config), recorder }
    }

    /// See [`Function::probe`].
    pub fn probe(&self) -> &Probe {
        self.function.probe()
    }

    /// See [`Function::bar_read`].
    pub fn bar_read(&mut self, now: u64, offset: u64, data: &mut [u8]) {
        self.function.bar_read(now, offset, data);
        if let Some(recorder) = &self.recorder {
            recorder.note(Event::BarRead { now, offset, data });
        }
    }

    /// See [`Function::bar_write`].
    pub fn bar_write(&mut self, now: u64, bus: &dyn Bus, offset: u64, data: &[u8]) {
        let Some(recorder) = &self.recorder else {
            return self.function.bar_write(now, bus, offset, data);
        };
        recorder.note(Event::BarWrite { now, offset, data });
        self.function.bar_write(now, &RecordingBus { bus, recorder }, offset, data);
    }

    /// See [`Function::poll`].
    pub fn poll(&mut self, now: u64, bus: &dyn Bus) -> Wake {
        let Some(recorder) = &self.recorder else {
            return self.function.poll(now, bus);
        };
        recorder.note(Event::Poll { now });
        let wake = self.function.poll(now, &RecordingBus { bus, recorder });
        recorder.note(Event::Polled(next(wake)));
        wake
    }

    /// See [`Function::reset`].
    pub fn reset(&mut self) {
        if let Some(recorder) = &self.recorder {
            recorder.note(Event::Reset);
        }
        self.function.reset();
    }

    /// See [`Function::connected`].
    pub fn connected(&mut self, now: u64) {
        if let Some(recorder) = &self.recorder {
            recorder.note(Event::Connected { now });
        }
        self.function.connected(now);
    }

    /// See [`Function::is_off_bus`].
    pub fn is_off_bus(&self) -> bool {
        self.function.is_off_bus()
    }

    /// See [`Function::slot_change`].
    pub fn slot_change(&mut self) -> Option<SlotChange> {
        self.function.slot_change()
    }

    /// See [`Function::control`].
    pub fn control(&mut self, bus: &dyn Bus, request: &Request) -> Result<Value, Refusal> {
        let Some(recorder) = &self.recorder else {
            return self.function.control(bus, request);
        };
        recorder.note(Event::Control(&json(request)));
        let answer = self.function.control(&RecordingBus { bus, recorder }, request);
        let (ok, json) = answer_text(&answer);
        recorder.note(Event::Answered { ok, json: &json });
        answer
    }

    /// See [`Function::unfired`].
    pub fn unfired(&self) -> BTreeMap<String, Unfired> {
        self.function.unfired()
    }

    /// Hands to the file what was noted, and tells whether everything could be written so far.
    pub fn flush(&self) -> Result<(), WriteError> {
        self.recorder.as_ref().map_or(Ok(()), Recorder::flush)
    }
}

/// First record of a recording.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// Name and version of the program that wrote it.
    program: String,
    /// What the card was like.
    config: Config,
}

/// Name and version of this program.
pub(crate) const PROGRAM: &str = concat!("mlx5emu ", env!("CARGO_PKG_VERSION"));

/// Writes a recording. An error is kept until [`Card::flush`] asks.
pub struct Recorder {
    writer: RefCell<Writer<File>>,
    error: Cell<Option<WriteError>>,
}

impl Recorder {
    /// Creates `path` for its owner alone. It must not exist.
    pub fn create(path: &Path, config: &Config) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt as _;

        let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        let recorder = Self { writer: RefCell::new(Writer::new(file)?), error: Cell::new(None) };
        let header = Header { program: PROGRAM.into(), config: config.clone() };
        recorder.note(Event::Header(&json(&header)));
        recorder.flush().map_err(io::Error::other)?;
        Ok(recorder)
    }

    fn note(&self, event: Event<'_>) {
        let result = self.writer.borrow_mut().record(event.kind(), |body| event.encode(body));
        if let Err(error) = result {
            self.error.set(Some(error));
        }
    }

    fn flush(&self) -> Result<(), WriteError> {
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(self.writer.borrow_mut().flush()?),
        }
    }
}

fn next(wake: Wake) -> Next {
    match wake {
        Wake::Now => Next::Now,
        Wake::At(at) => Next::At(at),
        Wake::Idle => Next::Idle,
    }
}

/// Our own types have no maps with keys other than strings and no serializer that fails.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn answer_text(answer: &Result<Value, Refusal>) -> (bool, String) {
    match answer {
        Ok(reply) => (true, json(reply)),
        Err(refusal) => (false, json(refusal)),
    }
}

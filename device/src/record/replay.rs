//! Plays a recording to a new card and compares what comes out.

use std::cell::RefCell;
use std::fmt;
use std::io::Read;

use dma::{Bus, Dma, DmaError};
use function::Function;
use thiserror::Error;
use trace::{
    Difference, End, Event, EventError, LastTold, ReadError, Reader, Record, register_differences,
};

use super::{Header, answer_text, next};

/// What came of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Every output is as recorded.
    Same {
        /// How many calls were compared.
        calls: u64,
        /// The recording was cut off, and compared as far as it goes.
        torn: bool,
    },
    /// The card behaves differently.
    Different(Difference),
}

/// Why a recording can't be played.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The container.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// One record.
    #[error("record {index}: {error}")]
    Event {
        /// Its number in the file.
        index: u64,
        /// What is wrong with it.
        error: EventError,
    },
    /// The first record is not a header, or not one of this program.
    #[error("no usable header: {0}")]
    Header(String),
    /// A control request that this program does not know.
    #[error("record {index}: {error}")]
    Request {
        /// Its number in the file.
        index: u64,
        /// What is wrong with it.
        error: String,
    },
}

/// Plays a recording to a new card, up to the first difference.
pub fn replay(input: impl Read) -> Result<Outcome, ReplayError> {
    let mut tape = Tape::new(input)?;
    let header = tape.header()?;
    log::debug!("recorded by {}", header.program);
    let mut function = Function::new(&header.config);
    let bus = ReplayBus::new(tape, LastTold::listen(function.probe()));
    let mut calls = 0;
    loop {
        let Some(call) = bus.tape.borrow_mut().take()? else {
            break;
        };
        play(&mut function, &bus, &call)?;
        match bus.stop.take() {
            None => calls += 1,
            Some(Stop::End) => break,
            Some(Stop::Different(difference)) => return Ok(Outcome::Different(difference)),
            Some(Stop::Failed(error)) => return Err(error),
        }
    }
    let torn = matches!(bus.tape.borrow().reader.end(), Some(End::Torn(_)));
    Ok(Outcome::Same { calls, torn })
}

/// Makes one recorded call and compares its result. What the card does meanwhile is compared by the bus.
fn play<R: Read>(
    function: &mut Function,
    bus: &ReplayBus<R>,
    call: &Held,
) -> Result<(), ReplayError> {
    let index = call.index;
    match call.event()? {
        Event::BarRead { now, offset, data } => {
            let mut answer = vec![0; data.len()];
            function.bar_read(now, offset, &mut answer);
            if answer != data {
                let fields = register_differences(offset, data, &answer);
                let answer = Event::BarRead { now, offset, data: &answer };
                bus.differs(index, &call.event()?, answer.to_string(), fields);
            }
        }
        Event::BarWrite { now, offset, data } => function.bar_write(now, bus, offset, data),
        Event::Poll { now } => {
            let wake = Event::Polled(next(function.poll(now, bus)));
            bus.expect(|| wake.to_string(), |recorded| (*recorded == wake).then_some(()));
        }
        Event::Reset => function.reset(),
        Event::Connected { now } => function.connected(now),
        Event::Control(json) => {
            let request = serde_json::from_str(json)
                .map_err(|error| ReplayError::Request { index, error: error.to_string() })?;
            let (ok, json) = answer_text(&function.control(bus, &request));
            let answer = Event::Answered { ok, json: &json };
            bus.expect(|| answer.to_string(), |recorded| (*recorded == answer).then_some(()));
        }
        // Not a call, so the card did this in the call before and has not done it now.
        other => bus.differs(index, &other, "nothing more in the call before".into(), Vec::new()),
    }
    Ok(())
}

/// The recording as it runs by.
pub(super) struct Tape<R: Read> {
    reader: Reader<R>,
    held: Option<Held>,
}

/// A record that was read from the file.
pub(super) struct Held {
    index: u64,
    kind: u16,
    body: Vec<u8>,
}

impl Held {
    fn event(&self) -> Result<Event<'_>, ReplayError> {
        let Self { index, kind, ref body } = *self;
        Event::decode(Record { index, kind, body })
            .map_err(|error| ReplayError::Event { index, error })
    }
}

impl<R: Read> Tape<R> {
    pub fn new(input: R) -> Result<Self, ReplayError> {
        Ok(Self { reader: Reader::new(input)?, held: None })
    }

    /// The next record, which stays the next.
    fn peek(&mut self) -> Result<Option<&Held>, ReplayError> {
        if self.held.is_none() {
            self.held = self.reader.next_record()?.map(|Record { index, kind, body }| Held {
                index,
                kind,
                body: body.to_vec(),
            });
        }
        Ok(self.held.as_ref())
    }

    pub fn take(&mut self) -> Result<Option<Held>, ReplayError> {
        self.peek()?;
        Ok(self.held.take())
    }

    pub fn header(&mut self) -> Result<Header, ReplayError> {
        let bad = |why: &dyn fmt::Display| ReplayError::Header(why.to_string());
        let first = self.take()?.ok_or_else(|| bad(&"the file is empty"))?;
        match first.event()? {
            Event::Header(json) => serde_json::from_str(json).map_err(|error| bad(&error)),
            other => Err(bad(&format_args!("the first record is: {other}"))),
        }
    }
}

/// Answers the card's accesses with what was recorded, and compares them with it.
pub(super) struct ReplayBus<R: Read> {
    pub tape: RefCell<Tape<R>>,
    /// Why nothing more is compared.
    pub stop: RefCell<Option<Stop>>,
    told: LastTold,
}

pub(super) enum Stop {
    /// The recording ends within a call.
    End,
    Different(Difference),
    Failed(ReplayError),
}

impl<R: Read> ReplayBus<R> {
    pub fn new(tape: Tape<R>, told: LastTold) -> Self {
        Self { tape: RefCell::new(tape), stop: RefCell::new(None), told }
    }

    fn differs(&self, index: u64, recorded: &Event<'_>, now: String, fields: Vec<String>) {
        let difference = self.told.differs(index, recorded.to_string(), now);
        let difference = Difference { fields, ..difference };
        self.stop.borrow_mut().get_or_insert(Stop::Different(difference));
    }

    /// Compares the next record with what the card does. `accept` returns the recorded outcome if the card does the
    /// same; `now` says for people what it does.
    fn expect<T>(
        &self,
        now: impl FnOnce() -> String,
        accept: impl FnOnce(&Event<'_>) -> Option<T>,
    ) -> Option<T> {
        self.expect_fields(now, accept, |_| Vec::new())
    }

    /// The same; `fields` says which fields are different.
    fn expect_fields<T>(
        &self,
        now: impl FnOnce() -> String,
        accept: impl FnOnce(&Event<'_>) -> Option<T>,
        fields: impl FnOnce(&Event<'_>) -> Vec<String>,
    ) -> Option<T> {
        if self.stop.borrow().is_some() {
            return None;
        }
        let mut tape = self.tape.borrow_mut();
        let stop = match tape.peek() {
            Ok(None) => Stop::End,
            Err(error) => Stop::Failed(error),
            Ok(Some(held)) => match held.event() {
                Err(error) => Stop::Failed(error),
                Ok(event) => {
                    if let Some(outcome) = accept(&event) {
                        tape.held = None;
                        return Some(outcome);
                    }
                    let difference = self.told.differs(held.index, event.to_string(), now());
                    Stop::Different(Difference { fields: fields(&event), ..difference })
                }
            },
        };
        self.stop.borrow_mut().get_or_insert(stop);
        None
    }
}

impl<R: Read> Dma for ReplayBus<R> {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        let len = buf.len() as u64;
        self.expect(
            || format!("DMA read at {addr:#x}, {len} bytes"),
            |recorded| match *recorded {
                Event::DmaRead { addr: a, len: l, outcome } if (a, l) == (addr, len) => {
                    Some(outcome.map(|data| buf.copy_from_slice(data)))
                }
                _ => None,
            },
        )
        .unwrap_or(Err(DmaError::Gone { addr, len }))
    }

    fn write(&self, addr: u64, data: &[u8]) -> Result<(), DmaError> {
        self.expect_fields(
            || Event::DmaWrite { addr, data, outcome: Ok(()) }.to_string(),
            |recorded| match *recorded {
                Event::DmaWrite { addr: a, data: d, outcome } if (a, d) == (addr, data) => {
                    Some(outcome)
                }
                _ => None,
            },
            |recorded| match recorded {
                Event::DmaWrite { data: before, .. } => self.told.written(before, data),
                _ => Vec::new(),
            },
        )
        .unwrap_or(Err(DmaError::Gone { addr, len: data.len() as u64 }))
    }

    fn copy(&self, src: u64, dst: u64, len: u64) -> Result<(), DmaError> {
        self.expect(
            || Event::DmaCopy { src, dst, len, outcome: Ok(()) }.to_string(),
            |recorded| match *recorded {
                Event::DmaCopy { src: s, dst: d, len: l, outcome }
                    if (s, d, l) == (src, dst, len) =>
                {
                    Some(outcome)
                }
                _ => None,
            },
        )
        .unwrap_or(Err(DmaError::Gone { addr: src, len }))
    }

    fn compare_exchange(&self, addr: u64, old: [u8; 8], new: [u8; 8]) -> Result<[u8; 8], DmaError> {
        self.expect(
            || Event::CompareExchange { addr, old, new, outcome: Ok(old) }.to_string(),
            |recorded| match *recorded {
                Event::CompareExchange { addr: a, old: o, new: n, outcome }
                    if (a, o, n) == (addr, old, new) =>
                {
                    Some(outcome)
                }
                _ => None,
            },
        )
        .unwrap_or(Err(DmaError::Gone { addr, len: 8 }))
    }
}

impl<R: Read> Bus for ReplayBus<R> {
    fn interrupt(&self, vector: u16) {
        let now = Event::Interrupt(vector);
        self.expect(|| now.to_string(), |recorded| (*recorded == now).then_some(()));
    }
}

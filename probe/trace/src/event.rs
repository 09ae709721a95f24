//! The records of a recording: what came into a card and what it answered.

use std::fmt;

use dma::DmaError;
use thiserror::Error;

use crate::Record;

/// One record of a recording. A call is followed by what the card did during it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// The first record: who recorded, and the card's configuration, as JSON.
    Header(&'a str),
    /// Call: BAR0 was read; the card answered `data`.
    BarRead {
        /// The card's clock in ns.
        now: u64,
        /// In BAR0.
        offset: u64,
        /// The answer.
        data: &'a [u8],
    },
    /// Call: BAR0 was written.
    BarWrite {
        /// The card's clock in ns.
        now: u64,
        /// In BAR0.
        offset: u64,
        /// What was written.
        data: &'a [u8],
    },
    /// Call: the card was given time to work.
    Poll {
        /// The card's clock in ns.
        now: u64,
    },
    /// Call: function-level reset.
    Reset,
    /// Call: a client has connected.
    Connected {
        /// The card's clock.
        now: u64,
    },
    /// Call: a request came from the control socket, as JSON.
    Control(&'a str),
    /// The card's work ended; when it wants to go on.
    Polled(Next),
    /// The card answered a control request, with JSON of a reply or of a refusal.
    Answered {
        /// It is a reply.
        ok: bool,
        /// The reply or the refusal.
        json: &'a str,
    },
    /// The card read guest memory.
    DmaRead {
        /// First address.
        addr: u64,
        /// Length in bytes.
        len: u64,
        /// What it got.
        outcome: Result<&'a [u8], DmaError>,
    },
    /// The card wrote guest memory.
    DmaWrite {
        /// First address.
        addr: u64,
        /// What it wrote.
        data: &'a [u8],
        /// Whether it could.
        outcome: Result<(), DmaError>,
    },
    /// The card copied from guest memory to guest memory.
    DmaCopy {
        /// First address read.
        src: u64,
        /// First address written.
        dst: u64,
        /// Length in bytes.
        len: u64,
        /// Whether it could.
        outcome: Result<(), DmaError>,
    },
    /// The card compared and exchanged 8 bytes of guest memory.
    CompareExchange {
        /// Their address.
        addr: u64,
        /// What they had to be.
        old: [u8; 8],
        /// What they were to become.
        new: [u8; 8],
        /// What they were.
        outcome: Result<[u8; 8], DmaError>,
    },
    /// The card sent an interrupt.
    Interrupt(u16),
}

/// When a card wants to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// As soon as possible.
    Now,
    /// At a time of its clock, in ns.
    At(u64),
    /// When something comes in.
    Idle,
}

/// Why a record is not one of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EventError {
    /// Records of this kind have no meaning here.
    #[error("unknown kind {0}")]
    Kind(u16),
    /// Its body is too short, too long or holds a value that its kind can't have.
    #[error("malformed body of kind {0}")]
    Body(u16),
}

/// Numbers that stand in files. One is never given another meaning.
mod kind {
    pub const HEADER: u16 = 1;
    pub const BAR_READ: u16 = 0x10;
    pub const BAR_WRITE: u16 = 0x11;
    pub const POLL: u16 = 0x12;
    pub const RESET: u16 = 0x13;
    pub const CONTROL: u16 = 0x14;
    pub const CONNECTED: u16 = 0x15;
    pub const POLLED: u16 = 0x20;
    pub const ANSWERED: u16 = 0x21;
    pub const DMA_READ: u16 = 0x30;
    pub const DMA_WRITE: u16 = 0x31;
    pub const DMA_COPY: u16 = 0x32;
    pub const COMPARE_EXCHANGE: u16 = 0x33;
    pub const INTERRUPT: u16 = 0x34;
}

impl<'a> Event<'a> {
    /// The number of its kind.
    pub fn kind(&self) -> u16 {
        match self {
            Self::Header(_) => kind::HEADER,
            Self::BarRead { .. } => kind::BAR_READ,
            Self::BarWrite { .. } => kind::BAR_WRITE,
            Self::Poll { .. } => kind::POLL,
            Self::Reset => kind::RESET,
            Self::Connected { .. } => kind::CONNECTED,
            Self::Control(_) => kind::CONTROL,
            Self::Polled(_) => kind::POLLED,
            Self::Answered { .. } => kind::ANSWERED,
            Self::DmaRead { .. } => kind::DMA_READ,
            Self::DmaWrite { .. } => kind::DMA_WRITE,
            Self::DmaCopy { .. } => kind::DMA_COPY,
            Self::CompareExchange { .. } => kind::COMPARE_EXCHANGE,
            Self::Interrupt(_) => kind::INTERRUPT,
        }
    }

    /// Appends its body.
    pub fn encode(&self, to: &mut Vec<u8>) {
        match *self {
            Self::Header(json) | Self::Control(json) => to.extend_from_slice(json.as_bytes()),
            Self::BarRead { now, offset, data } | Self::BarWrite { now, offset, data } => {
                put(to, &[now, offset]);
                to.extend_from_slice(data);
            }
            Self::Poll { now } | Self::Connected { now } => put(to, &[now]),
            Self::Reset => {}
            Self::Polled(next) => {
                let (tag, at) = match next {
                    Next::Now => (0, 0),
                    Next::At(at) => (1, at),
                    Next::Idle => (2, 0),
                };
                to.push(tag);
                put(to, &[at]);
            }
            Self::Answered { ok, json } => {
                to.push(ok.into());
                to.extend_from_slice(json.as_bytes());
            }
            Self::DmaRead { addr, len, outcome } => {
                put(to, &[addr, len]);
                put_outcome(to, outcome.err());
                to.extend_from_slice(outcome.unwrap_or_default());
            }
            Self::DmaWrite { addr, data, outcome } => {
                put(to, &[addr]);
                put_outcome(to, outcome.err());
                to.extend_from_slice(data);
            }
            Self::DmaCopy { src, dst, len, outcome } => {
                put(to, &[src, dst, len]);
                put_outcome(to, outcome.err());
            }
            Self::CompareExchange { addr, old, new, outcome } => {
                put(to, &[addr]);
                to.extend_from_slice(&old);
                to.extend_from_slice(&new);
                put_outcome(to, outcome.err());
                to.extend_from_slice(&outcome.unwrap_or_default());
            }
            Self::Interrupt(vector) => to.extend_from_slice(&vector.to_le_bytes()),
        }
    }

    /// The event that a record holds.
    pub fn decode(record: Record<'a>) -> Result<Self, EventError> {
        let kind = record.kind;
        let mut body = Body(record.body);
        let event = body.event(kind).ok_or(EventError::Body(kind))?;
        let event = event.ok_or(EventError::Kind(kind))?;
        if body.0.is_empty() { Ok(event) } else { Err(EventError::Body(kind)) }
    }
}

fn put(to: &mut Vec<u8>, words: &[u64]) {
    for word in words {
        to.extend_from_slice(&word.to_le_bytes());
    }
}

/// One byte and, when the access was refused, the address and length that the refusal named.
fn put_outcome(to: &mut Vec<u8>, refused: Option<DmaError>) {
    let (tag, words) = match refused {
        None => {
            to.push(0);
            return;
        }
        Some(DmaError::Unmapped { addr, len }) => (1, [addr, len]),
        Some(DmaError::Forbidden { addr, len, write: false }) => (2, [addr, len]),
        Some(DmaError::Forbidden { addr, len, write: true }) => (3, [addr, len]),
        Some(DmaError::Gone { addr, len }) => (4, [addr, len]),
        Some(DmaError::Misaligned { addr }) => (5, [addr, 8]),
    };
    to.push(tag);
    put(to, &words);
}

/// What is left of a record's body.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    /// Takes an event apart: outer `None` when the body is malformed, inner when the kind is unknown.
    fn event(&mut self, kind: u16) -> Option<Option<Event<'a>>> {
        Some(Some(match kind {
            kind::HEADER => Event::Header(self.text()?),
            kind::BAR_READ => {
                Event::BarRead { now: self.word()?, offset: self.word()?, data: self.rest() }
            }
            kind::BAR_WRITE => {
                Event::BarWrite { now: self.word()?, offset: self.word()?, data: self.rest() }
            }
            kind::POLL => Event::Poll { now: self.word()? },
            kind::RESET => Event::Reset,
            kind::CONNECTED => Event::Connected { now: self.word()? },
            kind::CONTROL => Event::Control(self.text()?),
            kind::POLLED => Event::Polled(match (self.byte()?, self.word()?) {
                (0, 0) => Next::Now,
                (1, at) => Next::At(at),
                (2, 0) => Next::Idle,
                _ => return None,
            }),
            kind::ANSWERED => {
                let ok = match self.byte()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                Event::Answered { ok, json: self.text()? }
            }
            kind::DMA_READ => {
                let (addr, len) = (self.word()?, self.word()?);
                let outcome = match self.outcome()? {
                    Ok(()) if self.0.len() as u64 == len => Ok(self.rest()),
                    Ok(()) => return None,
                    Err(refused) => Err(refused),
                };
                Event::DmaRead { addr, len, outcome }
            }
            kind::DMA_WRITE => {
                Event::DmaWrite { addr: self.word()?, outcome: self.outcome()?, data: self.rest() }
            }
            kind::DMA_COPY => Event::DmaCopy {
                src: self.word()?,
                dst: self.word()?,
                len: self.word()?,
                outcome: self.outcome()?,
            },
            kind::COMPARE_EXCHANGE => {
                let (addr, old, new) = (self.word()?, self.bytes()?, self.bytes()?);
                let outcome = self.outcome()?;
                let was = self.bytes()?;
                Event::CompareExchange { addr, old, new, outcome: outcome.map(|()| was) }
            }
            kind::INTERRUPT => Event::Interrupt(u16::from_le_bytes(self.bytes()?)),
            _ => return Some(None),
        }))
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes().map(|[byte]| byte)
    }

    fn word(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.rest()).ok()
    }

    fn outcome(&mut self) -> Option<Result<(), DmaError>> {
        let tag = self.byte()?;
        if tag == 0 {
            return Some(Ok(()));
        }
        let (addr, len) = (self.word()?, self.word()?);
        Some(Err(match tag {
            1 => DmaError::Unmapped { addr, len },
            2 => DmaError::Forbidden { addr, len, write: false },
            3 => DmaError::Forbidden { addr, len, write: true },
            4 => DmaError::Gone { addr, len },
            5 if len == 8 => DmaError::Misaligned { addr },
            _ => return None,
        }))
    }
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Header(json) => write!(f, "header {json}"),
            Self::BarRead { offset, data, .. } => {
                write!(f, "BAR0 read at {offset:#x}: {}", Hex(data))
            }
            Self::BarWrite { offset, data, .. } => {
                write!(f, "BAR0 write at {offset:#x}: {}", Hex(data))
            }
            Self::Poll { now } => write!(f, "work at {now} ns"),
            Self::Reset => write!(f, "reset"),
            Self::Connected { .. } => write!(f, "a client has connected"),
            Self::Control(json) => write!(f, "control request {json}"),
            Self::Polled(Next::Now) => write!(f, "more work to do"),
            Self::Polled(Next::At(at)) => write!(f, "waits until {at} ns"),
            Self::Polled(Next::Idle) => write!(f, "waits for something to come in"),
            Self::Answered { ok: true, json } => write!(f, "control reply {json}"),
            Self::Answered { ok: false, json } => write!(f, "control refusal {json}"),
            Self::DmaRead { addr, len, outcome } => {
                write!(f, "DMA read at {addr:#x}, {len} bytes")?;
                match outcome {
                    Ok(data) => write!(f, ": {}", Hex(data)),
                    Err(refused) => write!(f, " (refused: {refused})"),
                }
            }
            Self::DmaWrite { addr, data, outcome } => {
                let len = data.len();
                write!(f, "DMA write at {addr:#x}, {len} bytes: {}", Hex(data))?;
                refusal(f, outcome)
            }
            Self::DmaCopy { src, dst, len, outcome } => {
                write!(f, "DMA copy from {src:#x} to {dst:#x}, {len} bytes")?;
                refusal(f, outcome)
            }
            Self::CompareExchange { addr, old, new, outcome } => {
                let (old, new) = (Hex(&old), Hex(&new));
                write!(f, "DMA compare and exchange at {addr:#x}: {old} by {new}")?;
                refusal(f, outcome.map(drop))
            }
            Self::Interrupt(vector) => write!(f, "interrupt of vector {vector}"),
        }
    }
}

fn refusal(f: &mut fmt::Formatter<'_>, outcome: Result<(), DmaError>) -> fmt::Result {
    outcome.or_else(|refused| write!(f, " (refused: {refused})"))
}

/// The beginning of some bytes, for people.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 64;
        for (i, byte) in self.0.iter().take(SHOWN).enumerate() {
            let gap = if i > 0 && i.is_multiple_of(4) { " " } else { "" };
            write!(f, "{gap}{byte:02x}")?;
        }
        if self.0.len() > SHOWN { write!(f, " …") } else { Ok(()) }
    }
}

//! What the two ends of a connected service remember: the requester, which sends requests and
//! waits for answers, and the responder, which executes them. The engine works with these; here
//! they are only kept, so that a queue pair and what it remembers come and go together.
//!
//! PSNs and message numbers have 24 bits ([`Psn`]).

use std::collections::VecDeque;

use layouts::WqeOpcode;

use crate::srq;

/// A packet sequence number (IBA 9.7.1): 24 bits, compared in a circle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Psn(u32);

impl Psn {
    const MASK: u32 = 0xff_ffff;

    /// The lower 24 bits.
    pub fn new(psn: u32) -> Self {
        Self(psn & Self::MASK)
    }

    /// Its value.
    pub fn get(self) -> u32 {
        self.0
    }

    /// The one `packets` later.
    #[must_use]
    pub fn plus(self, packets: u32) -> Self {
        Self::new(self.0.wrapping_add(packets))
    }

    /// How far it is behind (negative) or ahead of `other`.
    pub fn since(self, other: Self) -> i32 {
        // The 24 bits become the upper ones, and come back with their sign.
        ((self.0.wrapping_sub(other.0) << 8) as i32) >> 8
    }
}

/// What a work request in flight waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaits {
    /// Nothing: it was executed here, and waits for those before it.
    Nothing,
    /// An acknowledgement of its last packet.
    Ack,
    /// Data: of a read, or the old value of an atomic.
    Data,
}

/// A work request that was begun and is not completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Index of its WQE.
    pub wqe: u16,
    /// Basic blocks of its WQE.
    pub blocks: u16,
    /// What it asks for.
    pub opcode: WqeOpcode,
    /// Its success is completed too.
    pub signalled: bool,
    /// Its completion is told of as if it were solicited.
    pub solicited: bool,
    /// Bytes of its message.
    pub len: u64,
    /// Its first packet.
    pub first: Psn,
    /// How many PSNs it takes.
    pub packets: u32,
    /// How many of them were sent (of a read: asked for).
    pub sent: u32,
    /// How many of them were answered with data.
    pub answered: u32,
    /// What it waits for.
    pub awaits: Awaits,
}

impl Sent {
    /// How many packets may be sent yet before it fails. Of what asks for an answer with data, none;
    /// the last packet never is.
    pub fn before(&self, cut: &Cut) -> u32 {
        let most = if self.awaits == Awaits::Data { 0 } else { self.packets.saturating_sub(1) };
        cut.packets.min(most).saturating_sub(self.sent)
    }
}

impl Sent {
    /// The PSN of its last packet.
    pub fn last(&self) -> Psn {
        self.first.plus(self.packets.saturating_sub(1))
    }
}

/// The end that sends requests.
#[derive(Debug, Default)]
pub struct Requester {
    /// The PSN of the next packet that was never sent.
    pub next: Psn,
    /// Work requests in flight, the oldest first.
    pub in_flight: VecDeque<Sent>,
    /// Position in `in_flight` of the first that still has packets to send.
    pub sending: usize,
    /// Reads and atomics in flight.
    pub reads: u32,
    /// How often a lost packet may still be sent again.
    pub retries: u8,
    /// How often a receiver that is not ready may still be asked again.
    pub rnr_retries: u8,
    /// Nothing is sent before the receiver's time is over.
    pub rnr_wait: bool,
    /// A fault keeps the next work request back.
    pub held: bool,
    /// Where the work request is for which it was asked whether a fault hits it.
    pub asked: Option<u16>,
    /// A fault lets a work request fail in the middle.
    pub cut: Option<Cut>,
    /// The last packet that was sent again because a later one was answered before it. Until
    /// something is answered, that is not done twice.
    pub overtaken: Option<Psn>,
    /// When what is in flight counts as lost, in ns; `None`: nothing is waited for.
    pub deadline: Option<u64>,
    /// The engine's timer for `deadline`, or for an earlier one, is set.
    pub timer: bool,
}

/// A work request that a fault lets fail in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Index of its WQE.
    pub wqe: u16,
    /// Packets that are sent before.
    pub packets: u32,
    /// Syndrome of its completion.
    pub syndrome: u8,
    /// The vendor's byte beside it.
    pub vendor: u8,
}

impl Requester {
    /// As RTR2RTS leaves it.
    pub fn new(next: u32, retries: u8, rnr_retries: u8) -> Self {
        Self { next: Psn::new(next), retries, rnr_retries, ..Self::default() }
    }

    /// Something was answered: failures are counted anew, from so many retries down.
    pub fn progress(&mut self, retries: u8, rnr_retries: u8) {
        (self.retries, self.rnr_retries) = (retries, rnr_retries);
        self.deadline = None;
        self.overtaken = None;
    }

    /// The first PSN that is not acknowledged.
    pub fn unacknowledged(&self) -> Psn {
        self.in_flight.front().map_or(self.next, |sent| sent.first)
    }
}

/// A receive WQE that was taken from its queue.
#[derive(Debug, Clone)]
pub struct Receive {
    /// The WQE.
    pub bytes: [u8; Self::MAX],
    /// How many bytes it has.
    pub len: usize,
    /// Where its data segments begin.
    pub segments: usize,
    /// Protection domain of what it names.
    pub pd: Option<u32>,
    /// Completion queue.
    pub cqn: u32,
    /// What its completion names beside the queue pair.
    pub user_index: u32,
    /// Index of the WQE.
    pub wqe: u16,
}

impl Receive {
    /// The largest receive WQE in bytes.
    pub const MAX: usize = 1 << srq::LOG_MAX_STRIDE;
}

/// A message of which more packets are to come.
#[derive(Debug)]
pub enum Arriving {
    /// A send.
    Send {
        /// Where it goes.
        receive: Box<Receive>,
        /// Bytes that have arrived.
        at: u64,
    },
    /// A write.
    Write {
        /// Key that the message named.
        key: u32,
        /// Address of its first byte.
        addr: u64,
        /// Its length in bytes.
        len: u64,
        /// Bytes that have arrived.
        at: u64,
    },
}

/// Why a request was not executed (IBA 9.7.5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nak {
    /// Packets before it are missing.
    Sequence,
    /// It can't be executed by this responder.
    InvalidRequest,
    /// Its key does not permit it.
    RemoteAccess,
    /// The responder failed.
    RemoteOperation,
    /// No receive is posted; the code of the time to wait.
    NotReady(u8),
}

impl Nak {
    /// Whether the connection ends with it.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Sequence | Self::NotReady(_))
    }
}

/// What a responder still has to send, in the order of PSNs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// All packets up to this one were executed.
    Ack(Psn),
    /// The packet with this PSN was not.
    Nak(Psn, Nak),
    /// What memory held before an atomic operation.
    Atomic(Psn, u64),
    /// What a read asks for.
    Read(Read),
}

/// A read that is being answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// PSN of the next packet.
    pub psn: Psn,
    /// Key of what is read.
    pub key: u32,
    /// Protection domain that the request is judged by.
    pub pd: Option<u32>,
    /// Address of what is still to be sent.
    pub addr: u64,
    /// Bytes that are still to be sent.
    pub left: u64,
}

/// The end that executes requests.
#[derive(Debug, Default)]
pub struct Responder {
    /// The PSN that is expected next.
    pub expected: Psn,
    /// Messages that were executed, 24 bits.
    pub msn: u32,
    /// A message of which more packets are to come.
    pub arriving: Option<Arriving>,
    /// The receive of an unreliable message that was cut off: the next message's.
    pub spare: Option<Box<Receive>>,
    /// The requester was told of a gap, and has not closed it yet.
    pub gap_told: bool,
    /// What is still to be sent, the oldest first.
    pub answers: VecDeque<Answer>,
    /// Atomic operations that were executed and what memory held before, the oldest first: a
    /// duplicate is answered from here.
    pub atomics: VecDeque<(Psn, u64)>,
    /// A request can't be executed, ever. Nothing is after it but its answer.
    pub refused: bool,
    /// The driver knows that the connection is established.
    pub established: bool,
}

impl Responder {
    /// As INIT2RTR leaves it.
    pub fn new(expected: u32) -> Self {
        Self { expected: Psn::new(expected), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psns_are_compared_in_a_circle() {
        let last = Psn::new(0xff_ffff);
        assert_eq!(last.plus(1), Psn::new(0));
        assert_eq!(Psn::new(3).since(last), 4);
        assert_eq!(last.since(Psn::new(3)), -4);
        assert_eq!(Psn::new(0x80_0000).since(Psn::new(0)), -0x80_0000);
    }
}

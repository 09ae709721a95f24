//! Packets of connected services, as the InfiniBand architecture (IBA 9) has them: what a burst of
//! them says, without its payload.
//!
//! A burst is a run of packets of one message with PSNs that follow one another. It is what a
//! network would carry as so many packets, in one piece: most often a whole message. While
//! something can happen to single packets ([`crate::wire`]), every burst has one.

use firmware::qp::Service;
use firmware::qp::connection::{Nak, Psn};

/// What precedes the payload of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Local identifiers of the port that sends it and of the one that it is for.
    pub src_lid: u16,
    /// The one that it is for.
    pub dest_lid: u16,
    /// Partition.
    pub pkey: u16,
    /// Which of the connected services.
    pub transport: Transport,
    /// The queue pair that it is for.
    pub dest_qpn: u32,
    /// PSN of the first packet.
    pub psn: Psn,
    /// How many packets it has.
    pub packets: u32,
    /// What it is.
    pub kind: Kind,
}

/// Services that have PSNs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Extended reliable connection. Requests name a shared receive queue.
    Xrc {
        /// The queue; 0 in answers.
        srqn: u32,
    },
}

impl Transport {
    /// Whether a queue pair of this service takes such packets.
    pub fn is_of(self, service: Service) -> bool {
        matches!(
            (service, self),
            (Service::Rc, Self::Rc) | (Service::Uc, Self::Uc) | (Service::Xrc, Self::Xrc { .. })
        )
    }
}

impl Transport {
    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rc => "RC",
            Self::Uc => "UC",
            Self::Xrc { .. } => "XRC",
        }
    }
}

/// What a burst is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of a send.
    Send(Part),
    /// Of a write; the first packet says where it goes.
    Write(Part, Option<Reth>),
    /// Asks for data.
    Read(Reth),
    /// Asks for an atomic operation.
    Atomic(Operation),
    /// All packets up to this one were executed.
    Ack,
    /// The packet with this PSN was not executed.
    Nak(Nak),
    /// Data of a read.
    ReadData,
    /// What memory held before an atomic operation.
    AtomicData(u64),
}

impl Kind {
    /// Whether a responder sends it.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Ack | Self::Nak(_) | Self::ReadData | Self::AtomicData(_))
    }

    /// Name for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Send(_) => "SEND",
            Self::Write(..) => "RDMA WRITE",
            Self::Read(_) => "RDMA READ request",
            Self::Atomic(_) => "ATOMIC request",
            Self::Ack => "ACK",
            Self::Nak(Nak::NotReady(_)) => "RNR NAK",
            Self::Nak(_) => "NAK",
            Self::ReadData => "RDMA READ response",
            Self::AtomicData(_) => "ATOMIC acknowledge",
        }
    }
}

/// Bytes of the headers that every packet has, and of its check sum: local route header, base
/// transport header, invariant CRC.
const COMMON: u64 = 8 + 12 + 4;

impl Header {
    /// Bytes that the burst takes on the wire beside its payload, as port counters count them.
    pub fn overhead(&self) -> u64 {
        let of_each = COMMON + if matches!(self.transport, Transport::Xrc { .. }) { 4 } else { 0 };
        let tail = |part: &Part| if part.tail == Tail::None { 0 } else { 4 };
        let of_one = match &self.kind {
            Kind::Send(part) => tail(part),
            Kind::Write(part, reth) => tail(part) + reth.map_or(0, |_| 16),
            Kind::Read(_) => 16,
            Kind::Atomic(_) => 28,
            Kind::Ack | Kind::Nak(_) | Kind::ReadData => 4,
            Kind::AtomicData(_) => 12,
        };
        of_each * u64::from(self.packets) + of_one
    }
}

/// Which part of a message a burst is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// It has the message's first packet.
    pub first: bool,
    /// It has the message's last packet.
    pub last: bool,
    /// The last packet's solicited event bit.
    pub solicited: bool,
    /// What the last packet carries beside data.
    pub tail: Tail,
}

/// What the last packet of a message carries beside data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Nothing.
    None,
    /// Immediate data.
    Immediate(u32),
    /// A key to invalidate.
    Invalidate(u32),
}

/// RDMA extended transport header (IBA 9.3.3): memory of the responder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reth {
    /// Address.
    pub addr: u64,
    /// Key.
    pub key: u32,
    /// Bytes of the message.
    pub len: u64,
}

/// An atomic operation on the responder's memory: `new = (old + swap_add)` or, if the bits under
/// `compare_mask` are those of `compare`, `new = swap_add` in the bits under `swap_mask`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Address.
    pub addr: u64,
    /// Key.
    pub key: u32,
    /// 4 or 8 bytes.
    pub size: u32,
    /// What is done.
    pub action: Action,
}

/// What an atomic operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Adds. A one in `boundary` is the highest bit of a field, which carries nothing to the next.
    FetchAdd {
        /// What is added.
        add: u64,
        /// Ends of fields.
        boundary: u64,
    },
    /// Exchanges if equal.
    CompareSwap {
        /// What memory becomes.
        swap: u64,
        /// Bits of it that do.
        swap_mask: u64,
        /// What memory has to be.
        compare: u64,
        /// Bits of it that count.
        compare_mask: u64,
    },
}

/// Times that a "receiver not ready" asks for, by its code, in units of 10 us (IBA table 45).
const NOT_READY: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// The time in ns that a "receiver not ready" with this code asks for.
pub fn not_ready_ns(code: u8) -> u64 {
    let tens = NOT_READY.get(usize::from(code & 31)).copied().unwrap_or(1);
    u64::from(tens) * 10_000
}

/// The time in ns after which an unanswered packet counts as lost: 4.096 us times 2 to the power of
/// `code` (IBA 9.7.6.1.3). `None` for 0: it never does.
pub fn ack_timeout_ns(code: u8) -> Option<u64> {
    (code & 31 != 0).then(|| 4096 << (code & 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_architecture() {
        assert_eq!(not_ready_ns(0), 655_360_000);
        assert_eq!(not_ready_ns(12), 640_000);
        assert_eq!(not_ready_ns(31), 491_520_000);
        assert_eq!(ack_timeout_ns(0), None);
        assert_eq!(ack_timeout_ns(14), Some(67_108_864));
    }
}

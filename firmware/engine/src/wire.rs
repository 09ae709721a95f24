//! What is between two queue pairs. Here it is the port itself: what is sent comes back in.
//!
//! A [`Cable`] may be put between them, which decides what happens to every single packet. While
//! there is none, a message travels in as few bursts as its length allows.

use std::collections::BTreeMap;

use firmware::Firmware;
use probe::{Action, Point, Probe};

use crate::headers::Packet;
use crate::memory::{Payload, SourceGone};
use crate::packet::Header;
use crate::points;
use crate::{Cx, Engine};

/// What happens to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Arrives,
    /// It is lost. A corrupted packet is, too: its check sum tells the receiver.
    Lost,
    /// It arrives twice.
    Twice,
    /// It arrives this many ns later; others may overtake it.
    Late(u64),
}

/// Decides what happens to packets.
pub trait Cable: Send {
    /// What happens to one packet of `len` bytes of payload.
    fn fate(&mut self, header: &Header, len: u64) -> Fate;
}

/// A packet on its way.
#[derive(Debug)]
pub struct OnTheWay {
    /// What it is.
    pub what: What,
    /// Its payload.
    pub bytes: Vec<u8>,
}

/// What a packet is.
#[derive(Debug)]
pub enum What {
    /// Of a connected service.
    Connected(Header),
    /// A datagram.
    Datagram(Packet),
}

/// Most bytes that are on their way at once; what comes on top is lost.
const ROOM: usize = 16 << 20;
/// What a packet on its way takes beside its payload.
const OVERHEAD: usize = 128;

/// The cable, and what is on its way.
#[derive(Default)]
pub struct Wire {
    cable: Option<Box<dyn Cable>>,
    /// By the time of arrival, and the order of sending.
    late: BTreeMap<(u64, u64), OnTheWay>,
    sent: u64,
    bytes: usize,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").field("late", &self.late.len()).finish_non_exhaustive()
    }
}

impl Wire {
    /// Puts a cable in, or takes it out.
    pub fn set(&mut self, cable: Option<Box<dyn Cable>>) {
        self.cable = cable;
    }

    /// Whether packets have to travel one by one: there is a cable, or a fault may hit one.
    pub fn is_watched(&self, probe: &Probe) -> bool {
        self.cable.is_some() || probe.asks(Point::PacketSent)
    }

    /// What happens to a packet that is sent now.
    pub fn fate(&mut self, header: &Header, len: u64) -> Fate {
        match &mut self.cable {
            None => Fate::Arrives,
            Some(cable) => cable.fate(header, len),
        }
    }

    /// Keeps a packet until it arrives; false if there is no room.
    pub fn keep(&mut self, at: u64, packet: OnTheWay) -> bool {
        let size = packet.bytes.len() + OVERHEAD;
        if self.bytes + size > ROOM {
            return false;
        }
        self.bytes += size;
        self.sent += 1;
        self.late.insert((at, self.sent), packet);
        true
    }

    /// When the next packet arrives.
    pub fn next(&self) -> Option<u64> {
        self.late.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes a packet that has arrived.
    fn arrived(&mut self, now: u64) -> Option<OnTheWay> {
        self.next().filter(|at| *at <= now)?;
        let (_, packet) = self.late.pop_first()?;
        self.bytes -= packet.bytes.len() + OVERHEAD;
        Some(packet)
    }

    /// Nothing is on its way. The cable stays: it is not the card's.
    pub fn reset(&mut self) {
        let Self { cable: _, late, sent: _, bytes } = self;
        late.clear();
        *bytes = 0;
    }
}

/// What a fault makes of a packet.
pub fn fate_of(action: Action) -> Option<Fate> {
    match action {
        Action::Lose => Some(Fate::Lost),
        Action::Twice => Some(Fate::Twice),
        Action::Delay(ns) => Some(Fate::Late(ns)),
        _ => None,
    }
}

impl Engine {
    /// Puts a cable between queue pairs, or takes it out.
    pub fn set_cable(&mut self, cable: Option<Box<dyn Cable>>) {
        self.wire.set(cable);
    }

    /// Sends a burst.
    pub(crate) fn transmit(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        header: &Header,
        payload: Payload,
    ) -> Result<(), SourceGone> {
        let len = payload.len();
        let fault = points::sent(cx, header, len).and_then(fate_of);
        let octets = header.overhead() + len;
        fw.port.counters.transmitted_unicast.add(header.packets.into(), octets);
        match fault.unwrap_or_else(|| self.wire.fate(header, len)) {
            Fate::Arrives => self.arrive(fw, cx, header, payload),
            Fate::Lost => {
                self.lose(
                    || format!("{} for QP {:#x}", header.kind.name(), header.dest_qpn),
                    "cut",
                );
                Ok(())
            }
            Fate::Twice => {
                self.arrive(fw, cx, header, payload)?;
                self.arrive(fw, cx, header, payload)
            }
            Fate::Late(ns) => {
                let mut bytes = Vec::new();
                payload.read_to(cx.0, &mut bytes).map_err(|_| SourceGone)?;
                let packet = OnTheWay { what: What::Connected(*header), bytes };
                if !self.wire.keep(fw.now.saturating_add(ns), packet) {
                    self.lose(|| header.kind.name().into(), "too much is on its way");
                }
                Ok(())
            }
        }
    }

    /// Lets packets arrive whose time has come. Returns what they cost.
    pub(crate) fn late_packets(&mut self, fw: &mut Firmware, cx: Cx) -> usize {
        let Some(OnTheWay { what, mut bytes }) = self.wire.arrived(fw.now) else { return 0 };
        let cost = bytes.len() + OVERHEAD;
        match what {
            // Its bytes are here; they can't be gone.
            What::Connected(header) => {
                let _ = self.arrive(fw, cx, &header, Payload::Bytes(&bytes));
            }
            What::Datagram(packet) => self.datagram_arrives(fw, cx, packet, &mut bytes),
        }
        cost
    }

    /// A burst arrives at this port.
    fn arrive(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        header: &Header,
        payload: Payload,
    ) -> Result<(), SourceGone> {
        let what = || format!("{} for QP {:#x}", header.kind.name(), header.dest_qpn);
        if !fw.port.up {
            self.lose(what, "the port is down");
            return Ok(());
        }
        if header.dest_lid != fw.port.identity.lid {
            self.lose(what, "nobody else is on this fabric");
            return Ok(());
        }
        let len = payload.len();
        let octets = header.overhead() + len;
        fw.port.counters.received_unicast.add(header.packets.into(), octets);
        points::received(cx, header, len);
        let fits = fw.qps.get(header.dest_qpn).is_some_and(|qp| {
            let index = qp.context().primary_address_path().pkey_index();
            qp.state.receives()
                && header.transport.is_of(qp.service)
                && fw.port.pkey(index.into()) == Some(header.pkey)
        });
        if !fits {
            self.lose(what, "no queue pair takes it");
            return Ok(());
        }
        if header.kind.is_answer() {
            self.answered(fw, cx, header, payload)
        } else {
            self.request(fw, cx, header, payload)
        }
    }
}

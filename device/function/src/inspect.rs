//! Answers to the control socket.

mod tree;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::ControlFlow;

use control::{
    Access, FaultState, Hex, Missing, Mkey, MkeyPage, Piece, Refusal, RefusalKind, Request, Status,
    Translation,
};
use dma::Bus;
use firmware::Firmware;
use firmware::counters::PortCounters;
use layouts::Opcode;
use mtt::{KeyInfo, Place, Question};
use probe::Probe;

/// Most keys of one page, and most pieces: a line of the control socket holds either.
const MAX_KEYS: u32 = 2048;
const MAX_PIECES: u32 = 8192;

const ACCESSES: [(Access, mtt::Access); 5] = [
    (Access::LocalRead, mtt::Access::LocalRead),
    (Access::LocalWrite, mtt::Access::LocalWrite),
    (Access::RemoteRead, mtt::Access::RemoteRead),
    (Access::RemoteWrite, mtt::Access::RemoteWrite),
    (Access::RemoteAtomic, mtt::Access::RemoteAtomic),
];

pub(crate) fn answer(
    firmware: &mut Firmware,
    probe: &Probe,
    bus: &dyn Bus,
    faults: &dyn Fn() -> Vec<FaultState>,
    request: &Request,
) -> Result<serde_json::Value, Refusal> {
    let reply = match request {
        Request::Status {} => serde_json::to_value(status(firmware, probe)),
        Request::Mkey { key } => serde_json::to_value(one_key(firmware, *key)?),
        Request::Mkeys { live_only, from, limit } => {
            serde_json::to_value(keys(firmware, *live_only, *from, (*limit).min(MAX_KEYS)))
        }
        Request::Translate { key, address, length, access, pd, skip, limit } => {
            let question = Question {
                key: narrow(*key)?,
                addr: address.0,
                len: length.0,
                access: ACCESSES
                    .iter()
                    .find(|(theirs, _)| theirs == access)
                    .map_or(mtt::Access::LocalRead, |(_, ours)| *ours),
                pd: *pd,
                qpn: None,
            };
            let limit = (*limit).min(MAX_PIECES) as usize;
            serde_json::to_value(translate(firmware, bus, question, *skip, limit))
        }
        Request::Missing {} => serde_json::to_value(Missing { touched: probe.touched() }),
        Request::Inspect { node, limit } => {
            let limit = (*limit).min(MAX_KEYS) as usize;
            serde_json::to_value(tree::node(
                tree::View { firmware, probe, bus, faults, limit },
                node,
            )?)
        }
        // The card has no clock of its own, and does not know who listens.
        Request::Trace { .. }
        | Request::Metrics {}
        | Request::FaultAdd { .. }
        | Request::FaultList {}
        | Request::FaultClear { .. }
        | Request::FaultRelease { .. }
        | Request::Slot { .. } => {
            return Err(Refusal {
                kind: RefusalKind::BadRequest,
                message: "that is not the card's own affair".into(),
            });
        }
    };
    reply.map_err(|e| Refusal { kind: RefusalKind::BadRequest, message: e.to_string() })
}

fn narrow(key: Hex) -> Result<u32, Refusal> {
    u32::try_from(key.0).map_err(|_| Refusal {
        kind: RefusalKind::BadRequest,
        message: format!("{key} is not a key: keys have 32 bits"),
    })
}

fn status(firmware: &Firmware, probe: &Probe) -> Status {
    let mut objects: BTreeMap<String, u64> =
        firmware.object_counts().into_iter().map(|(kind, n)| (kind.into(), n)).collect();
    objects.insert("mkey_live".into(), firmware.mtt.live() as u64);
    objects.insert("translation".into(), firmware.mtt.filled());
    let PortCounters {
        received_unicast,
        transmitted_unicast,
        received_multicast,
        transmitted_multicast,
    } = firmware.port.counters;
    let mut counters = probe.counters(Opcode);
    for (direction, one, many) in [
        ("received", received_unicast, received_multicast),
        ("transmitted", transmitted_unicast, transmitted_multicast),
    ] {
        counters
            .insert(format!("port:{direction}_packets"), one.packets.wrapping_add(many.packets));
        counters.insert(format!("port:{direction}_bytes"), one.octets.wrapping_add(many.octets));
    }
    Status {
        state: firmware.life.state.name().into(),
        connected: false,
        connections: 0,
        objects,
        pages: firmware.pages.held(),
        counters,
    }
}

fn describe(key: &KeyInfo) -> Mkey {
    Mkey {
        key: key.key.into(),
        free: key.free,
        mode: key.mode.name().into(),
        pd: key.pd,
        start: key.start.into(),
        length: key.len.into(),
        length64: key.length64,
        log_page_size: key.log_page_size,
        access: ACCESSES
            .iter()
            .filter(|(_, access)| key.permits(*access))
            .map(|(access, _)| *access)
            .collect(),
        capacity: key.capacity,
        filled: key.filled,
    }
}

fn one_key(firmware: &Firmware, key: Hex) -> Result<Mkey, Refusal> {
    let key = narrow(key)?;
    let not_found = |message| Refusal { kind: RefusalKind::NotFound, message };
    let index = mtt::index_of(key);
    let info = firmware.mtt.info(index);
    let info = info.ok_or_else(|| not_found(format!("no key has index {index:#x}")))?;
    if info.key != key {
        return Err(not_found(format!("key {key:#x} has another variant now: {:#x}", info.key)));
    }
    Ok(describe(&info))
}

fn keys(firmware: &Firmware, live_only: bool, from: u32, limit: u32) -> MkeyPage {
    let mut rest = firmware
        .mtt
        .infos()
        .filter(|key| mtt::index_of(key.key) >= from && !(live_only && key.free));
    let keys = rest.by_ref().take(limit as usize).map(|key| describe(&key)).collect();
    MkeyPage { keys, next: rest.next().map(|key| mtt::index_of(key.key)) }
}

/// The pieces from `skip` on, at most `limit` of them. All of the access is judged, but only what is
/// asked for is kept and looked up in guest memory, which the guest maps and unmaps as it likes.
fn translate(
    firmware: &Firmware,
    bus: &dyn Bus,
    question: Question,
    skip: u64,
    limit: usize,
) -> Translation {
    let mut window = Window { skip, limit, begun: 0, pieces: Vec::new(), end: None };
    let judged = firmware.mtt.visit(&question, |piece| {
        window.take(piece);
        ControlFlow::Continue(())
    });
    if let Err(refusal) = judged {
        return refused(refusal.reason(), &refusal);
    }
    for piece in &window.pieces {
        if let Err(error) = bus.check(piece.address.0, piece.length.0) {
            return refused("dma_unmapped", &error);
        }
    }
    let more = window.begun > skip.saturating_add(window.pieces.len() as u64);
    Translation::Pieces { pieces: window.pieces, more }
}

fn refused(reason: &str, why: &dyn Display) -> Translation {
    Translation::Refused { reason: reason.into(), message: why.to_string() }
}

/// Some of a translation's pieces, adjacent ones joined.
struct Window {
    skip: u64,
    limit: usize,
    /// How many pieces have begun.
    begun: u64,
    pieces: Vec<Piece>,
    /// Where the last piece that begun ends.
    end: Option<u64>,
}

impl Window {
    fn take(&mut self, piece: mtt::Piece) {
        let Place::Memory(at) = piece.place else {
            self.end = None;
            return;
        };
        let joins = self.end == Some(at);
        self.end = at.checked_add(piece.len);
        if !joins {
            self.begun += 1;
        }
        let index = self.begun.saturating_sub(1);
        let Some(kept) = index.checked_sub(self.skip) else { return };
        if kept >= self.limit as u64 {
            return;
        }
        match self.pieces.last_mut() {
            Some(last) if joins => last.length.0 = last.length.0.saturating_add(piece.len),
            _ => self.pieces.push(Piece { address: at.into(), length: piece.len.into() }),
        }
    }
}

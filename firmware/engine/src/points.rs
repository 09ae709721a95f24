//! What is told to the probe about work.

use firmware::Firmware;
use firmware::qp::Service;
use layouts::{QpType, WqeCtrlSeg};
use mtt::{Access, Place, Question, Refusal};
use probe::{Action, Piece, Point, Probe, Site, Value, ask, at};

use crate::Cx;
use crate::packet::Header;
use crate::wqe::Wqe;

/// Most pieces of a translation that are told, and how many one usually has.
const PIECES: usize = 64;
const FEW: usize = 4;

/// The work request that is first in the ring begins, or is flushed.
#[inline]
pub fn work_request(fw: &Firmware, cx: Cx, qpn: u32, wqe: &Wqe) -> Option<Action> {
    if !cx.1.armed(Point::WorkRequest) {
        return None;
    }
    let qp = fw.qps.get(qpn)?;
    let index = qp.sq.map_or(0, |sq| sq.next);
    let (info, st) = (&WqeCtrlSeg::INFO, code(qp.service).0);
    ask!(cx.1, WorkRequest, (info, wqe.from(0)), qpn = qpn, index = index, st = st)
}

/// The context's code for a service.
fn code(service: Service) -> QpType {
    match service {
        Service::Rc => QpType::RC,
        Service::Uc => QpType::UC,
        Service::Ud => QpType::UD,
        Service::Xrc => QpType::XRC,
        Service::Qp0 => QpType::QP0,
        Service::Qp1 => QpType::QP1,
        Service::RegUmr => QpType::REG_UMR,
    }
}

/// A key was asked what an access reaches.
#[inline]
pub fn translation(
    probe: &Probe,
    question: &Question,
    pieces: &[mtt::Piece],
    outcome: &Result<(), Refusal>,
) {
    if probe.armed(Point::Translation) {
        told_translation(probe, question, pieces, outcome);
    }
}

#[cold]
fn told_translation(
    probe: &Probe,
    question: &Question,
    pieces: &[mtt::Piece],
    outcome: &Result<(), Refusal>,
) {
    if pieces.len() <= FEW {
        tell_pieces::<{ FEW * Piece::SIZE }>(probe, question, pieces, outcome);
    } else {
        tell_pieces::<{ PIECES * Piece::SIZE }>(probe, question, pieces, outcome);
    }
}

/// Tells of as many pieces as `N` bytes hold.
fn tell_pieces<const N: usize>(
    probe: &Probe,
    question: &Question,
    pieces: &[mtt::Piece],
    outcome: &Result<(), Refusal>,
) {
    let &Question { key, addr, len, access, pd, qpn } = question;
    let mut bytes = [0; N];
    let shown = pieces.len().min(N / Piece::SIZE);
    for (piece, to) in pieces.iter().zip(bytes.chunks_exact_mut(Piece::SIZE)) {
        let mut to = Piece(to);
        if let Place::Memory(at) = piece.place {
            to.set_address(at);
        }
        to.set_length(piece.len);
    }
    let refused = outcome.as_ref().err().map_or("", Refusal::reason);
    let values = [
        ("key", Value::from(key)),
        ("addr", addr.into()),
        ("len", len.into()),
        ("access", name(access).into()),
        ("pd", pd.unwrap_or(u32::MAX).into()),
        ("qpn", qpn.unwrap_or(u32::MAX).into()),
        // What is not always told comes last.
        match outcome {
            Ok(()) => ("pieces", pieces.len().into()),
            Err(_) => ("refused", refused.into()),
        },
    ];
    let all = outcome.is_err() || pieces.len() > shown;
    let count = if all { values.len() } else { values.len() - 1 };
    probe.tell(&Site {
        point: Point::Translation,
        layout: Some(&Piece::INFO),
        bytes: bytes.get(..shown * Piece::SIZE).unwrap_or_default(),
        values: values.get(..count).unwrap_or_default(),
    });
}

fn name(access: Access) -> &'static str {
    match access {
        Access::LocalRead => "local_read",
        Access::LocalWrite => "local_write",
        Access::RemoteRead => "remote_read",
        Access::RemoteWrite => "remote_write",
        Access::RemoteAtomic => "remote_atomic",
    }
}

/// Whether a fault has a key refuse what it would permit.
#[inline]
pub fn is_refused(probe: &Probe, question: &Question) -> bool {
    probe.asks(Point::Translation) && asked_to_refuse(probe, question)
}

#[cold]
fn asked_to_refuse(probe: &Probe, question: &Question) -> bool {
    let &Question { key, addr, len, access, pd, qpn } = question;
    let values = [
        ("key", Value::from(key)),
        ("addr", addr.into()),
        ("len", len.into()),
        ("access", name(access).into()),
        ("pd", pd.unwrap_or(u32::MAX).into()),
        ("qpn", qpn.unwrap_or(u32::MAX).into()),
    ];
    let site = Site { point: Point::Translation, layout: None, bytes: &[], values: &values };
    probe.ask(&site) == Some(Action::Refuse)
}

/// A burst is sent, with `len` bytes of payload.
#[inline]
pub fn sent(cx: Cx, header: &Header, len: u64) -> Option<Action> {
    ask!(
        cx.1,
        PacketSent,
        what = header.kind.name(),
        dest_qpn = header.dest_qpn,
        psn = header.psn.get(),
        packets = header.packets,
        len = len,
        transport = header.transport.name()
    )
}

/// A burst has come for a queue pair.
#[inline]
pub fn received(cx: Cx, header: &Header, len: u64) {
    at!(
        cx.1,
        PacketReceived,
        what = header.kind.name(),
        qpn = header.dest_qpn,
        psn = header.psn.get(),
        packets = header.packets,
        len = len
    );
}

/// A work request has edited a key.
#[inline]
pub fn key_edited(fw: &Firmware, cx: Cx, qpn: u32, key: u32) {
    if !cx.1.armed(Point::Modify) {
        return;
    }
    let index = mtt::index_of(key);
    let Some(info) = fw.mtt.info(index) else { return };
    at!(cx.1, Modify, kind = "mkey", id = index, key = info.key, free = info.free, qpn = qpn);
}

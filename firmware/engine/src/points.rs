//! What is told to the probe about work.

use firmware::Firmware;
use firmware::qp::Service;
use layouts::{QpType, WqeCtrlSeg};
use mtt::{Access, Cause, Place, Question, Refusal};
use probe::{Action, Piece, Point, Probe, Site, Value, ask, at};

use crate::Cx;
use crate::packet::Header;
use crate::wqe::Wqe;

/// Most pieces of a translation that are told, and how many one usually has.
const PIECES: usize = 64;
const FEW: usize = 4;

/// The work request that is first in the ring begins (then a fault may hit it), or is flushed.
#[cold]
pub fn work_request(
    fw: &Firmware,
    (_, probe): Cx,
    qpn: u32,
    wqe: &Wqe,
    begins: bool,
) -> Option<Action> {
    let qp = fw.qps.get(qpn)?;
    let index = qp.sq.map_or(0, |sq| sq.next);
    let values = [("qpn", qpn.into()), ("index", index.into()), ("st", code(qp.service).0.into())];
    let layout = Some(&WqeCtrlSeg::INFO);
    let site = Site { point: Point::WorkRequest, layout, bytes: wqe.from(0), values: &values };
    if begins {
        return probe.at(&site);
    }
    probe.tell(&site);
    None
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

/// A key was asked what an access reaches, and refused or somebody wants to know. Returns the
/// outcome: a fault may have the key refuse what it would permit, or answer as it did before.
#[cold]
pub fn translation(
    fw: &Firmware,
    probe: &Probe,
    question: &Question,
    pieces: &mut mtt::Pieces,
    outcome: Result<(), Refusal>,
) -> Result<(), Refusal> {
    let &Question { key, addr, len, access, pd, qpn } = question;
    let qpn = qpn.unwrap_or_default();
    if let Err(refusal) = &outcome {
        log::trace!("QP {qpn:#x}: {refusal}");
    }
    if !probe.armed(Point::Translation) {
        return outcome;
    }
    let values = [
        ("key", Value::from(key)),
        ("addr", addr.into()),
        ("len", len.into()),
        ("access", name(access).into()),
        ("pd", pd.unwrap_or(u32::MAX).into()),
        ("qpn", qpn.into()),
    ];
    let mut outcome = outcome;
    if probe.asks(Point::Translation) {
        let [key_, addr_, len_, access_, pd_, qpn_] = values;
        let refused = ("refused", outcome.is_err().into());
        let all = [key_, addr_, len_, access_, pd_, qpn_, refused];
        let site = Site { point: Point::Translation, layout: None, bytes: &[], values: &all };
        let asked = (key, addr, len);
        match probe.ask(&site) {
            Some(Action::Refuse) => {
                outcome = Err(Refusal { key, addr, len, access, cause: Cause::NoSuchKey });
            }
            Some(Action::Stale) if fw.remembered.recall(asked, pieces) => outcome = Ok(()),
            _ if outcome.is_ok() => fw.remembered.note(asked, pieces),
            _ => {}
        }
    }
    if pieces.len() <= FEW {
        tell_pieces::<{ FEW * Piece::SIZE }>(probe, &values, pieces, &outcome);
    } else {
        tell_pieces::<{ PIECES * Piece::SIZE }>(probe, &values, pieces, &outcome);
    }
    outcome
}

/// Tells of as many pieces as `N` bytes hold.
fn tell_pieces<const N: usize>(
    probe: &Probe,
    &[key, addr, len, access, pd, qpn]: &[(&'static str, Value); 6],
    pieces: &[mtt::Piece],
    outcome: &Result<(), Refusal>,
) {
    let mut bytes = [0; N];
    let shown = pieces.len().min(N / Piece::SIZE);
    for (piece, to) in pieces.iter().zip(bytes.chunks_exact_mut(Piece::SIZE)) {
        let mut to = Piece(to);
        if let Place::Memory(at) = piece.place {
            to.set_address(at);
        }
        to.set_length(piece.len);
    }
    // What is not always told comes last.
    let last = match outcome {
        Ok(()) => ("pieces", pieces.len().into()),
        Err(refusal) => ("refused", refusal.reason().into()),
    };
    let all = [key, addr, len, access, pd, qpn, last];
    let few = outcome.is_ok() && pieces.len() == shown;
    probe.tell(&Site {
        point: Point::Translation,
        layout: Some(&Piece::INFO),
        bytes: bytes.get(..shown * Piece::SIZE).unwrap_or_default(),
        values: all.split_last().filter(|_| few).map_or(&all[..], |(_, few)| few),
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

/// A burst is sent, with `len` bytes of payload.
#[inline]
pub fn sent(cx: Cx, header: &Header, len: u64) -> Option<Action> {
    if cx.1.armed(Point::PacketSent) { told_sent(cx.1, header, len) } else { None }
}

#[cold]
fn told_sent(probe: &Probe, header: &Header, len: u64) -> Option<Action> {
    ask!(
        probe,
        PacketSent,
        what = header.kind.name(),
        dest_qpn = header.dest_qpn,
        psn = header.psn.get(),
        packets = header.packets,
        len = len,
        transport = header.transport.name()
    )
}

/// A burst has come to this port.
#[inline]
pub fn received(cx: Cx, header: &Header, len: u64) {
    if cx.1.armed(Point::PacketReceived) {
        told_received(cx.1, header, len);
    }
}

#[cold]
fn told_received(probe: &Probe, header: &Header, len: u64) {
    at!(
        probe,
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

/// A datagram is sent, with `len` bytes of payload.
#[inline]
pub fn datagram_sent(cx: Cx, dest_qpn: u32, len: usize) -> Option<Action> {
    if cx.1.armed(Point::PacketSent) { told_datagram_sent(cx.1, dest_qpn, len) } else { None }
}

#[cold]
fn told_datagram_sent(probe: &Probe, dest_qpn: u32, len: usize) -> Option<Action> {
    ask!(probe, PacketSent, what = "SEND", dest_qpn = dest_qpn, len = len, transport = "UD")
}

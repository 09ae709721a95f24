//! Every way in which a key can refuse, on either side of every operation: what both sides are
//! told, what becomes of them, and that no byte moves.

mod common;

use common::failure;
use common::pair::{Pair, local, operands, remote, wqe};
use common::regions::{destroy, region, window};
use layouts::*;

/// Where a region begins, and how long it is: not quite two pages.
const START: u64 = 0x1234_5000;
const LEN: u64 = 8188;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    UnknownKey,
    WrongVariant,
    OtherDomain,
    BeforeStart,
    PastEnd,
    AcrossEnd,
    RightMissing,
    /// A window that a peer has invalidated.
    Invalidated,
    /// Destroyed after the work request was posted.
    Deregistered,
}

const FAULTS: [Fault; 9] = [
    Fault::UnknownKey,
    Fault::WrongVariant,
    Fault::OtherDomain,
    Fault::BeforeStart,
    Fault::PastEnd,
    Fault::AcrossEnd,
    Fault::RightMissing,
    Fault::Invalidated,
    Fault::Deregistered,
];

impl Fault {
    /// What a local key that refuses so is told by.
    fn local(self) -> (CqeSyndrome, u8) {
        let vendor = match self {
            Self::UnknownKey | Self::WrongVariant | Self::Invalidated | Self::Deregistered => 0x51,
            Self::OtherDomain | Self::RightMissing => 0x52,
            Self::BeforeStart | Self::PastEnd | Self::AcrossEnd => 0x53,
        };
        (CqeSyndrome::LOCAL_PROT_ERR, vendor)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Send,
    Write,
    Read,
    Atomic,
}

const OPERATIONS: [Operation; 4] =
    [Operation::Send, Operation::Write, Operation::Read, Operation::Atomic];

impl Operation {
    fn opcode(self) -> WqeOpcode {
        match self {
            Self::Send => WqeOpcode::SEND,
            Self::Write => WqeOpcode::RDMA_WRITE,
            Self::Read => WqeOpcode::RDMA_READ,
            Self::Atomic => WqeOpcode::ATOMIC_FA,
        }
    }

    /// The right that the requester's own key needs, and the one that the responder's does.
    fn take_right(self, side: Side, mkc: &mut Mkc<&mut [u8]>) {
        match (self, side) {
            (Self::Send | Self::Write, Side::Requester) => mkc.set_lr(false),
            (Self::Read | Self::Atomic, Side::Requester) => mkc.set_lw(false),
            (Self::Send, Side::Responder) => mkc.set_lw(false),
            (Self::Write, Side::Responder) => mkc.set_rw(false),
            (Self::Read, Side::Responder) => mkc.set_rr(false),
            (Self::Atomic, Side::Responder) => mkc.set_a(false),
        }
    }

    fn len(self) -> u32 {
        if self == Self::Atomic { 8 } else { 64 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Requester,
    Responder,
}

/// What a work request names on one side.
#[derive(Clone, Copy)]
struct Place {
    key: u32,
    addr: u64,
}

/// Memory of a side, as it should be named or with a fault.
fn place(pair: &mut Pair, side: Side, operation: Operation, fault: Option<Fault>) -> Place {
    let (pages, qpn) = match side {
        Side::Requester => (pair.from, pair.a.qpn),
        Side::Responder => (pair.to, pair.b.qpn),
    };
    let (pages, pd) = ([pages, pages + 0x1000], pair.bench.pd);
    let key = region(&mut pair.bench, pd, START, LEN, &pages, &|mkc| {
        if fault == Some(Fault::RightMissing) {
            operation.take_right(side, mkc);
        }
    });
    let inside = START + 0x800;
    match fault {
        None | Some(Fault::RightMissing | Fault::Deregistered) => Place { key, addr: inside },
        Some(Fault::UnknownKey) => Place { key: key + (1000 << 8), addr: inside },
        Some(Fault::WrongVariant) => Place { key: key ^ 1, addr: inside },
        Some(Fault::OtherDomain) => {
            let out = pair.bench.f.ok(Opcode::ALLOC_PD, 0, 0x10, 0x10, |_| {});
            let other = AllocPdOut(&out).pd();
            let key = region(&mut pair.bench, other, START, LEN, &pages, &|_| {});
            Place { key, addr: inside }
        }
        Some(Fault::BeforeStart) => Place { key, addr: START - 8 },
        Some(Fault::PastEnd) => Place { key, addr: START + 0x2000 },
        // The last eight bytes are not all there.
        Some(Fault::AcrossEnd) => Place { key, addr: START + 0x2000 - u64::from(operation.len()) },
        Some(Fault::Invalidated) => {
            let over = window(&mut pair.bench, key, START, LEN as u32, &|mkc| mkc.set_qpn(qpn));
            pair.bench.f.fw.mtt.invalidate(over, pd, qpn).unwrap();
            Place { key: over, addr: inside }
        }
    }
}

/// Posts an operation, a receive for it if it is a send, and something behind it; rings after
/// `before_doorbell`.
fn run(
    pair: &mut Pair,
    operation: Operation,
    (own, peer): (Place, Place),
    before_doorbell: impl FnOnce(&mut Pair),
) {
    let len = operation.len();
    let data = local(own.addr, own.key, len);
    let there = remote(peer.addr, peer.key);
    let request = match operation {
        Operation::Send => wqe(&[&data]),
        Operation::Write | Operation::Read => wqe(&[&there, &data]),
        Operation::Atomic => wqe(&[&there, &operands(&[1, 0]), &data]),
    };
    if operation == Operation::Send {
        let lkey = std::mem::replace(&mut pair.bench.lkey, peer.key);
        pair.bench.post_receive(&mut pair.b, &[(peer.addr, len)]);
        pair.bench.lkey = lkey;
    }
    // What is behind on both sides, to be flushed or not.
    pair.bench.post_receive(&mut pair.b, &[(pair.to + 0x8000, 64)]);
    pair.post(operation.opcode(), &request);
    let (from, lkey) = (pair.from, pair.bench.lkey);
    pair.post(WqeOpcode::NOP, &wqe(&[&local(from, lkey, 1)]));
    before_doorbell(pair);
    pair.go();
}

/// All memory that could have changed.
fn memory(pair: &Pair) -> (Vec<u8>, Vec<u8>) {
    (pair.bytes(pair.from, 0x2000), pair.bytes(pair.to, 0x2000))
}

const FLUSHED: (CqeSyndrome, u8) = (CqeSyndrome::WR_FLUSH_ERR, 0xf9);

/// The requester's operation failed so, and what was behind it is flushed.
fn requester_failed(pair: &mut Pair, why: (CqeSyndrome, u8), what: &str) {
    let seen = pair.drain_a();
    let told: Vec<_> = seen.iter().map(|e| (e.wqe_counter(), failure(e))).collect();
    assert!(seen.iter().all(|e| CqeOpcode(e.opcode()) == CqeOpcode::REQ_ERR), "{what}");
    assert_eq!(told.len(), 2, "{what}");
    assert_eq!(told[0], (0, why), "{what}");
    assert_eq!(told[1].1, FLUSHED, "{what}");
    assert!(told[1].0 > 0, "{what}: in order");
    let a = pair.a.qpn;
    assert_eq!(pair.bench.state(a), QpState::ERR, "{what}");
}

#[test]
fn without_a_fault_all_operations_succeed() {
    for operation in OPERATIONS {
        let mut pair = Pair::new(QpType::RC);
        let own = place(&mut pair, Side::Requester, operation, None);
        let peer = place(&mut pair, Side::Responder, operation, None);
        let before = memory(&pair);
        run(&mut pair, operation, (own, peer), |_| {});
        let seen = pair.drain_a();
        let kinds: Vec<_> = seen.iter().map(|e| CqeOpcode(e.opcode())).collect();
        assert_eq!(kinds, [CqeOpcode::REQ; 2], "{operation:?}");
        assert_ne!(memory(&pair), before, "{operation:?}");
    }
}

#[test]
fn the_requester_s_own_key_refuses() {
    for operation in OPERATIONS {
        for fault in FAULTS {
            let what = format!("{operation:?}, {fault:?}");
            let mut pair = Pair::new(QpType::RC);
            let own = place(&mut pair, Side::Requester, operation, Some(fault));
            let peer = place(&mut pair, Side::Responder, operation, None);
            let (from, to) = memory(&pair);
            run(&mut pair, operation, (own, peer), |pair| {
                if fault == Fault::Deregistered {
                    destroy(&mut pair.bench, own.key);
                }
            });
            requester_failed(&mut pair, fault.local(), &what);
            let (from_now, mut to_now) = memory(&pair);
            assert!(from_now == from, "{what}: own memory");
            if operation == Operation::Atomic {
                // The responder has carried it out before its answer finds no place.
                to_now[0x800] = to_now[0x800].wrapping_sub(1);
            }
            assert!(to_now == to, "{what}: the peer's memory");
            // The peer has seen nothing that concerns it.
            assert_eq!(pair.drain_b().len(), 0, "{what}");
            let b = pair.b.qpn;
            assert_eq!(pair.bench.state(b), QpState::RTS, "{what}");
            assert_eq!(pair.bench.async_events(), [], "{what}");
        }
    }
}

#[test]
fn the_responder_s_key_refuses() {
    for operation in OPERATIONS {
        for fault in FAULTS {
            let what = format!("{operation:?}, {fault:?}");
            let mut pair = Pair::new(QpType::RC);
            let own = place(&mut pair, Side::Requester, operation, None);
            let peer = place(&mut pair, Side::Responder, operation, Some(fault));
            let before = memory(&pair);
            run(&mut pair, operation, (own, peer), |pair| {
                if fault == Fault::Deregistered {
                    destroy(&mut pair.bench, peer.key);
                }
            });
            let b = pair.b.qpn;
            let seen = pair.drain_b();
            let told: Vec<_> = seen.iter().map(|e| (e.wqe_counter(), failure(e))).collect();
            assert!(seen.iter().all(|e| CqeOpcode(e.opcode()) == CqeOpcode::RESP_ERR), "{what}");
            if operation == Operation::Send {
                // It is a receive that fails: a completion tells, and no event.
                requester_failed(&mut pair, (CqeSyndrome::REMOTE_OP_ERR, 0x89), &what);
                assert_eq!(told, [(0, fault.local()), (1, FLUSHED)], "{what}");
                assert_eq!(pair.bench.async_events(), [], "{what}");
            } else {
                requester_failed(&mut pair, (CqeSyndrome::REMOTE_ACCESS_ERR, 0x88), &what);
                assert_eq!(told, [(0, FLUSHED)], "{what}");
                let told = pair.bench.async_events();
                assert_eq!(told, [(EventType::WQ_ACCESS_ERROR, b)], "{what}");
            }
            assert_eq!(pair.bench.state(b), QpState::ERR, "{what}");
            assert!(memory(&pair) == before, "{what}: memory");
        }
    }
}

#[test]
fn an_operation_of_no_bytes_looks_at_no_key() {
    for opcode in [WqeOpcode::SEND, WqeOpcode::RDMA_WRITE, WqeOpcode::RDMA_READ] {
        let mut pair = Pair::new(QpType::RC);
        let (bad, before) = (0x1234_5678, memory(&pair));
        let there = remote(0x5678, bad);
        pair.bench.lkey = bad;
        pair.bench.post_receive(&mut pair.b, &[(0x5678, 64)]);
        let request = match opcode {
            WqeOpcode::SEND => wqe(&[]),
            _ => wqe(&[&there]),
        };
        pair.post(opcode, &request);
        pair.go();
        let seen = pair.drain_a();
        assert_eq!(CqeOpcode(seen[0].opcode()), CqeOpcode::REQ, "{opcode}");
        let received = pair.drain_b();
        let expected = usize::from(opcode == WqeOpcode::SEND);
        assert_eq!(received.len(), expected, "{opcode}");
        assert!(received.iter().all(|e| CqeOpcode(e.opcode()) == CqeOpcode::RESP_SEND));
        let (a, b) = (pair.a.qpn, pair.b.qpn);
        assert_eq!((pair.bench.state(a), pair.bench.state(b)), (QpState::RTS, QpState::RTS));
        assert!(memory(&pair) == before);
    }
}

/// A peer that may not do such a thing at all, by its queue pair's attributes.
#[test]
fn the_responder_s_queue_pair_refuses() {
    type Fill = fn(&mut Qpc<&mut [u8]>);
    let cases: [(Operation, Fill); 3] = [
        (Operation::Write, |q| q.set_rwe(false)),
        (Operation::Read, |q| q.set_rre(false)),
        (Operation::Atomic, |q| q.set_rae(false)),
    ];
    for (operation, fill) in cases {
        let what = format!("{operation:?}");
        let mut pair = Pair::with(QpType::RC, fill);
        let own = place(&mut pair, Side::Requester, operation, None);
        let peer = place(&mut pair, Side::Responder, operation, None);
        let before = memory(&pair);
        run(&mut pair, operation, (own, peer), |_| {});
        requester_failed(&mut pair, (CqeSyndrome::REMOTE_INVAL_REQ_ERR, 0x8a), &what);
        let b = pair.b.qpn;
        assert_eq!(pair.bench.state(b), QpState::ERR, "{what}");
        assert_eq!(pair.bench.async_events(), [(EventType::WQ_INVAL_REQ_ERROR, b)], "{what}");
        assert!(memory(&pair) == before, "{what}");
    }
}

#[test]
fn refusals_are_counted_on_both_sides() {
    let mut set = 0;
    let mut pair = Pair::prepared(
        QpType::RC,
        |bench| {
            let out = bench.f.ok(Opcode::ALLOC_Q_COUNTER, 0, 0x10, 0x10, |_| {});
            set = AllocQCounterOut(&out).counter_set_id();
        },
        |q| q.set_counter_set_id(1),
    );
    assert_eq!(set, 1);
    let own = place(&mut pair, Side::Requester, Operation::Write, None);
    let peer = place(&mut pair, Side::Responder, Operation::Write, Some(Fault::UnknownKey));
    run(&mut pair, Operation::Write, (own, peer), |_| {});
    let out = pair.bench.f.ok(Opcode::QUERY_Q_COUNTER, 0, 0x20, 0x100, |i| {
        QueryQCounterIn(i).set_counter_set_id(set);
    });
    let told = QueryQCounterOut(&out);
    assert_eq!((told.req_remote_access_errors(), told.resp_remote_access_errors()), (1, 1));
    assert_eq!((told.req_cqe_error(), told.req_cqe_flush_error()), (2, 1));
    assert_eq!((told.resp_cqe_error(), told.resp_cqe_flush_error()), (1, 1));
    assert_eq!((told.rx_write_requests(), told.req_remote_invalid_request()), (0, 0));
}

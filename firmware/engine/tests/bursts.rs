//! Messages that are longer than a burst, and receives that are shared.

mod common;

use common::pair::{Pair, inline, local, operands, remote, wqe};
use common::{Bench, Cq, Qp, QpOptions, failure};
use dma::Dma;
use layouts::*;

/// More than two bursts, and not whole packets.
const LONG: u32 = 600_001;

fn long_pair(service: QpType) -> (Pair, u64, u64) {
    let mut pair = Pair::with(service, |qpc| qpc.set_mtu(5));
    let (from, to) = (pair.bench.pages(LONG.into()), pair.bench.pages(LONG.into()));
    let pattern: Vec<u8> = (0..LONG).map(|i| (i * 13 + i / 509) as u8).collect();
    pair.bench.write(from, &pattern);
    (pair, from, to)
}

#[test]
fn long_messages_of_every_kind() {
    for service in [QpType::RC, QpType::UC] {
        let (mut pair, from, to) = long_pair(service);
        let (rkey, lkey) = (pair.rkey, pair.bench.lkey);
        let data = pair.bytes(from, LONG as usize);
        let clear = vec![0; LONG as usize];
        let halves =
            |at: u64| [local(at, lkey, 300_000), local(at + 300_000, lkey, LONG - 300_000)];
        let write = |at, [one, other]: [Vec<u8>; 2]| wqe(&[&remote(at, rkey), &one, &other]);

        pair.post(WqeOpcode::RDMA_WRITE, &write(to, halves(from)));
        pair.go();
        assert_eq!(pair.drain_a().len(), 1);
        assert!(pair.bytes(to, LONG as usize) == data, "{service}: write");

        pair.bench.write(to, &clear);
        pair.bench.post_receive(&mut pair.b, &[(to, 100), (to + 100, LONG - 100)]);
        let [one, other] = halves(from);
        pair.post(WqeOpcode::SEND, &wqe(&[&one, &other]));
        pair.go();
        assert_eq!(pair.drain_b()[0].byte_cnt(), LONG);
        assert!(pair.bytes(to, LONG as usize) == data, "{service}: send");

        if service == QpType::UC {
            continue;
        }
        pair.bench.write(to, &clear);
        pair.post(WqeOpcode::RDMA_READ, &write(from, halves(to)));
        pair.go();
        assert!(pair.bytes(to, LONG as usize) == data, "{service}: read");
        assert_eq!(pair.bench.f.probe.mistakes().len(), 0);
    }
}

#[test]
fn what_follows_a_long_read_is_answered_after_it() {
    let (mut pair, from, to) = long_pair(QpType::RC);
    let (rkey, lkey, small) = (pair.rkey, pair.bench.lkey, pair.to);
    pair.post(WqeOpcode::RDMA_READ, &wqe(&[&remote(from, rkey), &local(to, lkey, LONG)]));
    pair.post(WqeOpcode::RDMA_WRITE, &wqe(&[&remote(small, rkey), &inline(b"later")]));
    let add = [&remote(small + 8, rkey)[..], &operands(&[5, 0]), &local(small + 16, lkey, 8)];
    pair.post(WqeOpcode::ATOMIC_FA, &wqe(&add));
    pair.post(WqeOpcode::RDMA_READ, &wqe(&[&remote(small, rkey), &local(small + 64, lkey, 16)]));
    pair.go();
    let seen = pair.drain_a();
    assert_eq!(seen.iter().map(|e| e.wqe_counter()).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(seen.iter().all(|e| CqeOpcode(e.opcode()) == CqeOpcode::REQ));
    assert!(pair.bytes(to, LONG as usize) == pair.bytes(from, LONG as usize));
    assert_eq!(pair.bytes(small + 64, 9), b"later\0\0\0\x05");
}

#[test]
fn a_refusal_behind_a_long_read_comes_after_it() {
    let (mut pair, from, to) = long_pair(QpType::RC);
    let (rkey, lkey) = (pair.rkey, pair.bench.lkey);
    pair.post(WqeOpcode::RDMA_READ, &wqe(&[&remote(from, rkey), &local(to, lkey, LONG)]));
    pair.post(WqeOpcode::RDMA_WRITE, &wqe(&[&remote(to, rkey ^ 1), &inline(b"x")]));
    pair.go();
    let seen = pair.drain_a();
    assert_eq!(CqeOpcode(seen[0].opcode()), CqeOpcode::REQ);
    assert_eq!(failure(&seen[1]), (CqeSyndrome::REMOTE_ACCESS_ERR, 0x88));
    assert!(pair.bytes(to, LONG as usize) == pair.bytes(from, LONG as usize));
    assert_eq!(pair.bench.async_events(), [(EventType::WQ_ACCESS_ERROR, pair.b.qpn)]);
}

#[test]
fn a_key_that_goes_away_during_a_read_ends_it() {
    let (mut pair, from, to) = long_pair(QpType::RC);
    let (pd, lkey) = (pair.bench.pd, pair.bench.lkey);
    let key = pair.bench.open_key(pd);
    pair.post(WqeOpcode::RDMA_READ, &wqe(&[&remote(from, key), &local(to, lkey, LONG)]));
    pair.bench.ring(&pair.a);
    let Bench { f, engine, .. } = &mut pair.bench;
    assert!(engine.run(&mut f.fw, (&f.memory, &f.probe), 1), "the first burst");
    let (status, _) = pair.bench.f.run(Opcode::DESTROY_MKEY, 0, 0x10, 0x10, |input| {
        DestroyMkeyIn(input).set_mkey_index(key >> 8);
    });
    assert_eq!(status, Status::OK);
    pair.bench.run();
    assert_eq!(failure(&pair.drain_a()[0]), (CqeSyndrome::REMOTE_ACCESS_ERR, 0x88));
    assert_eq!(pair.bench.state(pair.b.qpn), QpState::ERR);
}

#[test]
fn a_receive_of_a_message_that_never_ends_is_flushed() {
    let (mut pair, from, to) = long_pair(QpType::RC);
    let lkey = pair.bench.lkey;
    pair.bench.post_receive(&mut pair.b, &[(to, LONG)]);
    pair.bench.post_receive(&mut pair.b, &[(to, LONG)]);
    pair.post(WqeOpcode::SEND, &wqe(&[&local(from, lkey, LONG)]));
    pair.bench.ring(&pair.a);
    let Bench { f, engine, .. } = &mut pair.bench;
    assert!(engine.run(&mut f.fw, (&f.memory, &f.probe), 1), "the first burst");
    for qpn in [pair.a.qpn, pair.b.qpn] {
        pair.bench.state_command(Opcode::TOERR_QP, qpn);
    }
    pair.bench.run();
    let flushed = (CqeSyndrome::WR_FLUSH_ERR, 0xf9);
    let seen = pair.drain_b();
    assert_eq!(seen.iter().map(|e| e.wqe_counter()).collect::<Vec<_>>(), [0, 1]);
    assert!(seen.iter().all(|entry| failure(entry) == flushed));
    assert_eq!(failure(&pair.drain_a()[0]), flushed);
}

/// A shared receive queue of 16 WQEs of 64 bytes, all of them posted, each to a page of its own.
struct Shared {
    srqn: u32,
    pages: u64,
}

impl Shared {
    fn wqes(bench: &mut Bench, posted: u32) -> (u64, u64, u64) {
        let (ring, record, pages) = (bench.pages(4096), bench.pages(8), bench.pages(16 * 4096));
        for n in 0..16u64 {
            let mut wqe = vec![0; 16];
            WqeSrqNextSeg(&mut wqe[..]).set_next_wqe_index((n as u16 + 1) % 16);
            wqe.extend(local(pages + 4096 * n, bench.lkey, 4096));
            wqe.extend(local(0, 0x100, 0));
            bench.write(ring + 64 * n, &wqe);
        }
        bench.write(record, &posted.to_be_bytes());
        (ring, record, pages)
    }

    fn xrc(bench: &mut Bench, cqn: u32, xrcd: u32) -> Self {
        let (ring, record, pages) = Self::wqes(bench, 2);
        let (pd, out) = (bench.pd, 0x10);
        let out = bench.f.ok(Opcode::CREATE_XRC_SRQ, 0, 0x118, out, |input| {
            input[0x110..].copy_from_slice(&ring.to_be_bytes());
            let mut input = CreateXrcSrqIn(input);
            let mut context = input.xrc_srq_context_entry_mut();
            context.set_log_xrc_srq_size(4);
            context.set_log_rq_stride(2);
            context.set_pd(pd);
            context.set_cqn(cqn);
            context.set_xrcd(xrcd);
            context.set_user_index(0x5a5a);
            context.set_db_record_addr_h((record >> 32) as u32);
            context.set_db_record_addr_l((record as u32) >> 2);
        });
        Self { srqn: CreateXrcSrqOut(&out).xrc_srqn(), pages }
    }
}

/// A segment that names the peer's shared receive queue.
fn srq(srqn: u32) -> Vec<u8> {
    let mut segment = vec![0; 16];
    WqeXrcSeg(&mut segment).set_xrc_srqn(srqn);
    segment
}

struct Xrc {
    bench: Bench,
    initiator: Qp,
    sends: Cq,
    target: Qp,
    receives: Cq,
    shared: Shared,
    key: u32,
}

fn xrc() -> Xrc {
    let mut bench = Bench::new();
    let xrcd = AllocXrcdOut(&bench.f.ok(Opcode::ALLOC_XRCD, 0, 0x10, 0x10, |_| {})).xrcd();
    let (sends, receives) = (bench.cq(4), bench.cq(4));
    let shared = Shared::xrc(&mut bench, receives.cqn, xrcd);
    let options = QpOptions::new(QpType::XRC, sends.cqn, sends.cqn);
    let initiator = bench.qp(&QpOptions { xrcd: Some(xrcd), ..options });
    let target = bench
        .qp(&QpOptions { xrcd: Some(xrcd), ..QpOptions::new(QpType::XRC, sends.cqn, sends.cqn) });
    bench.connect(initiator.qpn, target.qpn, |_| {});
    bench.connect(target.qpn, initiator.qpn, |_| {});
    let pd = bench.pd;
    let key = bench.open_key(pd);
    Xrc { bench, initiator, sends, target, receives, shared, key }
}

#[test]
fn xrc_messages_name_the_queue_that_receives_them() {
    let Xrc { mut bench, mut initiator, mut sends, target, mut receives, shared, key } = xrc();
    let segments = [&srq(shared.srqn)[..], &inline(b"hello")];
    bench.post(&mut initiator, WqeOpcode::SEND, &wqe(&segments));
    let at = shared.pages + 15 * 4096;
    let write = [&srq(shared.srqn)[..], &remote(at, key), &inline(b"there")];
    bench.post(&mut initiator, WqeOpcode::RDMA_WRITE_IMM, &wqe(&write));
    bench.ring(&initiator);
    bench.run();
    assert_eq!(bench.drain(&mut sends).len(), 2);
    let seen = bench.drain(&mut receives);
    let kinds: Vec<_> = seen.iter().map(|e| CqeOpcode(e.opcode())).collect();
    assert_eq!(kinds, [CqeOpcode::RESP_SEND, CqeOpcode::RESP_WR_IMM]);
    for entry in &seen {
        assert_eq!((entry.qpn(), entry.srqn(), entry.byte_cnt()), (target.qpn, 0x5a5a, 5));
    }
    let bytes = |addr| {
        let mut bytes = [0; 5];
        bench.f.memory.read(addr, &mut bytes).unwrap();
        bytes
    };
    assert_eq!((&bytes(shared.pages), &bytes(at)), (b"hello", b"there"));
}

#[test]
fn an_xrc_queue_of_another_domain_is_refused() {
    let Xrc { mut bench, mut initiator, mut sends, target, receives, .. } = xrc();
    let other = AllocXrcdOut(&bench.f.ok(Opcode::ALLOC_XRCD, 0, 0x10, 0x10, |_| {})).xrcd();
    let foreign = Shared::xrc(&mut bench, receives.cqn, other);
    bench.post(&mut initiator, WqeOpcode::SEND, &wqe(&[&srq(foreign.srqn), &inline(b"x")]));
    bench.ring(&initiator);
    bench.run();
    let seen = bench.drain(&mut sends);
    assert_eq!(failure(&seen[0]), (CqeSyndrome::REMOTE_INVAL_REQ_ERR, 0x8a));
    assert_eq!(bench.async_events(), [(EventType::WQ_INVAL_REQ_ERROR, target.qpn)]);
}

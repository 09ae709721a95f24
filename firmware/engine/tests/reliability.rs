//! What reliable services do about packets that are lost, late, or come twice, and about receivers
//! that are not ready.

mod common;

use std::sync::{Arc, Mutex};

use common::pair::{Pair, inline, local, operands, remote, wqe};
use common::{FIRST_PSN, failure};
use engine::packet::{Header, Kind};
use engine::wire::{Cable, Fate};
use layouts::*;
use proptest::prelude::*;

/// A cable that a test decides for.
struct Rule<F>(F);

impl<F: FnMut(&Header) -> Fate + Send> Cable for Rule<F> {
    fn fate(&mut self, header: &Header, _len: u64) -> Fate {
        self.0(header)
    }
}

fn cable(pair: &mut Pair, rule: impl FnMut(&Header) -> Fate + Send + 'static) {
    pair.bench.engine.set_cable(Some(Box::new(Rule(rule))));
}

/// The counters of both ends.
fn counters(pair: &mut Pair) -> firmware::counters::QCounters {
    *pair.bench.f.fw.q_counters(1).expect("the set was made")
}

/// A pair whose ends count in set 1.
fn counted() -> Pair {
    let mut set = None;
    let mut pair = Pair::prepared(
        QpType::RC,
        |bench| {
            let out = bench.f.ok(Opcode::ALLOC_Q_COUNTER, 0, 0x10, 0x10, |_| {});
            set = Some(AllocQCounterOut(&out).counter_set_id());
        },
        |qpc| qpc.set_counter_set_id(1),
    );
    assert_eq!(set, Some(1));
    assert_eq!(counters(&mut pair), Default::default());
    pair
}

#[test]
fn a_lost_packet_is_noticed_at_the_next_one() {
    let mut pair = counted();
    let (from, to, rkey, lkey) = (pair.from, pair.to, pair.rkey, pair.bench.lkey);
    let mut n = 0;
    cable(&mut pair, move |_| {
        n += 1;
        if n == 2 { Fate::Lost } else { Fate::Arrives }
    });
    // Four packets; the second does not arrive.
    pair.post(WqeOpcode::RDMA_WRITE, &wqe(&[&remote(to, rkey), &local(from, lkey, 1000)]));
    pair.go();
    assert_eq!(pair.drain_a().len(), 1);
    assert_eq!(pair.bytes(to, 1000), pair.bytes(from, 1000));
    let seen = counters(&mut pair);
    assert_eq!((seen.packet_seq_err, seen.local_ack_timeout_err), (1, 0));
    assert!(seen.out_of_sequence >= 1);
    assert_eq!(seen.rx_write_requests, 1);
}

#[test]
fn a_lost_acknowledgement_is_asked_for_again() {
    let mut pair = counted();
    let (from, to, rkey, lkey) = (pair.from, pair.to, pair.rkey, pair.bench.lkey);
    let mut lost = false;
    cable(&mut pair, move |header| {
        if header.kind == Kind::Ack && !std::mem::replace(&mut lost, true) {
            return Fate::Lost;
        }
        Fate::Arrives
    });
    pair.post(WqeOpcode::RDMA_WRITE, &wqe(&[&remote(to, rkey), &local(from, lkey, 10)]));
    pair.go();
    assert_eq!(pair.drain_a().len(), 0);
    // ack_timeout 1: 8.192 us.
    assert_eq!(pair.bench.engine.deadline(&pair.bench.f.fw), Some(pair.bench.f.fw.now + 8192));
    pair.bench.wait(8192);
    assert_eq!(pair.drain_a().len(), 1);
    let seen = counters(&mut pair);
    assert_eq!((seen.local_ack_timeout_err, seen.duplicate_request), (1, 1));
    assert_eq!(seen.rx_write_requests, 1, "executed once");
}

#[test]
fn who_is_never_answered_gives_up() {
    let mut pair = counted();
    let (to, rkey, a) = (pair.to, pair.rkey, pair.a.qpn);
    let tries = Arc::new(Mutex::new(0));
    let count = tries.clone();
    cable(&mut pair, move |_| {
        *count.lock().unwrap() += 1;
        Fate::Lost
    });
    let began = pair.bench.f.fw.now;
    for _ in 0..2 {
        pair.post(WqeOpcode::RDMA_WRITE, &wqe(&[&remote(to, rkey), &inline(b"x")]));
    }
    pair.go_on();
    let seen = pair.drain_a();
    assert_eq!(failure(&seen[0]), (CqeSyndrome::TRANSPORT_RETRY_EXC_ERR, 0x81));
    assert_eq!(failure(&seen[1]), (CqeSyndrome::WR_FLUSH_ERR, 0xf9));
    assert_eq!(pair.bench.state(a), QpState::ERR);
    // Each of the two packets once, and twice more.
    assert_eq!(*tries.lock().unwrap(), 6);
    assert_eq!(counters(&mut pair).local_ack_timeout_err, 3);
    assert!(pair.bench.f.fw.now >= began + 3 * 8192);
}

#[test]
fn a_peer_that_is_not_there_is_no_peer() {
    let mut pair = counted();
    let (to, rkey, b) = (pair.to, pair.rkey, pair.b.qpn);
    assert_eq!(pair.bench.destroy_qp(b), Status::OK);
    pair.post(WqeOpcode::RDMA_WRITE, &wqe(&[&remote(to, rkey), &inline(b"x")]));
    pair.go_on();
    assert_eq!(failure(&pair.drain_a()[0]), (CqeSyndrome::TRANSPORT_RETRY_EXC_ERR, 0x81));
}

#[test]
fn a_receiver_that_is_not_ready_is_asked_again() {
    let mut pair = counted();
    let (from, to, lkey) = (pair.from, pair.to, pair.bench.lkey);
    pair.post(WqeOpcode::SEND, &wqe(&[&local(from, lkey, 600)]));
    pair.go();
    // min_rnr_nak 1: 10 us.
    assert_eq!(pair.bench.engine.deadline(&pair.bench.f.fw), Some(pair.bench.f.fw.now + 10_000));
    pair.bench.wait(10_000);
    assert_eq!(pair.drain_a().len(), 0);
    pair.bench.post_receive(&mut pair.b, &[(to, 600)]);
    pair.bench.wait(10_000);
    assert_eq!(pair.drain_a().len(), 1);
    assert_eq!(pair.drain_b()[0].byte_cnt(), 600);
    assert_eq!(pair.bytes(to, 600), pair.bytes(from, 600));
    let seen = counters(&mut pair);
    assert_eq!((seen.rnr_nak_retry_err, seen.out_of_buffer), (2, 2));
}

#[test]
fn a_receiver_that_is_never_ready_is_given_up() {
    let mut pair = counted();
    let (from, lkey) = (pair.from, pair.bench.lkey);
    pair.post(WqeOpcode::SEND, &wqe(&[&local(from, lkey, 600)]));
    pair.go_on();
    let seen = pair.drain_a();
    assert_eq!(failure(&seen[0]).0, CqeSyndrome::RNR_RETRY_EXC_ERR);
    // Asked once, and twice more.
    assert_eq!(counters(&mut pair).rnr_nak_retry_err, 3);
    assert_eq!(pair.bench.state(pair.b.qpn), QpState::RTS, "the receiver did nothing wrong");
}

#[test]
fn an_atomic_is_executed_once_however_often_it_arrives() {
    let mut pair = counted();
    let (to, rkey, lkey) = (pair.to, pair.rkey, pair.bench.lkey);
    let mut n = 0;
    // Every answer is lost the first time, every request comes twice.
    cable(&mut pair, move |header| match header.kind {
        Kind::AtomicData(_) => {
            n += 1;
            if n % 3 == 0 { Fate::Arrives } else { Fate::Lost }
        }
        _ => Fate::Twice,
    });
    for i in 0..5u64 {
        let add = wqe(&[&remote(to, rkey), &operands(&[1, 0]), &local(to + 8, lkey, 8)]);
        pair.post(WqeOpcode::ATOMIC_FA, &add);
        pair.go_on();
        assert_eq!(pair.drain_a().len(), 1);
        assert_eq!(pair.bytes(to + 8, 8), i.to_be_bytes());
    }
    assert_eq!(pair.bytes(to, 8), 5u64.to_le_bytes());
    assert_eq!(counters(&mut pair).rx_atomic_requests, 5);
}

#[test]
fn a_fence_waits_for_reads() {
    let mut pair = counted();
    let (from, to, rkey, lkey) = (pair.from, pair.to, pair.rkey, pair.bench.lkey);
    let order = Arc::new(Mutex::new(Vec::new()));
    let log = order.clone();
    // The read's first answer is late.
    cable(&mut pair, move |header| {
        log.lock().unwrap().push(header.kind.name());
        let first = header.psn.get() == FIRST_PSN;
        if header.kind == Kind::ReadData && first { Fate::Late(1000) } else { Fate::Arrives }
    });
    pair.post(WqeOpcode::RDMA_READ, &wqe(&[&remote(from, rkey), &local(to, lkey, 100)]));
    let mut write = wqe(&[&remote(to + 512, rkey), &local(to, lkey, 100)]);
    WqeCtrlSeg(&mut write[..]).set_fence(2);
    pair.post(WqeOpcode::RDMA_WRITE, &write);
    pair.go();
    assert_eq!(*order.lock().unwrap(), ["RDMA READ request", "RDMA READ response"]);
    pair.bench.wait(1000);
    assert_eq!(order.lock().unwrap().last(), Some(&"ACK"));
    assert_eq!(pair.drain_a().len(), 2);
    assert_eq!(pair.bytes(to + 512, 100), pair.bytes(from, 100), "what the read brought");
}

#[test]
fn completions_keep_their_order_when_answers_do_not() {
    let mut pair = counted();
    let (from, to, rkey, lkey) = (pair.from, pair.to, pair.rkey, pair.bench.lkey);
    cable(&mut pair, |header| match header.kind {
        Kind::ReadData => Fate::Late(3000),
        _ => Fate::Arrives,
    });
    pair.post(WqeOpcode::RDMA_READ, &wqe(&[&remote(from, rkey), &local(to, lkey, 300)]));
    pair.post(WqeOpcode::RDMA_WRITE, &wqe(&[&remote(to + 512, rkey), &inline(b"abc")]));
    pair.post(WqeOpcode::NOP, &wqe(&[]));
    pair.go_on();
    let seen = pair.drain_a();
    assert_eq!(seen.iter().map(|e| e.wqe_counter()).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(seen.iter().all(|e| CqeOpcode(e.opcode()) == CqeOpcode::REQ));
    assert_eq!(pair.bytes(to, 300), pair.bytes(from, 300));
}

#[test]
fn an_unreliable_message_that_is_cut_off_leaves_its_receive_to_the_next() {
    let mut pair = Pair::new(QpType::UC);
    let (from, to, rkey, lkey) = (pair.from, pair.to, pair.rkey, pair.bench.lkey);
    let mut n = 0;
    // Of three packets the second is lost; all later ones arrive.
    cable(&mut pair, move |_| {
        n += 1;
        if n == 2 { Fate::Lost } else { Fate::Arrives }
    });
    pair.bench.post_receive(&mut pair.b, &[(to, 1024)]);
    pair.post(WqeOpcode::SEND, &wqe(&[&local(from, lkey, 700)]));
    pair.post(WqeOpcode::RDMA_WRITE, &wqe(&[&remote(to + 2048, rkey), &inline(b"write")]));
    pair.post(WqeOpcode::SEND, &wqe(&[&local(from + 64, lkey, 100)]));
    pair.go();
    assert_eq!(pair.drain_a().len(), 3);
    let seen = pair.drain_b();
    assert_eq!(
        seen.iter().map(|e| (e.wqe_counter(), e.byte_cnt())).collect::<Vec<_>>(),
        [(0, 100)]
    );
    assert_eq!(pair.bytes(to, 100), pair.bytes(from + 64, 100));
    assert_eq!(pair.bytes(to + 2048, 5), b"write");
}

/// A work request of a script: what, where and how long.
#[derive(Debug, Clone)]
enum Work {
    Write(u16, u16),
    Read(u16, u16),
    Send(u16),
    Add(u8),
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        (0..1024u16, 1..1500u16).prop_map(|(at, len)| Work::Write(at, len)),
        (0..1024u16, 1..1500u16).prop_map(|(at, len)| Work::Read(at, len)),
        (0..900u16).prop_map(Work::Send),
        any::<u8>().prop_map(Work::Add),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Arrives),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Twice),
        1 => (1..20_000u64).prop_map(Fate::Late),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { ..ProptestConfig::with_cases(300) })]

    /// Whatever the cable does, as long as it lets enough through: every work request is executed
    /// once and in order, and ends well.
    #[test]
    fn a_bad_cable_changes_nothing_but_time(
        script in prop::collection::vec(work(), 1..14),
        fates in prop::collection::vec(fate(), 1..200),
    ) {
        let mut pair = Pair::with(QpType::RC, |qpc| {
            qpc.set_retry_count(7);
            qpc.set_rnr_retry(7);
            qpc.primary_address_path_mut().set_ack_timeout(3);
        });
        let (from, to, rkey, lkey) = (pair.from, pair.to, pair.rkey, pair.bench.lkey);
        let (memory, counter, landing) = (to, to + 8192, to + 16384);
        let mut fates = fates.into_iter();
        // When the script of fates is over, the cable is good.
        cable(&mut pair, move |_| fates.next().unwrap_or(Fate::Arrives));
        let mut model = vec![0u8; 4096];
        let mut sum = 0u64;
        let mut sent = Vec::new();
        for (n, work) in script.iter().enumerate() {
            match *work {
                Work::Write(at, len) => {
                    let source = from + n as u64 * 11;
                    let data = pair.bytes(source, len.into());
                    let at = usize::from(at);
                    model[at..at + data.len()].copy_from_slice(&data);
                    let segments = [&remote(memory + at as u64, rkey)[..], &local(source, lkey, len.into())];
                    pair.post(WqeOpcode::RDMA_WRITE, &wqe(&segments));
                }
                Work::Read(at, len) => {
                    // Reads see what was written before them, and nothing later if it is fenced.
                    let segments = [&remote(memory + u64::from(at), rkey)[..], &local(landing, lkey, len.into())];
                    pair.post(WqeOpcode::RDMA_READ, &wqe(&segments));
                }
                Work::Send(len) => {
                    let at = landing + 2048 * (1 + sent.len() as u64);
                    pair.bench.post_receive(&mut pair.b, &[(at, 1024)]);
                    sent.push((at, from + u64::from(len), len));
                    let segment = local(from + u64::from(len), lkey, len.into());
                    let segment = if len == 0 { &[] } else { &segment[..] };
                    pair.post(WqeOpcode::SEND, &wqe(&[segment]));
                    if sent.len() >= 8 { break; }
                }
                Work::Add(add) => {
                    sum += u64::from(add);
                    let operands = operands(&[add.into(), 0]);
                    pair.post(WqeOpcode::ATOMIC_FA, &wqe(&[&remote(counter, rkey), &operands, &local(landing, lkey, 8)]));
                }
            }
        }
        let posted = pair.a.posted;
        pair.go_on();
        let seen = pair.drain_a();
        prop_assert_eq!(seen.len(), usize::from(posted), "{:?}", seen.iter().map(failure).collect::<Vec<_>>());
        for (n, entry) in seen.iter().enumerate() {
            prop_assert_eq!(CqeOpcode(entry.opcode()), CqeOpcode::REQ);
            prop_assert_eq!(usize::from(entry.wqe_counter()), n);
        }
        prop_assert_eq!(pair.bytes(memory, 4096), model);
        prop_assert_eq!(pair.bytes(counter, 8), sum.to_le_bytes());
        let received = pair.drain_b();
        prop_assert_eq!(received.len(), sent.len());
        for (entry, (at, source, len)) in received.iter().zip(sent) {
            prop_assert_eq!(entry.byte_cnt(), u32::from(len));
            prop_assert_eq!(pair.bytes(at, len.into()), pair.bytes(source, len.into()));
        }
    }
}

//! Connected services: what moves, and what is told.

mod common;

use common::pair::{Pair, inline, local, operands, remote, wqe};
use common::{FIRST_PSN, IDENTITY, failure};
use layouts::*;

fn kinds(entries: &[Cqe64<[u8; 64]>]) -> Vec<CqeOpcode> {
    entries.iter().map(|entry| CqeOpcode(entry.opcode())).collect()
}

#[test]
fn writes_of_all_lengths_arrive() {
    for service in [QpType::RC, QpType::UC] {
        let mut pair = Pair::new(service);
        for len in [1u32, 63, 255, 256, 257, 512, 4096, 65_535] {
            let (from, to, rkey, lkey) = (pair.from, pair.to, pair.rkey, pair.bench.lkey);
            let write = wqe(&[&remote(to + 1, rkey), &local(from, lkey, len)]);
            pair.bench.write(to, &vec![0xee; 64 << 10]);
            pair.post(WqeOpcode::RDMA_WRITE, &write);
            pair.go();
            let seen = pair.drain_a();
            assert_eq!(kinds(&seen), [CqeOpcode::REQ], "{service} {len}");
            assert_eq!(WqeOpcode(seen[0].sop()), WqeOpcode::RDMA_WRITE);
            let n = len as usize;
            assert_eq!(pair.bytes(to + 1, n), pair.bytes(from, n), "{service} {len}");
            assert_eq!(pair.bytes(to, 1), [0xee], "not the byte before");
            if n + 2 <= 64 << 10 {
                assert_eq!(pair.bytes(to + 1 + u64::from(len), 1), [0xee], "nor the one after");
            }
        }
        assert_eq!(pair.drain_b().len(), 0, "the peer is told nothing");
        assert_eq!(pair.bench.f.probe.mistakes().len(), 0);
    }
}

#[test]
fn psns_advance_by_packets_and_are_told() {
    let mut pair = Pair::new(QpType::RC);
    let (from, to, rkey, lkey) = (pair.from, pair.to, pair.rkey, pair.bench.lkey);
    // 256 bytes a packet: three, none counts as one, and a read counts its answers.
    for (opcode, len) in [(WqeOpcode::RDMA_WRITE, 700), (WqeOpcode::RDMA_READ, 513)] {
        pair.post(opcode, &wqe(&[&remote(to, rkey), &local(from, lkey, len)]));
    }
    pair.post(WqeOpcode::RDMA_WRITE, &wqe(&[&remote(0, 0)]));
    pair.go();
    assert_eq!(pair.drain_a().len(), 3);
    let (a, b) = (pair.bench.query_qp(pair.a.qpn), pair.bench.query_qp(pair.b.qpn));
    let next = (FIRST_PSN + 7) & 0xff_ffff;
    assert_eq!(QueryQpOut(&a).qpc().next_send_psn(), next);
    assert_eq!(QueryQpOut(&a).qpc().last_acked_psn(), next - 1);
    assert_eq!(QueryQpOut(&b).qpc().next_rcv_psn(), next);
    assert_eq!(QueryQpOut(&b).qpc().rmsn(), 3);
    assert_eq!(QueryQpOut(&b).qpc().next_send_psn(), FIRST_PSN);
}

#[test]
fn sends_use_receives_in_order() {
    for service in [QpType::RC, QpType::UC] {
        let mut pair = Pair::new(service);
        let (from, to, lkey) = (pair.from, pair.to, pair.bench.lkey);
        pair.bench.post_receive(&mut pair.b, &[(to, 100), (to + 1000, 1000)]);
        pair.bench.post_receive(&mut pair.b, &[(to + 4096, 4096)]);
        pair.bench.post_receive(&mut pair.b, &[]);
        let gather = [&local(from, lkey, 30)[..], &local(from + 100, lkey, 600)];
        pair.post(WqeOpcode::SEND, &wqe(&gather));
        let mut immediate = wqe(&[&inline(b"abc")]);
        WqeCtrlSeg(&mut immediate[..]).set_imm(0x1234_5678);
        WqeCtrlSeg(&mut immediate[..]).set_se(true);
        pair.post(WqeOpcode::SEND_IMM, &immediate);
        pair.post(WqeOpcode::SEND, &wqe(&[]));
        pair.go();
        assert_eq!(kinds(&pair.drain_a()), [CqeOpcode::REQ; 3]);
        let seen = pair.drain_b();
        let (plain, with) = (CqeOpcode::RESP_SEND, CqeOpcode::RESP_SEND_IMM);
        assert_eq!(kinds(&seen), [plain, with, plain]);
        assert_eq!(seen.iter().map(|e| e.byte_cnt()).collect::<Vec<_>>(), [630, 3, 0]);
        assert_eq!(seen.iter().map(|e| e.wqe_counter()).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(seen.iter().map(|e| e.se()).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!((seen[1].immediate(), seen[1].rqpn()), (0x1234_5678, pair.a.qpn));
        assert_eq!((seen[0].qpn(), seen[0].slid()), (pair.b.qpn, IDENTITY.lid));
        let mut sent = pair.bytes(from, 30);
        sent.extend(pair.bytes(from + 100, 600));
        let mut got = pair.bytes(to, 100);
        got.extend(pair.bytes(to + 1000, 530));
        assert_eq!(got, sent);
        assert_eq!(pair.bytes(to + 4096, 4), b"abc\0");
    }
}

#[test]
fn reads_of_all_lengths_arrive() {
    let mut pair = Pair::new(QpType::RC);
    let (from, to, rkey, lkey) = (pair.from, pair.to, pair.rkey, pair.bench.lkey);
    for len in [1u32, 256, 257, 65_535] {
        pair.bench.write(to, &vec![0; 64 << 10]);
        let read = wqe(&[&remote(from, rkey), &local(to, lkey, 1), &local(to + 1, lkey, len)]);
        pair.post(WqeOpcode::RDMA_READ, &read[..if len == 1 { 48 } else { 64 }]);
        pair.go();
        let seen = pair.drain_a();
        assert_eq!(kinds(&seen), [CqeOpcode::REQ]);
        let n = if len == 1 { 1 } else { len as usize + 1 };
        assert_eq!(seen[0].byte_cnt() as usize, n);
        assert_eq!(pair.bytes(to, n), pair.bytes(from, n));
    }
}

#[test]
fn a_write_with_immediate_data_uses_a_receive() {
    let mut pair = Pair::new(QpType::RC);
    let (from, to, rkey, lkey) = (pair.from, pair.to, pair.rkey, pair.bench.lkey);
    pair.bench.post_receive(&mut pair.b, &[]);
    let mut write = wqe(&[&remote(to, rkey), &local(from, lkey, 1000)]);
    WqeCtrlSeg(&mut write[..]).set_imm(99);
    pair.post(WqeOpcode::RDMA_WRITE_IMM, &write);
    pair.go();
    assert_eq!(kinds(&pair.drain_a()), [CqeOpcode::REQ]);
    let seen = pair.drain_b();
    assert_eq!(kinds(&seen), [CqeOpcode::RESP_WR_IMM]);
    assert_eq!((seen[0].byte_cnt(), seen[0].immediate()), (1000, 99));
    assert_eq!(pair.bytes(to, 1000), pair.bytes(from, 1000));
}

#[test]
fn atomics_return_what_was() {
    let mut pair = Pair::new(QpType::RC);
    let (to, rkey, lkey) = (pair.to, pair.rkey, pair.bench.lkey);
    pair.bench.write(to, &40u64.to_le_bytes());
    let result = to + 64;
    let mut atomic = |opcode, words: &[u64]| {
        let wqe = wqe(&[&remote(to, rkey), &operands(words), &local(result, lkey, 8)]);
        pair.post(opcode, &wqe);
        pair.go();
        let seen = pair.drain_a();
        assert_eq!(kinds(&seen), [CqeOpcode::REQ]);
        assert_eq!(seen[0].byte_cnt(), 8);
        let word = |at| u64::from_le_bytes(pair.bytes(at, 8).try_into().unwrap());
        // The driver has not asked for its own byte order.
        (word(result).swap_bytes(), word(to))
    };
    assert_eq!(atomic(WqeOpcode::ATOMIC_FA, &[2, 0]), (40, 42));
    assert_eq!(atomic(WqeOpcode::ATOMIC_CS, &[7, 41]), (42, 42), "not equal");
    assert_eq!(atomic(WqeOpcode::ATOMIC_CS, &[7, 42]), (42, 7));
    assert_eq!(atomic(WqeOpcode::ATOMIC_MASKED_CS, &[0xf0, 1, 0xff, 1]), (7, 0xf0));
    assert_eq!(atomic(WqeOpcode::ATOMIC_MASKED_FA, &[0x1f, 0x80]), (0xf0, 0x0f));
}

#[test]
fn a_queue_pair_that_is_its_own_peer() {
    let mut pair = Pair::new(QpType::RC);
    let (from, to, rkey, lkey) = (pair.from, pair.to, pair.rkey, pair.bench.lkey);
    pair.bench.state_command(Opcode::TORST_QP, pair.a.qpn);
    pair.bench.connect(pair.a.qpn, pair.a.qpn, |_| {});
    pair.bench.post_receive(&mut pair.a, &[(to, 64)]);
    pair.post(WqeOpcode::SEND, &wqe(&[&local(from, lkey, 64)]));
    pair.post(WqeOpcode::RDMA_READ, &wqe(&[&remote(from, rkey), &local(to + 64, lkey, 640)]));
    pair.go();
    let (request, response) = (CqeOpcode::REQ, CqeOpcode::RESP_SEND);
    assert_eq!(kinds(&pair.drain_a()), [response, request, request]);
    assert_eq!(pair.bytes(to, 64), pair.bytes(from, 64));
    assert_eq!(pair.bytes(to + 64, 640), pair.bytes(from, 640));
}

#[test]
fn data_that_fits_goes_into_the_completion() {
    let mut pair = Pair::new(QpType::RC);
    let cqs = |pair: &mut Pair, stride| {
        let (a_cq, b_cq) =
            (pair.bench.cq_of(4, stride, |_| {}), pair.bench.cq_of(4, stride, |_| {}));
        (pair.a_cq, pair.b_cq) = (a_cq, b_cq);
    };
    for (stride, code, most) in [(64, 1, 32), (128, 2, 64)] {
        cqs(&mut pair, stride);
        let (a_cqn, b_cqn) = (pair.a_cq.cqn, pair.b_cq.cqn);
        let mut options = common::QpOptions::new(QpType::RC, a_cqn, a_cqn);
        options.scatter_to_cqe = code;
        pair.a = pair.bench.qp(&options);
        (options.send_cq, options.receive_cq) = (b_cqn, b_cqn);
        pair.b = pair.bench.qp(&options);
        pair.bench.connect(pair.a.qpn, pair.b.qpn, |_| {});
        pair.bench.connect(pair.b.qpn, pair.a.qpn, |_| {});
        let (from, to, rkey, lkey) = (pair.from, pair.to, pair.rkey, pair.bench.lkey);
        pair.bench.write(to, &[0; 128]);
        for len in [most, most + 1] {
            pair.bench.post_receive(&mut pair.b, &[(to, 100)]);
            pair.post(WqeOpcode::SEND, &wqe(&[&local(from, lkey, len)]));
            pair.post(WqeOpcode::RDMA_READ, &wqe(&[&remote(from, rkey), &local(to, lkey, len)]));
            pair.go();
            let n = len as usize;
            let slots = [(&pair.a_cq, 1), (&pair.b_cq, 0)]
                .map(|(cq, skip)| cq.ring + stride * (u64::from(cq.consumer) + skip));
            let formats = [pair.drain_a()[1].format(), pair.drain_b()[0].format()];
            if len == most {
                assert_eq!(formats, [code, code]);
                for slot in slots {
                    assert_eq!(pair.bytes(slot, n), pair.bytes(from, n), "{stride}");
                }
                assert_eq!(pair.bytes(to, n), vec![0; n], "memory is left alone");
            } else {
                assert_eq!(formats, [0, 0]);
                assert_eq!(pair.bytes(to, n), pair.bytes(from, n));
            }
        }
    }
}

#[test]
fn the_first_packet_tells_that_the_connection_is_there() {
    let mut pair = Pair::new(QpType::RC);
    let (to, rkey, b) = (pair.to, pair.rkey, pair.b.qpn);
    pair.bench.state_command(Opcode::TORST_QP, b);
    let a = pair.a.qpn;
    for opcode in [Opcode::RST2INIT_QP, Opcode::INIT2RTR_QP] {
        let status = pair.bench.transition(opcode, b, 0, |qpc| {
            qpc.set_pm_state(3);
            qpc.set_rwe(true);
            qpc.set_mtu(1);
            qpc.set_remote_qpn(a);
            qpc.set_next_rcv_psn(FIRST_PSN);
            let mut path = qpc.primary_address_path_mut();
            path.set_vhca_port_num(1);
            path.set_rlid(IDENTITY.lid);
        });
        assert_eq!(status, Status::OK);
    }
    for _ in 0..2 {
        pair.post(WqeOpcode::RDMA_WRITE, &wqe(&[&remote(to, rkey), &inline(b"x")]));
        pair.go();
    }
    assert_eq!(pair.bench.async_events(), [(EventType::COMM_EST, b)], "told once");
    assert_eq!(kinds(&pair.drain_a()), [CqeOpcode::REQ; 2]);
}

#[test]
fn failures_are_in_order_and_what_follows_is_flushed() {
    let mut pair = Pair::new(QpType::RC);
    let (to, rkey) = (pair.to, pair.rkey);
    let write = wqe(&[&remote(to, rkey), &inline(b"x")]);
    let mut unsignalled = write.clone();
    WqeCtrlSeg(&mut unsignalled[..]).set_ce(0);
    let refused = wqe(&[&remote(to, rkey ^ 1), &inline(b"x")]);
    pair.post(WqeOpcode::RDMA_WRITE, &write);
    pair.post(WqeOpcode::RDMA_WRITE, &refused);
    pair.post(WqeOpcode::RDMA_WRITE, &unsignalled);
    pair.post(WqeOpcode::NOP, &write);
    pair.bench.post_receive(&mut pair.b, &[(to, 64)]);
    pair.go();
    let seen = pair.drain_a();
    assert_eq!(
        seen.iter().map(|e| (CqeOpcode(e.opcode()), e.wqe_counter())).collect::<Vec<_>>(),
        [
            (CqeOpcode::REQ, 0),
            (CqeOpcode::REQ_ERR, 1),
            (CqeOpcode::REQ_ERR, 2),
            (CqeOpcode::REQ_ERR, 3),
        ]
    );
    assert_eq!(failure(&seen[1]), (CqeSyndrome::REMOTE_ACCESS_ERR, 0x88));
    assert_eq!(failure(&seen[2]), (CqeSyndrome::WR_FLUSH_ERR, 0xf9));
    assert_eq!(pair.bench.state(pair.a.qpn), QpState::ERR);
    assert_eq!(pair.bench.state(pair.b.qpn), QpState::ERR);
    assert_eq!(pair.bench.async_events(), [(EventType::WQ_ACCESS_ERROR, pair.b.qpn)]);
    let flushed = pair.drain_b();
    assert_eq!(failure(&flushed[0]), (CqeSyndrome::WR_FLUSH_ERR, 0xf9));
}

#[test]
fn data_of_a_receive_that_fails_is_in_no_other_completion() {
    let mut pair = Pair::new(QpType::RC);
    let (a_cqn, b_cqn) = (pair.a_cq.cqn, pair.b_cq.cqn);
    let mut options = common::QpOptions::new(QpType::RC, a_cqn, a_cqn);
    options.scatter_to_cqe = 1;
    pair.a = pair.bench.qp(&options);
    (options.send_cq, options.receive_cq) = (b_cqn, b_cqn);
    pair.b = pair.bench.qp(&options);
    pair.bench.connect(pair.a.qpn, pair.b.qpn, |_| {});
    pair.bench.connect(pair.b.qpn, pair.a.qpn, |_| {});
    // A key that nobody has made can't be invalidated: the receive fails, its data in hand.
    pair.bench.post_receive(&mut pair.b, &[(pair.to, 64)]);
    let mut send = wqe(&[&inline(b"secret")]);
    WqeCtrlSeg(&mut send[..]).set_imm(0xdead_be00);
    pair.post(WqeOpcode::SEND_INVAL, &send);
    pair.go();
    assert_eq!(kinds(&pair.drain_b())[0], CqeOpcode::RESP_ERR);
    pair.drain_a();
    let cq = pair.bench.cq(4);
    let mut other = pair.bench.ready_qp(&common::QpOptions::new(QpType::RC, cq.cqn, cq.cqn));
    pair.bench.nops(&mut other, 1);
    let mut cq = cq;
    let seen = pair.bench.drain(&mut cq);
    assert_eq!((seen.len(), seen[0].format()), (1, 0));
    assert_ne!(&seen[0].0[..6], b"secret");
}

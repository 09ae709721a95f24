//! The send queue: rings, sizes, flushes, states, doorbells.

mod common;

use common::{Bench, Cq, Qp, QpOptions, failure};
use layouts::*;

fn counters(entries: &[Cqe64<[u8; 64]>]) -> Vec<u16> {
    entries.iter().map(Cqe64::wqe_counter).collect()
}

fn pair(bench: &mut Bench, service: QpType) -> (Cq, Qp) {
    let cq = bench.cq(6);
    let qp = bench.ready_qp(&QpOptions::new(service, cq.cqn, cq.cqn));
    (cq, qp)
}

#[test]
fn the_ring_wraps_and_so_do_the_counters() {
    let mut bench = Bench::new();
    let (mut cq, mut qp) = pair(&mut bench, QpType::RC);
    let mut expected = Vec::new();
    let mut seen = Vec::new();
    // 70 000 basic blocks: the 16-bit counter wraps too.
    for _ in 0..7_000 {
        // One of three blocks, which lies across the ring's end now and then, and seven of one.
        let mut long = Bench::ctrl(true);
        long.resize(3 * 64, 0);
        expected.push(qp.posted);
        bench.post(&mut qp, WqeOpcode::NOP, &long);
        for _ in 0..7 {
            expected.push(qp.posted);
            bench.post(&mut qp, WqeOpcode::NOP, &Bench::ctrl(true));
        }
        bench.ring(&qp);
        bench.run();
        seen.extend(counters(&bench.drain(&mut cq)));
    }
    assert_eq!(seen, expected);
    assert_eq!(bench.f.probe.mistakes().len(), 0);
}

#[test]
fn only_signalled_work_is_completed() {
    let mut bench = Bench::new();
    let (mut cq, mut qp) = pair(&mut bench, QpType::UD);
    for signalled in [false, true, false, false, true] {
        bench.post(&mut qp, WqeOpcode::NOP, &Bench::ctrl(signalled));
    }
    bench.ring(&qp);
    bench.run();
    assert_eq!(counters(&bench.drain(&mut cq)), [1, 4]);
}

#[test]
fn a_doorbell_of_another_page_wakes_nothing() {
    let mut bench = Bench::new();
    let (mut cq, mut qp) = pair(&mut bench, QpType::RC);
    bench.run();
    bench.post(&mut qp, WqeOpcode::NOP, &Bench::ctrl(true));
    let own = bench.uar;
    bench.uar = AllocUarOut(&bench.f.ok(Opcode::ALLOC_UAR, 0, 0x10, 0x10, |_| {})).uar();
    bench.ring(&qp);
    bench.run();
    assert_eq!(bench.drain(&mut cq).len(), 0);
    assert_eq!(bench.f.probe.mistakes()["send queue doorbell"], 1);
    bench.uar = own;
    bench.ring(&qp);
    bench.run();
    assert_eq!(bench.drain(&mut cq).len(), 1);
}

#[test]
fn a_slice_is_no_longer_than_its_budget() {
    let mut bench = Bench::new();
    let (mut cq, mut qp) = pair(&mut bench, QpType::RC);
    let (mut other_cq, mut other) = pair(&mut bench, QpType::RC);
    for _ in 0..10 {
        bench.post(&mut qp, WqeOpcode::NOP, &Bench::ctrl(true));
        bench.post(&mut other, WqeOpcode::NOP, &Bench::ctrl(true));
    }
    bench.ring(&qp);
    bench.ring(&other);
    let Bench { f, engine, .. } = &mut bench;
    assert!(engine.run(&mut f.fw, (&f.memory, &f.probe), 0), "there is more");
    assert!(engine.run(&mut f.fw, (&f.memory, &f.probe), 1), "there is more");
    assert_eq!((bench.drain(&mut cq).len(), bench.drain(&mut other_cq).len()), (10, 0));
    bench.run();
    assert_eq!(bench.drain(&mut other_cq).len(), 10);
}

#[test]
fn a_failure_is_completed_and_what_follows_is_flushed() {
    for (service, state) in [
        (QpType::RC, QpState::ERR),
        (QpType::XRC, QpState::ERR),
        (QpType::REG_UMR, QpState::ERR),
        (QpType::UC, QpState::SQER),
        (QpType::UD, QpState::SQER),
        (QpType::QP0, QpState::SQER),
        (QpType::QP1, QpState::SQER),
    ] {
        let mut bench = Bench::new();
        let (mut cq, mut qp) = pair(&mut bench, service);
        bench.post(&mut qp, WqeOpcode::NOP, &Bench::ctrl(false));
        bench.post(&mut qp, WqeOpcode(0x3f), &Bench::ctrl(false));
        bench.post(&mut qp, WqeOpcode::NOP, &Bench::ctrl(false));
        bench.nops(&mut qp, 1);
        let seen = bench.drain(&mut cq);
        assert_eq!(
            counters(&seen),
            [1, 2, 3],
            "{service}: flushed work is completed, signalled or not"
        );
        assert!(seen.iter().all(|e| CqeOpcode(e.opcode()) == CqeOpcode::REQ_ERR));
        assert_eq!(failure(&seen[0]), (CqeSyndrome::LOCAL_QP_OP_ERR, 0x61));
        assert_eq!(seen[0].sop(), 0x3f);
        assert_eq!(failure(&seen[1]), (CqeSyndrome::WR_FLUSH_ERR, 0xf9));
        assert_eq!(bench.state(qp.qpn), state, "{service}");
        // What is posted later is flushed too.
        bench.nops(&mut qp, 1);
        assert_eq!(counters(&bench.drain(&mut cq)), [4]);
        if state == QpState::SQER {
            assert_eq!(bench.transition(Opcode::SQERR2RTS_QP, qp.qpn, 0, |_| {}), Status::OK);
            bench.nops(&mut qp, 1);
            let seen = bench.drain(&mut cq);
            assert_eq!(CqeOpcode(seen[0].opcode()), CqeOpcode::REQ);
        }
    }
}

#[test]
fn work_that_a_service_does_not_have_fails_and_is_noted() {
    for (service, opcode) in [
        (QpType::RC, WqeOpcode::LSO),
        (QpType::UC, WqeOpcode::RDMA_READ),
        (QpType::UC, WqeOpcode::ATOMIC_FA),
        (QpType::UC, WqeOpcode::SEND_INVAL),
        (QpType::XRC, WqeOpcode::SET_PSV),
        (QpType::UD, WqeOpcode::RDMA_READ),
        (QpType::UD, WqeOpcode::UMR),
    ] {
        let mut bench = Bench::new();
        let (mut cq, mut qp) = pair(&mut bench, service);
        let mut wqe = Bench::ctrl(true);
        wqe.resize(128, 0);
        bench.post(&mut qp, opcode, &wqe);
        bench.ring(&qp);
        bench.run();
        let seen = bench.drain(&mut cq);
        assert_eq!(failure(&seen[0]), (CqeSyndrome::LOCAL_QP_OP_ERR, 0x61), "{service} {opcode}");
        let touched = bench.f.probe.touched();
        let what = format!("{service} work request {:#x} {opcode}", opcode.0);
        assert_eq!(touched.get(&what), Some(&1), "{touched:?}");
    }
}

#[test]
fn sizes_that_can_not_be() {
    // No size at all, and one beyond what was posted.
    for ds in [0, 5] {
        let mut bench = Bench::new();
        let (mut cq, mut qp) = pair(&mut bench, QpType::RC);
        let at = qp.sends;
        bench.post(&mut qp, WqeOpcode::NOP, &Bench::ctrl(true));
        let mut ctrl: [u8; 16] = bench.read(at);
        WqeCtrlSeg(&mut ctrl[..]).set_ds(ds);
        bench.write(at, &ctrl);
        bench.ring(&qp);
        bench.run();
        let seen = bench.drain(&mut cq);
        assert_eq!(failure(&seen[0]), (CqeSyndrome::LOCAL_QP_OP_ERR, 0x61));
        assert_eq!(bench.state(qp.qpn), QpState::ERR);
    }
}

#[test]
fn a_doorbell_record_that_can_not_be() {
    let mut bench = Bench::new();
    let (mut cq, qp) = pair(&mut bench, QpType::RC);
    bench.write(qp.record + 4, &17u32.to_be_bytes());
    bench.ring(&qp);
    bench.run();
    assert_eq!(bench.async_events(), [(EventType::WQ_CATAS_ERROR, qp.qpn)]);
    assert_eq!(bench.state(qp.qpn), QpState::ERR);
    assert_eq!(bench.drain(&mut cq).len(), 0);
    bench.ring(&qp);
    bench.run();
    assert_eq!(bench.async_events(), [], "told once");
}

#[test]
fn both_queues_are_flushed_in_order() {
    let mut bench = Bench::new();
    let (mut cq, mut qp) = pair(&mut bench, QpType::RC);
    for _ in 0..3 {
        bench.post_receive(&mut qp, &[]);
    }
    // Posted, and no doorbell yet.
    bench.post(&mut qp, WqeOpcode::NOP, &Bench::ctrl(false));
    bench.post(&mut qp, WqeOpcode::NOP, &Bench::ctrl(true));
    assert_eq!(bench.state_command(Opcode::TOERR_QP, qp.qpn), Status::OK);
    bench.run();
    let seen = bench.drain(&mut cq);
    let kinds: Vec<_> = seen.iter().map(|e| (CqeOpcode(e.opcode()), e.wqe_counter())).collect();
    assert_eq!(
        kinds,
        [
            (CqeOpcode::REQ_ERR, 0),
            (CqeOpcode::REQ_ERR, 1),
            (CqeOpcode::RESP_ERR, 0),
            (CqeOpcode::RESP_ERR, 1),
            (CqeOpcode::RESP_ERR, 2),
        ]
    );
    for entry in &seen {
        assert_eq!(failure(entry), (CqeSyndrome::WR_FLUSH_ERR, 0xf9));
        assert_eq!((entry.qpn(), entry.srqn()), (qp.qpn, 0x77));
    }
}

#[test]
fn receives_posted_to_a_queue_pair_in_error_are_flushed_without_a_doorbell() {
    let mut bench = Bench::new();
    let (mut cq, mut qp) = pair(&mut bench, QpType::RC);
    bench.state_command(Opcode::TOERR_QP, qp.qpn);
    bench.run();
    for _ in 0..3 {
        bench.post_receive(&mut qp, &[]);
        let at = bench.engine.deadline(&bench.f.fw).expect("it will be looked at");
        bench.wait(at - bench.f.fw.now);
        assert_eq!(bench.drain(&mut cq).len(), 1);
    }
    // The longer nothing comes, the rarer it is looked at.
    for _ in 0..40 {
        let at = bench.engine.deadline(&bench.f.fw).unwrap();
        bench.wait(at - bench.f.fw.now);
    }
    assert_eq!(bench.engine.deadline(&bench.f.fw).unwrap() - bench.f.fw.now, 1_000_000_000);
    bench.state_command(Opcode::TORST_QP, qp.qpn);
    bench.wait(1_000_000_000);
    assert_eq!(bench.engine.deadline(&bench.f.fw), None, "no longer in error");
}

#[test]
fn a_reset_drops_what_the_queues_hold() {
    let mut bench = Bench::new();
    let (mut cq, mut qp) = pair(&mut bench, QpType::RC);
    bench.nops(&mut qp, 3);
    bench.post(&mut qp, WqeOpcode::NOP, &Bench::ctrl(true));
    bench.post_receive(&mut qp, &[]);
    assert_eq!(bench.state_command(Opcode::TORST_QP, qp.qpn), Status::OK);
    bench.ring(&qp);
    bench.run();
    assert_eq!(bench.drain(&mut cq).len(), 3);
    // As the driver does: counters begin anew.
    (qp.posted, qp.received) = (0, 0);
    bench.write(qp.record, &[0; 8]);
    bench.bring_up(qp.qpn);
    bench.nops(&mut qp, 2);
    assert_eq!(counters(&bench.drain(&mut cq)), [0, 1]);
}

#[test]
fn work_posted_before_the_queue_pair_can_send_waits() {
    let mut bench = Bench::new();
    let cq = bench.cq(4);
    let mut cq = cq;
    let mut qp = bench.qp(&QpOptions::new(QpType::RC, cq.cqn, cq.cqn));
    bench.nops(&mut qp, 1);
    assert_eq!(bench.drain(&mut cq).len(), 0, "RST");
    bench.bring_up(qp.qpn);
    bench.run();
    assert_eq!(bench.drain(&mut cq).len(), 1, "RTS");
}

#[test]
fn the_end_of_a_queue_pair_that_shares_receives_is_told() {
    let mut bench = Bench::new();
    let cq = bench.cq(4);
    let srqn = srq(&mut bench);
    let options = QpOptions { srqn: Some(srqn), ..QpOptions::new(QpType::RC, cq.cqn, cq.cqn) };
    let qp = bench.ready_qp(&options);
    bench.state_command(Opcode::TOERR_QP, qp.qpn);
    bench.run();
    assert_eq!(bench.async_events(), [(EventType::SRQ_LAST_WQE, qp.qpn)]);
    bench.state_command(Opcode::TOERR_QP, qp.qpn);
    bench.run();
    assert_eq!(bench.async_events(), [], "told once");
}

fn srq(bench: &mut Bench) -> u32 {
    let (ring, record, pd) = (bench.pages(4096), bench.pages(8), bench.pd);
    let out = bench.f.ok(Opcode::CREATE_RMP, 0, 0x118, 0x10, |input| {
        input[0x110..].copy_from_slice(&ring.to_be_bytes());
        let mut input = CreateRmpIn(input);
        let mut context = input.ctx_mut();
        context.set_state(1);
        let mut wq = context.wq_mut();
        wq.set_log_wq_sz(4);
        wq.set_log_wq_stride(6);
        wq.set_pd(pd);
        wq.set_dbr_addr(record);
    });
    CreateRmpOut(&out).rmpn()
}

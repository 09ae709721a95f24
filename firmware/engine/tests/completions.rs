//! Completion queues: laps, arming, moderation, overrun, resizing.

mod common;

use common::{Bench, Cq, Qp, QpOptions};
use layouts::*;

fn nop_qp(bench: &mut Bench, cq: &Cq) -> Qp {
    bench.ready_qp(&QpOptions { log_sends: 6, ..QpOptions::new(QpType::REG_UMR, cq.cqn, cq.cqn) })
}

#[test]
fn entries_change_hands_lap_by_lap() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(2);
    let mut qp = nop_qp(&mut bench, &cq);
    for i in 0..40u16 {
        assert!(bench.poll(&mut cq).is_none(), "before {i}");
        bench.nops(&mut qp, 1);
        let entry = bench.poll(&mut cq).unwrap();
        assert_eq!(CqeOpcode(entry.opcode()), CqeOpcode::REQ);
        assert_eq!(entry.wqe_counter(), i);
        assert_eq!(entry.qpn(), qp.qpn);
        assert_eq!(WqeOpcode(entry.sop()), WqeOpcode::NOP);
        assert_eq!(entry.srqn(), 0x77, "the user's index");
    }
}

#[test]
fn an_entry_of_128_bytes_is_its_second_half() {
    let mut bench = Bench::new();
    let mut cq = bench.cq_of(2, 128, |_| {});
    let mut qp = nop_qp(&mut bench, &cq);
    for i in 0..9 {
        bench.nops(&mut qp, 1);
        assert_eq!(bench.poll(&mut cq).unwrap().wqe_counter(), i);
    }
    assert_eq!(bench.read::<64>(cq.ring), [0; 64]);
}

#[test]
fn an_entry_of_128_bytes_may_lie_across_pages() {
    let mut bench = Bench::new();
    let mut cq = bench.cq_of(5, 128, |cqc| cqc.set_page_offset(1));
    cq.ring += 64;
    for i in 0..32 {
        bench.write(cq.ring + 128 * (i + 1) - 1, &[0xf1]);
    }
    let mut qp = nop_qp(&mut bench, &cq);
    bench.nops(&mut qp, 32);
    let read: Vec<u16> = bench.drain(&mut cq).iter().map(Cqe64::wqe_counter).collect();
    assert_eq!(read, (0..32).collect::<Vec<u16>>());
}

#[test]
fn an_armed_queue_tells_once() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(4);
    let mut qp = nop_qp(&mut bench, &cq);
    bench.nops(&mut qp, 2);
    assert_eq!(bench.completion_events(), [], "never armed");
    bench.arm(&cq, false);
    assert_eq!(bench.completion_events(), [cq.cqn], "entries beyond the consumer index");
    assert_eq!(bench.drain(&mut cq).len(), 2);
    bench.arm(&cq, false);
    assert_eq!(bench.completion_events(), []);
    bench.f.memory.take_interrupts();
    bench.nops(&mut qp, 3);
    assert_eq!(bench.f.memory.take_interrupts(), [1], "the vector of the queue of completions");
    assert_eq!(bench.completion_events(), [cq.cqn]);
}

/// perftest arms before it reads, and takes a second event for a second entry.
#[test]
fn an_entry_is_told_of_once() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(4);
    let mut qp = nop_qp(&mut bench, &cq);
    bench.arm(&cq, false);
    bench.nops(&mut qp, 1);
    assert_eq!(bench.completion_events(), [cq.cqn]);
    bench.arm(&cq, false);
    assert_eq!(bench.completion_events(), [], "not read, but told of");
    bench.nops(&mut qp, 1);
    assert_eq!(bench.completion_events(), [cq.cqn]);
    // One that came while nobody waited is told of when somebody does.
    bench.nops(&mut qp, 1);
    assert_eq!(bench.completion_events(), []);
    bench.arm(&cq, false);
    assert_eq!(bench.completion_events(), [cq.cqn]);
    assert_eq!(bench.drain(&mut cq).len(), 3);
    bench.arm(&cq, false);
    assert_eq!(bench.completion_events(), []);
}

#[test]
fn armed_for_solicited_entries_and_errors_only() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(4);
    let mut qp = nop_qp(&mut bench, &cq);
    bench.arm(&cq, true);
    bench.nops(&mut qp, 2);
    assert_eq!(bench.completion_events(), []);
    // A completion that asks for an event counts as solicited.
    let mut wqe = Bench::ctrl(true);
    WqeCtrlSeg(&mut wqe).set_ce(3);
    bench.post(&mut qp, WqeOpcode::NOP, &wqe);
    bench.ring(&qp);
    bench.run();
    assert_eq!(bench.completion_events(), [cq.cqn]);
    // Armed again with that entry not read: at once. With all read: not before the next.
    bench.arm(&cq, true);
    assert_eq!(bench.completion_events(), [cq.cqn]);
    bench.drain(&mut cq);
    bench.arm(&cq, true);
    bench.nops(&mut qp, 1);
    assert_eq!(bench.completion_events(), []);
    bench.post(&mut qp, WqeOpcode(0x3f), &Bench::ctrl(false));
    bench.ring(&qp);
    bench.run();
    assert_eq!(bench.completion_events(), [cq.cqn], "an error");
}

#[test]
fn doorbells_that_make_no_sense_are_ignored() {
    let mut bench = Bench::new();
    let cq = bench.cq(4);
    let mut qp = nop_qp(&mut bench, &cq);
    let other = AllocUarOut(&bench.f.ok(Opcode::ALLOC_UAR, 0, 0x10, 0x10, |_| {})).uar();
    let own = std::mem::replace(&mut bench.uar, other);
    bench.arm(&cq, false);
    bench.uar = own;
    bench.arm(&Cq { cqn: cq.cqn + 1, ..cq }, false);
    bench.arm(&Cq { consumer: 1, ..cq }, false);
    bench.nops(&mut qp, 1);
    assert_eq!(bench.completion_events(), []);
    assert_eq!(bench.f.probe.mistakes().values().sum::<u64>(), 3);
}

#[test]
fn moderated_by_count_and_by_time() {
    let mut bench = Bench::new();
    let mut cq = bench.cq_of(5, 64, |cqc| {
        cqc.set_cq_max_count(3);
        cqc.set_cq_period(10);
    });
    let mut qp = nop_qp(&mut bench, &cq);
    bench.arm(&cq, false);
    bench.nops(&mut qp, 2);
    assert_eq!(bench.completion_events(), []);
    bench.nops(&mut qp, 1);
    assert_eq!(bench.completion_events(), [cq.cqn], "three");
    bench.drain(&mut cq);
    bench.arm(&cq, false);
    bench.nops(&mut qp, 1);
    assert_eq!(bench.engine.deadline(&bench.f.fw), Some(bench.f.fw.now + 10_000));
    bench.wait(9_999);
    assert_eq!(bench.completion_events(), []);
    bench.wait(1);
    assert_eq!(bench.completion_events(), [cq.cqn], "10 us after the first");
    assert_eq!(bench.engine.deadline(&bench.f.fw), None);
}

#[test]
fn moderation_taken_away_tells_of_what_waited() {
    let mut bench = Bench::new();
    let cq = bench.cq_of(5, 64, |cqc| cqc.set_cq_max_count(100));
    let mut qp = nop_qp(&mut bench, &cq);
    bench.arm(&cq, false);
    bench.nops(&mut qp, 1);
    assert_eq!(bench.completion_events(), []);
    bench.f.ok(Opcode::MODIFY_CQ, 0, 0x110, 0x10, |input| {
        let mut input = ModifyCqIn(input);
        input.set_cqn(cq.cqn);
        input.modify_field_select_mut().set_modify_field_select(0b11);
    });
    assert_eq!(bench.completion_events(), [cq.cqn]);
    let out = bench.f.ok(Opcode::QUERY_CQ, 0, 0x10, 0x110, |i| QueryCqIn(i).set_cqn(cq.cqn));
    assert_eq!(QueryCqOut(&out).cq_context().cq_max_count(), 0);
    assert_eq!(QueryCqOut(&out).cq_context().producer_counter(), 1);
}

#[test]
fn an_overrun_ends_the_queue_and_its_queue_pair() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(2);
    let mut qp = nop_qp(&mut bench, &cq);
    bench.nops(&mut qp, 4);
    assert_eq!(bench.async_events(), []);
    bench.nops(&mut qp, 2);
    assert_eq!(
        bench.async_events(),
        [(EventType::CQ_ERROR, cq.cqn), (EventType::WQ_CATAS_ERROR, qp.qpn)]
    );
    assert_eq!(bench.state(qp.qpn), QpState::ERR);
    let read = bench.drain(&mut cq);
    assert_eq!(read.iter().map(Cqe64::wqe_counter).collect::<Vec<_>>(), [0, 1, 2, 3]);
    // It takes no more, though there is room now.
    bench.nops(&mut qp, 1);
    assert_eq!(bench.drain(&mut cq).len(), 0);
    assert_eq!(bench.async_events(), [], "told once");
    let out = bench.f.ok(Opcode::QUERY_CQ, 0, 0x10, 0x110, |i| QueryCqIn(i).set_cqn(cq.cqn));
    assert_eq!(QueryCqOut(&out).cq_context().status(), 9, "overflow");
}

#[test]
fn overruns_may_be_ignored() {
    let mut bench = Bench::new();
    let cq = bench.cq_of(2, 64, |cqc| cqc.set_oi(true));
    let mut qp = nop_qp(&mut bench, &cq);
    for _ in 0..10 {
        bench.nops(&mut qp, 3);
    }
    assert_eq!(bench.async_events(), []);
    assert_eq!(bench.state(qp.qpn), QpState::RTS);
}

#[test]
fn a_queue_whose_buffer_is_not_mapped() {
    let mut bench = Bench::new();
    let cq = bench.cq(2);
    let out = bench.f.ok(Opcode::CREATE_CQ, 0, 0x118, 0x10, |input| {
        input[0x110..].copy_from_slice(&(1u64 << 40).to_be_bytes());
        let mut input = CreateCqIn(input);
        let mut cqc = input.cq_context_mut();
        cqc.set_log_cq_size(2);
        cqc.set_uar_page(bench.uar);
        cqc.set_c_eqn_or_apu_element(bench.completions.eqn);
        cqc.set_dbr_addr(cq.record);
    });
    let nowhere = Cq { cqn: CreateCqOut(&out).cqn(), ..cq };
    let mut qp = nop_qp(&mut bench, &nowhere);
    bench.nops(&mut qp, 1);
    assert_eq!(
        bench.async_events(),
        [(EventType::CQ_ERROR, nowhere.cqn), (EventType::WQ_CATAS_ERROR, qp.qpn)]
    );
}

/// Resizes a queue to a new buffer; the old one is returned.
fn resize(bench: &mut Bench, cq: &mut Cq, log_size: u32) -> Status {
    let ring = bench.pages(64 << log_size.min(10));
    for i in 0..1 << log_size.min(10) {
        bench.write(ring + 64 * (i + 1) - 1, &[0xf1]);
    }
    let (status, _) = bench.f.run(Opcode::MODIFY_CQ, 1, 0x118, 0x10, |input| {
        input[0x110..].copy_from_slice(&ring.to_be_bytes());
        let mut input = ModifyCqIn(input);
        input.set_cqn(cq.cqn);
        input.resize_field_select_mut().set_resize_field_select(0b111);
        input.cq_context_mut().set_log_cq_size(log_size as u8);
    });
    if status == Status::OK {
        // As the driver does: what it has not read is copied, one place on.
        loop {
            let index = cq.consumer;
            let entry = bench.poll(cq).expect("the old buffer ends with an entry that says so");
            if CqeOpcode(entry.opcode()) == CqeOpcode::RESIZE_CQ {
                cq.ring = ring;
                cq.log_size = log_size;
                break;
            }
            let to = u64::from((index + 1) & ((1 << log_size) - 1));
            let mut entry = entry;
            entry.set_owner((index + 1) >> log_size & 1 == 1);
            bench.write(ring + 64 * to, &entry.0);
        }
    }
    status
}

#[test]
fn resizing_loses_nothing() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(3);
    let mut qp = nop_qp(&mut bench, &cq);
    bench.nops(&mut qp, 7);
    assert_eq!(bench.drain(&mut cq).len(), 7);
    bench.nops(&mut qp, 3);
    let read = cq.consumer;
    assert_eq!(resize(&mut bench, &mut cq, 5), Status::OK);
    // The driver reads what it copied from one place behind where it was.
    cq.consumer = read + 1;
    bench.nops(&mut qp, 20);
    let read: Vec<u16> = bench.drain(&mut cq).iter().map(Cqe64::wqe_counter).collect();
    assert_eq!(read, (7..30).collect::<Vec<u16>>());
    // And to a smaller one.
    assert_eq!(resize(&mut bench, &mut cq, 2), Status::OK);
    bench.nops(&mut qp, 4);
    assert_eq!(bench.drain(&mut cq).len(), 4);
    assert_eq!(bench.async_events(), []);
}

#[test]
fn resizing_is_refused_when_the_entries_do_not_fit() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(4);
    let mut qp = nop_qp(&mut bench, &cq);
    bench.nops(&mut qp, 4);
    assert_eq!(resize(&mut bench, &mut cq, 2), Status::BAD_SIZE_OUTS_CQES);
    assert_eq!(bench.drain(&mut cq).len(), 4, "nothing has changed");
    assert_eq!(resize(&mut bench, &mut cq, 23), Status::BAD_PARAM);
    assert_eq!(resize(&mut bench, &mut cq, 12), Status::BAD_PARAM, "one page is too few");
}

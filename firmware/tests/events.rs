//! Event queues: ownership, arming, overflow.

mod common;

use common::Fixture;
use dma::Dma;
use layouts::*;

const RING: u64 = 0x10000;

fn uar(f: &mut Fixture) -> u32 {
    AllocUarOut(&f.ok(Opcode::ALLOC_UAR, 0, 0x10, 0x10, |_| {})).uar()
}

fn create(f: &mut Fixture, uar: u32, log_size: u8, vector: u16, events: u64) -> (Status, u32) {
    let pages = ((64usize << log_size).div_ceil(4096)).min(16);
    let (status, out) = f.run(Opcode::CREATE_EQ, 0, 0x110 + 8 * pages, 0x10, |input| {
        let mut input = CreateEqIn(input);
        input.set_event_bitmask(&[events, 0, 0, 0]);
        let mut eqc = input.eq_context_entry_mut();
        eqc.set_log_eq_size(log_size);
        eqc.set_uar_page(uar);
        eqc.set_intr(vector);
        for i in 0..pages {
            let page = RING + 4096 * i as u64;
            input.0[0x110 + 8 * i..][..8].copy_from_slice(&page.to_be_bytes());
        }
    });
    (status, CreateEqOut(&out).eq_number().into())
}

fn post(f: &mut Fixture, eqn: u32, cqn: u32) {
    f.fw.eqs.post((&f.memory, &f.probe), eqn, EventType::COMP, 0, |eqe| {
        eqe.comp_mut().set_cqn(cqn);
    });
}

fn entry(f: &Fixture, index: u64) -> (u32, bool) {
    let mut bytes = [0; 64];
    f.memory.read(RING + 64 * index, &mut bytes).unwrap();
    (Eqe(&bytes).comp().cqn(), Eqe(&bytes).owner())
}

#[test]
fn the_owner_bit_alternates_and_a_full_queue_loses_nothing_it_holds() {
    let mut f = Fixture::ready();
    let uar = uar(&mut f);
    let (_, eqn) = create(&mut f, uar, 2, 3, 0);
    for lap in 0..3u32 {
        for i in 0..4 {
            post(&mut f, eqn, 100 + lap * 4 + i);
            assert_eq!(entry(&f, i.into()), (100 + lap * 4 + i, lap % 2 == 1));
        }
        post(&mut f, eqn, 999);
        assert_eq!(entry(&f, 0).0, 100 + lap * 4, "the queue was full");
        assert_eq!(f.fw.eqs.lost, u64::from(lap) + 1);
        f.fw.eqs.doorbell((&f.memory, &f.probe), uar, eqn, (lap + 1) * 4, false);
    }
    assert_eq!(f.memory.take_interrupts(), [], "never armed");
}

#[test]
fn an_armed_queue_interrupts_once() {
    let mut f = Fixture::ready();
    let uar = uar(&mut f);
    let (_, eqn) = create(&mut f, uar, 4, 3, 0);
    f.fw.eqs.doorbell((&f.memory, &f.probe), uar, eqn, 0, true);
    post(&mut f, eqn, 1);
    post(&mut f, eqn, 2);
    assert_eq!(f.memory.take_interrupts(), [3]);
    // Armed with an entry unseen: at once. Armed with none: at the next.
    f.fw.eqs.doorbell((&f.memory, &f.probe), uar, eqn, 1, true);
    assert_eq!(f.memory.take_interrupts(), [3]);
    f.fw.eqs.doorbell((&f.memory, &f.probe), uar, eqn, 2, true);
    assert_eq!(f.memory.take_interrupts(), []);
    post(&mut f, eqn, 3);
    assert_eq!(f.memory.take_interrupts(), [3]);
}

#[test]
fn doorbells_that_make_no_sense_change_nothing() {
    let mut f = Fixture::ready();
    let (own, other) = (uar(&mut f), uar(&mut f));
    let (_, eqn) = create(&mut f, own, 4, 0, 0);
    post(&mut f, eqn, 1);
    let bell = |f: &mut Fixture, uar, eqn, ci| {
        f.fw.eqs.doorbell((&f.memory, &f.probe), uar, eqn, ci, true);
    };
    bell(&mut f, other, eqn, 1);
    bell(&mut f, own, eqn + 1, 1);
    bell(&mut f, own, eqn, 2);
    bell(&mut f, own, eqn, 0xff_ffff);
    assert_eq!(f.memory.take_interrupts(), []);
    assert_eq!(f.probe.mistakes().values().sum::<u64>(), 4);
}

#[test]
fn creation_is_checked() {
    let mut f = Fixture::ready();
    let uar = uar(&mut f);
    assert_eq!(create(&mut f, uar, 23, 0, 0).0, Status::BAD_PARAM, "too large");
    assert_eq!(create(&mut f, uar, 20, 0, 0).0, Status::BAD_PARAM, "too few pages");
    assert_eq!(create(&mut f, uar, 4, 64, 0).0, Status::BAD_PARAM, "no such vector");
    assert_eq!(create(&mut f, uar + 1, 4, 0, 0).0, Status::BAD_RES, "no such UAR");
    let (status, eqn) = create(&mut f, uar, 4, 63, 0);
    assert_eq!(status, Status::OK);
    let busy = f.run(Opcode::DEALLOC_UAR, 0, 0x10, 0x10, |i| DeallocUarIn(i).set_uar(uar));
    assert_eq!(busy.0, Status::RES_BUSY);
    let destroy = |i: &mut [u8]| DestroyEqIn(i).set_eq_number(eqn as u8);
    f.ok(Opcode::DESTROY_EQ, 0, 0x10, 0x10, destroy);
    assert_eq!(f.run(Opcode::DESTROY_EQ, 0, 0x10, 0x10, destroy).0, Status::BAD_RES);
    f.ok(Opcode::DEALLOC_UAR, 0, 0x10, 0x10, |i| DeallocUarIn(i).set_uar(uar));
}

#[test]
fn events_go_to_the_queue_that_asked_for_them() {
    let mut f = Fixture::ready();
    let uar = uar(&mut f);
    create(&mut f, uar, 4, 1, 1 << EventType::CMD.0);
    let (_, pages) = create(&mut f, uar, 4, 2, 1 << EventType::PAGE_REQUEST.0);
    f.fw.eqs.doorbell((&f.memory, &f.probe), uar, pages, 0, true);
    assert!(f.fw.eqs.post_async((&f.memory, &f.probe), EventType::PAGE_REQUEST, 0, |_| {}));
    assert_eq!(f.memory.take_interrupts(), [2]);
    assert!(!f.fw.eqs.post_async((&f.memory, &f.probe), EventType::PORT_CHANGE, 0, |_| {}));
}

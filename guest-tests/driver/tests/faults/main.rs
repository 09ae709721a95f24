//! A card that misbehaves by rule, as a driver sees it.

#[path = "../common/mod.rs"]
mod common;

mod card;
mod commands;
mod data;
mod events;
mod memory;
mod work;

use common::{TestDriver, ask, create, driver, objects};
use control::Request;
use dma::Dma;
use driver::cq::{self, CompletionQueue};
use driver::qp::{Peer, QueuePair, data_segment};
use driver::{Error, Port as _, RdmaDevice};
use function::Config;
use layouts::{
    AllocPdIn, AllocPdOut, Cqe64, CqeOpcode, CqeSyndrome, DeliveryStatus, EventType,
    HcaVportContext, MboxIn, Opcode, PortChange, QpState, QpType, Status, WqeCtrlSeg, WqeOpcode,
};

/// A driver that is up.
fn up() -> (TestDriver, RdmaDevice) {
    let mut driver = driver(&Config::default());
    let device = driver.power_on().unwrap();
    (driver, device)
}

/// One more rule, called `r`, with this at its point.
fn fault(driver: &mut TestDriver, at: &str, rest: &str) {
    faults_added(driver, &format!("[[fault]]\nname = 'r'\nat = '{at}'\n{rest}"));
}

/// More rules.
fn faults_added(driver: &mut TestDriver, text: &str) {
    for rule in faults::parse(text).unwrap() {
        let rule = serde_json::to_value(rule).unwrap();
        ask(driver, Request::FaultAdd { rule });
    }
}

/// How often `r` has matched and fired.
fn counts(driver: &mut TestDriver) -> (u64, u64) {
    let list = ask(driver, Request::FaultList {});
    let list: control::Faults = serde_json::from_value(list).unwrap();
    (list.rules[0].matched, list.rules[0].fired)
}

fn release(driver: &mut TestDriver) -> u64 {
    let released = ask(driver, Request::FaultRelease { name: "r".into() });
    serde_json::from_value::<control::Released>(released).unwrap().released
}

fn submit_alloc_pd(driver: &mut TestDriver) -> u8 {
    let mut input = [0; AllocPdIn::SIZE];
    MboxIn(&mut input[..]).set_opcode(Opcode::ALLOC_PD.0);
    driver.submit(&input, AllocPdOut::SIZE).unwrap()
}

/// What is known of a command after the card has had a second.
fn not_done(driver: &mut TestDriver, slot: u8) {
    let late = driver.complete(slot);
    assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
}

const ALLOC_PD: &str = "where = { opcode = 'ALLOC_PD' }";

/// Two connected queue pairs, and a key for all of memory.
fn pair(driver: &mut TestDriver, device: &RdmaDevice) -> (u32, [(QueuePair, CompletionQueue); 2]) {
    let pd = driver.alloc_pd().unwrap();
    let key = driver.create_dma_key(pd).unwrap();
    let ends = [(); 2].map(|()| create(driver, device, pd, QpType::RC));
    for (one, other) in [(0, 1), (1, 0)] {
        let qp = &ends[one].0;
        driver.rst2init(qp, pd, 0).unwrap();
        driver
            .init2rtr(qp, Peer { qpn: ends[other].0.qpn, lid: device.port.lids.0, psn: 0 })
            .unwrap();
        driver.rtr2rts(qp, 0).unwrap();
    }
    (key, ends)
}

fn completion(driver: &mut TestDriver, cq: &mut CompletionQueue) -> [u8; 64] {
    driver
        .wait("a completion", |driver| {
            driver.service()?;
            driver.poll_cq(cq)
        })
        .unwrap()
}

/// Sends a text of a page and a bit over a pair, and returns both completions and what arrived.
fn send(
    driver: &mut TestDriver,
    (key, [(a, a_cq), (b, b_cq)]): &mut (u32, [(QueuePair, CompletionQueue); 2]),
) -> ([u8; 64], Option<[u8; 64]>, bool) {
    let (source, target) = (driver.memory.alloc(8192).unwrap(), driver.memory.alloc(8192).unwrap());
    let text: Vec<u8> = (0..5000_u32).map(|n| (n * 7) as u8).collect();
    driver.port.memory.write(source, &text).unwrap();
    driver.post_receive(b, *key, target, 8192).unwrap();
    let mut wqe = vec![0; WqeCtrlSeg::SIZE];
    wqe.extend_from_slice(&data_segment(*key, source, text.len() as u32));
    driver.post_send(a, WqeOpcode::SEND, &wqe).unwrap();
    let sent = completion(driver, a_cq);
    let received = driver.poll_cq(b_cq).unwrap();
    let mut arrived = vec![0; text.len()];
    driver.port.memory.read(target, &mut arrived).unwrap();
    (sent, received, arrived == text)
}

fn error(entry: &[u8]) -> (CqeSyndrome, u8) {
    match cq::check(entry) {
        Err(Error::Completion { syndrome, .. }) => {
            (CqeSyndrome(syndrome), layouts::ErrCqe(entry).vendor_err_synd())
        }
        other => panic!("not an error: {other:?}"),
    }
}

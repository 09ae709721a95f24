//! A card that misbehaves by rule, as a driver sees it.

mod common;

use common::{TestDriver, ask, driver, objects};
use control::Request;
use dma::Dma;
use driver::cq::{self, CompletionQueue};
use driver::qp::{Peer, QueuePair, Receive, Shape, data_segment};
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
    let text = format!("[[fault]]\nname = 'r'\nat = '{at}'\n{rest}");
    for rule in faults::parse(&text).unwrap() {
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

#[test]
fn a_command_is_answered_with_a_status() {
    let (mut driver, _) = up();
    fault(
        &mut driver,
        "command",
        &format!("{ALLOC_PD}\nnth = 2\ndo = {{ status = 'BAD_RES', syndrome = 0x18af6 }}"),
    );
    let before = objects(&mut driver)["pd"];
    driver.alloc_pd().unwrap();
    let answer = driver.alloc_pd();
    let Err(Error::Command { opcode, status, syndrome }) = answer else { panic!("{answer:?}") };
    assert_eq!((opcode, status, syndrome), (Opcode::ALLOC_PD.0, Status::BAD_RES, 0x18af6));
    driver.alloc_pd().unwrap();
    assert_eq!(objects(&mut driver)["pd"], before + 2, "it was not carried out");
    assert_eq!(counts(&mut driver), (2, 1));
}

#[test]
fn a_command_is_carried_out_and_answered_with_a_status_all_the_same() {
    let (mut driver, _) = up();
    fault(
        &mut driver,
        "command",
        &format!("{ALLOC_PD}\ndo = {{ status = 'INT_ERR', executed = true }}"),
    );
    let before = objects(&mut driver)["pd"];
    assert!(matches!(driver.alloc_pd(), Err(Error::Command { status: Status::INT_ERR, .. })));
    assert_eq!(objects(&mut driver)["pd"], before + 1);
}

#[test]
fn a_reply_says_something_else() {
    let (mut driver, _) = up();
    fault(&mut driver, "reply", &format!("{ALLOC_PD}\ndo = {{ set = {{ pd = 0xabcdef }} }}"));
    assert_eq!(driver.alloc_pd().unwrap(), 0xab_cdef);
    assert_ne!(driver.alloc_pd().unwrap(), 0xab_cdef);
}

#[test]
fn a_command_is_not_delivered() {
    let (mut driver, _) = up();
    fault(&mut driver, "command", &format!("{ALLOC_PD}\ndo = {{ delivery = 'FW_ERR' }}"));
    let answer = driver.alloc_pd();
    assert!(
        matches!(answer, Err(Error::Delivery { status: DeliveryStatus::FW_ERR, .. })),
        "{answer:?}"
    );
}

#[test]
fn a_token_is_wrong() {
    let (mut driver, _) = up();
    fault(&mut driver, "reply", &format!("{ALLOC_PD}\ndo = {{ corrupt = 'token' }}"));
    let answer = driver.alloc_pd();
    assert!(matches!(answer, Err(Error::Protocol(_))), "{answer:?}");
}

/// Kept back before and after it is carried out, until it is released.
#[test]
fn a_command_is_held_and_released() {
    for (point, carried_out) in [("command", 0), ("reply", 1)] {
        let (mut driver, _) = up();
        let before = objects(&mut driver)["pd"];
        fault(&mut driver, point, &format!("{ALLOC_PD}\ndo = 'hold'"));
        let slot = submit_alloc_pd(&mut driver);
        not_done(&mut driver, slot);
        assert_eq!(objects(&mut driver)["pd"], before + carried_out, "{point}");
        // Ringing for it once more changes nothing, and others overtake it.
        driver.ring(1 << slot).unwrap();
        driver.alloc_pd().unwrap();
        assert_eq!(release(&mut driver), 1);
        driver.complete(slot).unwrap();
        assert_eq!(objects(&mut driver)["pd"], before + 2, "{point}");
        assert_eq!(release(&mut driver), 0);
    }
}

#[test]
fn what_a_rule_holds_goes_on_when_it_is_cleared() {
    let (mut driver, _) = up();
    fault(&mut driver, "command", &format!("{ALLOC_PD}\ndo = 'hold'"));
    let slot = submit_alloc_pd(&mut driver);
    ask(&mut driver, Request::FaultClear { name: Some("r".into()) });
    driver.complete(slot).unwrap();
}

#[test]
fn a_command_is_delayed() {
    for point in ["command", "reply"] {
        let (mut driver, _) = up();
        fault(&mut driver, point, &format!("{ALLOC_PD}\ndo = {{ delay_ms = 50 }}"));
        let before = driver.port.now;
        driver.alloc_pd().unwrap();
        assert!(driver.port.now - before >= 50_000_000, "{point}");
        let before = driver.port.now;
        driver.alloc_pd().unwrap();
        assert!(driver.port.now - before < 50_000_000, "{point}");
    }
}

#[test]
fn a_command_is_never_completed() {
    let (mut driver, _) = up();
    fault(&mut driver, "command", &format!("{ALLOC_PD}\ndo = 'lose'"));
    let slot = submit_alloc_pd(&mut driver);
    not_done(&mut driver, slot);
    driver.alloc_pd().unwrap();
    assert_eq!(release(&mut driver), 0, "it is gone");
}

#[test]
fn a_command_is_completed_twice() {
    let (mut driver, _) = up();
    fault(&mut driver, "reply", &format!("{ALLOC_PD}\ndo = 'twice'"));
    let answer = driver.alloc_pd();
    assert!(matches!(answer, Err(Error::Protocol(_))), "the driver minds: {answer:?}");
}

#[test]
fn an_event_is_lost_and_the_next_is_not() {
    let (mut driver, _) = up();
    fault(&mut driver, "event", "where = { type = 'CMD' }\ndo = 'lose'");
    let slot = submit_alloc_pd(&mut driver);
    not_done(&mut driver, slot);
    driver.alloc_pd().unwrap();
}

#[test]
fn an_event_and_an_interrupt_come_later() {
    for point in ["event", "interrupt", "doorbell"] {
        let (mut driver, _) = up();
        fault(&mut driver, point, "do = { delay_ms = 30 }");
        let before = driver.port.now;
        driver.alloc_pd().unwrap();
        assert!(driver.port.now - before >= 30_000_000, "{point}");
    }
}

#[test]
fn an_interrupt_is_lost() {
    let (mut driver, _) = up();
    fault(&mut driver, "interrupt", "do = 'lose'");
    let slot = submit_alloc_pd(&mut driver);
    not_done(&mut driver, slot);
    assert_eq!(counts(&mut driver), (1, 1));
    // An interrupt that nothing caused lets the driver find the event.
    ask(&mut driver, Request::FaultClear { name: None });
    fault(&mut driver, "time", "after_ms = 1\ndo = { interrupt = 0 }");
    driver.complete(slot).unwrap();
}

#[test]
fn the_port_goes_down_and_up() {
    let (mut driver, _) = up();
    for (what, state, change) in [("down", 1, PortChange::DOWN), ("up", 4, PortChange::ACTIVE)] {
        ask(&mut driver, Request::FaultClear { name: None });
        fault(&mut driver, "time", &format!("after_ms = 5\ndo = {{ port = '{what}' }}"));
        let event = driver
            .wait("an event", |driver| {
                driver.service()?;
                Ok(driver.events.pop())
            })
            .unwrap();
        assert_eq!((event.event, event.sub_type), (EventType::PORT_CHANGE, change.0));
        let context = driver.query_vport_context().unwrap();
        assert_eq!(HcaVportContext(&context).port_state(), state);
    }
}

#[test]
fn an_event_is_invented() {
    let (mut driver, _) = up();
    let what =
        "{ invent = 'SRQ_CATAS_ERROR', sub_type = 3, set = { 'qp_srq.qp_srq_n' = 0x123456 } }";
    fault(&mut driver, "command", &format!("{ALLOC_PD}\ndo = {what}"));
    driver.alloc_pd().unwrap();
    driver
        .wait("the event", |driver| {
            driver.service()?;
            Ok((!driver.events.is_empty()).then_some(()))
        })
        .unwrap();
    let event = driver.events[0];
    assert_eq!((event.event, event.sub_type), (EventType::SRQ_CATAS_ERROR, 3));
    assert_eq!(layouts::Eqe(&event.entry).qp_srq().qp_srq_n(), 0x12_3456);
}

#[test]
fn the_card_is_not_well() {
    let (mut driver, _) = up();
    assert!(driver.health().unwrap().0);
    fault(&mut driver, "command", &format!("{ALLOC_PD}\ndo = {{ health = 7, fatal = true }}"));
    driver.alloc_pd().unwrap();
    assert!(!driver.health().unwrap().0);
    ask(&mut driver, Request::FaultClear { name: None });
    fault(&mut driver, "command", &format!("{ALLOC_PD}\ndo = 'health_stops'"));
    driver.alloc_pd().unwrap();
    let counter = driver.health().unwrap().1;
    driver.port.now += 1_000_000_000;
    assert_eq!(driver.health().unwrap().1, counter);
    driver.port.card.0.reset();
    let (well, beats) = driver.health().unwrap();
    assert!(well && beats != counter, "a reset heals");
}

#[test]
fn the_card_falls_off_the_bus() {
    let (mut driver, _) = up();
    fault(&mut driver, "command", &format!("{ALLOC_PD}\ndo = 'off_bus'"));
    driver.alloc_pd().unwrap();
    assert_eq!(driver.port.read32(0).unwrap(), u32::MAX);
    let slot = submit_alloc_pd(&mut driver);
    not_done(&mut driver, slot);
    driver.port.card.0.reset();
    assert_ne!(driver.port.read32(0).unwrap(), u32::MAX);
}

#[test]
fn the_firmware_takes_its_time_to_start() {
    let mut config = Config::default();
    let text =
        "[[fault]]\nname = 'slow'\nat = 'time'\nafter_ms = 0\ndo = { initializing_ms = 700 }";
    config.faults = faults::parse(text).unwrap();
    let mut driver = driver(&config);
    driver.port.relax().unwrap();
    driver.wait_fw_init().unwrap();
    assert!(driver.port.now >= 700_000_000, "{}", driver.port.now);
    driver.power_on().unwrap();
}

/// Drivers look at the other timeouts only if the initialization segment has these.
#[test]
fn timeouts_are_short_if_asked() {
    let (mut driver, _) = up();
    assert_eq!((driver.port.read32(0xff8).unwrap(), driver.port.read32(0xffc).unwrap()), (0, 0));
    let mut driver = common::driver(&Config { fast_timeouts: true, ..Config::default() });
    driver.power_on().unwrap();
    assert_eq!(
        (driver.port.read32(0xff8).unwrap(), driver.port.read32(0xffc).unwrap()),
        (3000, 2000)
    );
    let dtor =
        driver.read_register(layouts::RegisterId::DTOR, &[0; layouts::DtorReg::SIZE]).unwrap();
    assert_eq!(layouts::DtorReg(&dtor[..]).reclaim_pages_to().to_value(), 2000);
}

/// Two connected queue pairs, and a key for all of memory.
fn pair(driver: &mut TestDriver, device: &RdmaDevice) -> (u32, [(QueuePair, CompletionQueue); 2]) {
    let pd = driver.alloc_pd().unwrap();
    let key = driver.create_dma_key(pd).unwrap();
    let ends = [(); 2].map(|()| {
        let cq = driver.create_cq(device.uar, device.completion_eqn, 6).unwrap();
        let shape = Shape {
            kind: QpType::RC,
            pd,
            uar: device.uar,
            cqns: [cq.cqn; 2],
            log_sq_size: 6,
            receive: Receive::Own { log_size: 4, log_stride: 5 },
            spare_srqn: device.spare_srqn(),
        };
        (driver.create_qp(shape).unwrap(), cq)
    });
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

#[test]
fn packets_are_lost_doubled_and_late_and_the_data_is_right() {
    for what in ["'lose'", "'twice'", "{ delay_ms = 20 }"] {
        for kind in ["SEND", "ACK"] {
            let (mut driver, device) = up();
            let mut pair = pair(&mut driver, &device);
            fault(
                &mut driver,
                "packet_sent",
                &format!("where = {{ kind = '{kind}', transport = 'RC' }}\ndo = {what}"),
            );
            let (sent, received, same) = send(&mut driver, &mut pair);
            cq::check(&sent).unwrap();
            assert_eq!(CqeOpcode(Cqe64(&received.unwrap()).opcode()), CqeOpcode::RESP_SEND);
            assert!(same, "{kind} {what}");
            assert_eq!(counts(&mut driver).1, 1, "{kind} {what}");
        }
    }
}

fn error(entry: &[u8]) -> (CqeSyndrome, u8) {
    match cq::check(entry) {
        Err(Error::Completion { syndrome, .. }) => {
            (CqeSyndrome(syndrome), layouts::ErrCqe(entry).vendor_err_synd())
        }
        other => panic!("not an error: {other:?}"),
    }
}

#[test]
fn a_work_request_fails() {
    let (mut driver, device) = up();
    let mut pair = pair(&mut driver, &device);
    let qpn = pair.1[0].0.qpn;
    fault(
        &mut driver,
        "work_request",
        &format!(
            "where = {{ qpn = {qpn}, opcode = 'SEND' }}\ndo = {{ fail = 'REMOTE_ACCESS_ERR', vendor = 0x42 }}"
        ),
    );
    let (sent, received, _) = send(&mut driver, &mut pair);
    assert_eq!(error(&sent), (CqeSyndrome::REMOTE_ACCESS_ERR, 0x42));
    assert_eq!(received, None);
    assert_eq!(driver.qp_state(qpn).unwrap(), QpState::ERR);
}

#[test]
fn a_key_refuses() {
    let (mut driver, device) = up();
    let mut pair = pair(&mut driver, &device);
    fault(&mut driver, "translation", "where = { access = 'local_read' }\ndo = 'refuse'");
    let (sent, received, _) = send(&mut driver, &mut pair);
    assert_eq!((error(&sent).0, received), (CqeSyndrome::LOCAL_PROT_ERR, None));
    assert_eq!(counts(&mut driver), (1, 1));
}

/// The card can't read the doorbell record any more: its queue pair is broken, and the driver is told.
#[test]
fn memory_is_not_there() {
    let (mut driver, device) = up();
    let mut pair = pair(&mut driver, &device);
    fault(&mut driver, "dma_read", "where = { len = 64 }\ndo = 'refuse'");
    let (key, [(a, _), _]) = &mut pair;
    let mut wqe = vec![0; WqeCtrlSeg::SIZE];
    wqe.extend_from_slice(&data_segment(*key, 0x1000, 64));
    driver.post_send(a, WqeOpcode::SEND, &wqe).unwrap();
    driver
        .wait("an event", |driver| {
            driver.service()?;
            Ok((!driver.events.is_empty()).then_some(()))
        })
        .unwrap();
    assert_eq!(driver.events[0].event, EventType::WQ_CATAS_ERROR);
    assert_eq!(counts(&mut driver), (1, 1));
}

#[test]
fn a_completion_says_something_else() {
    let (mut driver, device) = up();
    let mut pair = pair(&mut driver, &device);
    fault(
        &mut driver,
        "completion",
        "where = { opcode = 'RESP_SEND' }\ndo = { set = { byte_cnt = 3 } }",
    );
    let (sent, received, same) = send(&mut driver, &mut pair);
    cq::check(&sent).unwrap();
    assert_eq!(Cqe64(&received.unwrap()).byte_cnt(), 3);
    assert!(same);
}

#[test]
fn a_completion_is_lost_or_doubled() {
    for (what, entries) in [("'lose'", 0), ("'twice'", 2)] {
        let (mut driver, device) = up();
        let mut pair = pair(&mut driver, &device);
        fault(
            &mut driver,
            "completion",
            &format!("where = {{ opcode = 'RESP_SEND' }}\ndo = {what}"),
        );
        let (sent, received, same) = send(&mut driver, &mut pair);
        cq::check(&sent).unwrap();
        let second = driver.poll_cq(&mut pair.1[1].1).unwrap();
        let found = usize::from(received.is_some()) + usize::from(second.is_some());
        assert_eq!((found, same), (entries, true), "{what}");
    }
}

#[test]
fn an_unknown_rule_is_refused() {
    let (mut driver, _) = up();
    let common::FunctionCard(function) = &mut driver.port.card;
    let memory = &driver.port.memory;
    for (request, message) in [
        (Request::FaultRelease { name: "x".into() }, "there is no fault rule \"x\""),
        (Request::FaultAdd { rule: serde_json::json!({"name": 1}) }, "not a fault rule"),
        (
            Request::FaultAdd { rule: serde_json::json!({"name": "r", "at": "event", "do": "no"}) },
            "\"no\" can't be done at event",
        ),
    ] {
        let refused = function.control(memory, &request).unwrap_err();
        assert!(refused.message.starts_with(message), "{refused:?}");
    }
}

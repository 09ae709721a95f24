//! Keys and guest memory.

use super::*;

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

/// The bytes that a pair has sent, as they arrived at first and after `ms`.
fn arriving(what: &str, ms: u64) -> (Vec<u8>, Vec<u8>) {
    let (mut driver, device) = up();
    let (key, [(a, a_cq), (b, b_cq)]) = &mut pair(&mut driver, &device);
    let (source, target) = (driver.memory.alloc(4096).unwrap(), driver.memory.alloc(4096).unwrap());
    driver.port.memory.write(source, &[0x5a; 1000]).unwrap();
    driver.port.memory.write(target, &[0x11; 1000]).unwrap();
    fault(&mut driver, "dma_copy", &format!("where = {{ dst = {target} }}\ndo = {what}"));
    driver.post_receive(b, *key, target, 4096).unwrap();
    let mut wqe = vec![0; WqeCtrlSeg::SIZE];
    wqe.extend_from_slice(&data_segment(*key, source, 1000));
    driver.post_send(a, WqeOpcode::SEND, &wqe).unwrap();
    cq::check(&completion(&mut driver, a_cq)).unwrap();
    let received = completion(&mut driver, b_cq);
    assert_eq!(CqeOpcode(Cqe64(&received).opcode()), CqeOpcode::RESP_SEND);
    assert_eq!(counts(&mut driver), (1, 1));
    let read = |driver: &mut TestDriver| {
        let mut bytes = vec![0; 1000];
        driver.port.memory.read(target, &mut bytes).unwrap();
        bytes
    };
    let first = read(&mut driver);
    // What is copied is what was there when it was copied.
    driver.port.memory.write(source, &[0x77; 1000]).unwrap();
    // A reset stops everything but what is on its way.
    driver.port.card.0.reset();
    let begun = driver.port.now;
    while driver.port.now - begun < ms * 1_000_000 {
        driver.port.relax().unwrap();
    }
    (first, read(&mut driver))
}

#[test]
fn data_comes_torn_or_not_at_all_or_after_its_completion_and_after_a_reset() {
    let (old, new) = (vec![0x11; 1000], vec![0x5a; 1000]);
    let torn = [&new[..300], &old[300..]].concat();
    assert_eq!(arriving("{ torn = 300 }", 0), (torn.clone(), torn));
    assert_eq!(arriving("'lose'", 0), (old.clone(), old.clone()));
    assert_eq!(arriving("{ delay_ms = 40 }", 50), (old.clone(), new.clone()));
    assert_eq!(arriving("{ delay_ms = 40 }", 20), (old.clone(), old));
}

#[test]
fn data_is_held_until_it_is_released() {
    let (mut driver, device) = up();
    let mut pair = pair(&mut driver, &device);
    fault(&mut driver, "dma_copy", "where = { len = '4000..6000' }\ncount = 0\ndo = 'hold'");
    let (sent, received, same) = send(&mut driver, &mut pair);
    cq::check(&sent).unwrap();
    assert_eq!(CqeOpcode(Cqe64(&received.unwrap()).opcode()), CqeOpcode::RESP_SEND);
    assert!(!same, "the completion came first");
    assert!(release(&mut driver) > 0);
}

#[test]
fn a_write_of_the_card_is_torn() {
    let (mut driver, _) = up();
    // The output of the command's entry: the status, and no more.
    fault(&mut driver, "dma_write", "where = { len = 16 }\ndo = { torn = 4 }");
    let answer = driver.alloc_pd();
    assert_eq!(counts(&mut driver).1, 1, "{answer:?}");
}

/// After its key is gone the card uses it once more, as it was.
#[test]
fn a_translation_is_stale() {
    let (mut driver, device) = up();
    let (all, [(a, a_cq), (b, _)]) = &mut pair(&mut driver, &device);
    let source = driver.memory.alloc(4096).unwrap();
    let pd = pd_of(&mut driver, *all);
    let key = driver.create_dma_key(pd).unwrap();
    fault(
        &mut driver,
        "translation",
        &format!("where = {{ key = {key}, refused = true }}\ndo = 'stale'"),
    );
    let mut outcomes = Vec::new();
    for n in 0..3 {
        driver.post_receive(b, *all, 0x10000, 4096).unwrap();
        let mut wqe = vec![0; WqeCtrlSeg::SIZE];
        wqe.extend_from_slice(&data_segment(key, source, 1000));
        driver.post_send(a, WqeOpcode::SEND, &wqe).unwrap();
        outcomes.push(cq::check(&completion(&mut driver, a_cq)).is_ok());
        if n == 0 {
            driver.destroy_mkey(key).unwrap();
        }
    }
    assert_eq!(outcomes, [true, true, false], "the second is stale, the third refused");
    assert_eq!(counts(&mut driver), (1, 1));
}

/// The protection domain of a key.
fn pd_of(driver: &mut TestDriver, key: u32) -> u32 {
    layouts::Mkc(&driver.query_mkey(key).unwrap()[..]).pd()
}

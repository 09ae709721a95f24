//! Work requests that are ignored, kept back or carried out in part, and their completions.

use super::*;

/// Posts a send of `len` bytes without waiting for anything.
fn post(driver: &mut TestDriver, qp: &mut QueuePair, key: u32, addr: u64, len: u32) {
    let mut wqe = vec![0; WqeCtrlSeg::SIZE];
    wqe.extend_from_slice(&data_segment(key, addr, len));
    driver.post_send(qp, WqeOpcode::SEND, &wqe).unwrap();
}

/// Lets time go by.
fn pass(driver: &mut TestDriver, ms: u64) {
    let begun = driver.port.now;
    while driver.port.now - begun < ms * 1_000_000 {
        driver.port.relax().unwrap();
    }
}

/// What is in a queue, without waiting.
fn entries(driver: &mut TestDriver, cq: &mut CompletionQueue) -> Vec<[u8; 64]> {
    std::iter::from_fn(|| driver.poll_cq(cq).unwrap()).collect()
}

#[test]
fn a_work_request_is_ignored() {
    let (mut driver, device) = up();
    let (key, [(a, a_cq), (b, b_cq)]) = &mut pair(&mut driver, &device);
    fault(&mut driver, "work_request", "where = { opcode = 'SEND' }\ndo = 'lose'");
    for n in 0..3 {
        driver.post_receive(b, *key, 0x10000 + n * 64, 64).unwrap();
        post(&mut driver, a, *key, 0x2000, 40 + n as u32);
    }
    pass(&mut driver, 5);
    let sent: Vec<u16> =
        entries(&mut driver, a_cq).iter().map(|e| Cqe64(e).wqe_counter()).collect();
    assert_eq!(sent, [1, 2]);
    let lengths: Vec<u32> =
        entries(&mut driver, b_cq).iter().map(|e| Cqe64(e).byte_cnt()).collect();
    assert_eq!(lengths, [41, 42]);
}

#[test]
fn a_work_request_is_kept_back() {
    for (what, held) in [("{ delay_ms = 30 }", false), ("'hold'", true)] {
        let (mut driver, device) = up();
        let (key, [(a, a_cq), (b, _)]) = &mut pair(&mut driver, &device);
        fault(&mut driver, "work_request", &format!("nth = 2\ndo = {what}"));
        for n in 0..3 {
            driver.post_receive(b, *key, 0x10000 + n * 64, 64).unwrap();
            post(&mut driver, a, *key, 0x2000, 40);
        }
        pass(&mut driver, 20);
        assert_eq!(entries(&mut driver, a_cq).len(), 1, "those behind it wait");
        pass(&mut driver, 20);
        assert_eq!(entries(&mut driver, a_cq).len(), if held { 0 } else { 2 });
        assert_eq!(release(&mut driver), u64::from(held));
        pass(&mut driver, 5);
        assert_eq!(entries(&mut driver, a_cq).len(), if held { 2 } else { 0 });
        assert_eq!(counts(&mut driver), (2, 1), "it was asked once for each");
    }
}

/// One that is kept back while its queue pair goes to the error state is flushed.
#[test]
fn a_work_request_that_is_kept_back_can_be_flushed() {
    let (mut driver, device) = up();
    let (key, [(a, a_cq), _]) = &mut pair(&mut driver, &device);
    fault(&mut driver, "work_request", "do = 'hold'");
    post(&mut driver, a, *key, 0x2000, 40);
    pass(&mut driver, 5);
    driver.to_error(a).unwrap();
    let flushed = completion(&mut driver, a_cq);
    assert_eq!(error(&flushed).0, CqeSyndrome::WR_FLUSH_ERR);
    release(&mut driver);
    pass(&mut driver, 5);
    assert_eq!(entries(&mut driver, a_cq).len(), 0);
}

#[test]
fn a_work_request_fails_in_the_middle() {
    let (mut driver, device) = up();
    let (key, [(a, a_cq), (b, b_cq)]) = &mut pair(&mut driver, &device);
    let (source, target) = (driver.memory.alloc(8192).unwrap(), driver.memory.alloc(8192).unwrap());
    driver.port.memory.write(source, &[0x5a; 5000]).unwrap();
    driver.port.memory.write(target, &[0x11; 5000]).unwrap();
    fault(
        &mut driver,
        "work_request",
        &format!(
            "where = {{ opcode = 'SEND', 'data[0].lkey' = {key}, 'data[0].addr' = {source} }}\n\
             do = {{ fail = 'REMOTE_OP_ERR', vendor = 9, after = 4500 }}"
        ),
    );
    driver.post_receive(b, *key, target, 8192).unwrap();
    post(&mut driver, a, *key, source, 5000);
    assert_eq!(error(&completion(&mut driver, a_cq)), (CqeSyndrome::REMOTE_OP_ERR, 9));
    let mut arrived = vec![0; 5000];
    driver.port.memory.read(target, &mut arrived).unwrap();
    // Whole packets of it: the pair's MTU is a power of two from 256 on.
    let moved = arrived.iter().take_while(|byte| **byte == 0x5a).count();
    assert!((4096..=4500).contains(&moved) && moved.is_multiple_of(256), "{moved}");
    assert!(arrived[moved..].iter().all(|byte| *byte == 0x11));
    assert_eq!(entries(&mut driver, b_cq).len(), 0);
}

#[test]
fn a_completion_is_kept_back_and_others_overtake_it() {
    for (what, held) in [("{ delay_ms = 30 }", false), ("'hold'", true)] {
        let (mut driver, device) = up();
        let (key, [(a, a_cq), (b, b_cq)]) = &mut pair(&mut driver, &device);
        fault(
            &mut driver,
            "completion",
            &format!("where = {{ opcode = 'RESP_SEND', byte_cnt = 40 }}\ndo = {what}"),
        );
        for n in 0..3 {
            driver.post_receive(b, *key, 0x10000 + n * 64, 64).unwrap();
            post(&mut driver, a, *key, 0x2000, 40 + n as u32);
        }
        pass(&mut driver, 5);
        assert_eq!(entries(&mut driver, a_cq).len(), 3);
        pass(&mut driver, 40);
        assert_eq!(release(&mut driver), u64::from(held));
        pass(&mut driver, 5);
        let order = entries(&mut driver, b_cq);
        let order: Vec<u16> = order.iter().map(|e| Cqe64(e).wqe_counter()).collect();
        assert_eq!(order, [1, 2, 0], "{what}");
    }
}

/// The driver is told of an entry that it can't read yet.
#[test]
fn a_completion_has_its_owner_bit_late() {
    let (mut driver, device) = up();
    let (key, [(a, a_cq), (b, _)]) = &mut pair(&mut driver, &device);
    fault(&mut driver, "completion", "where = { opcode = 'REQ' }\ndo = { owner_late_ms = 20 }");
    driver.arm_cq(a_cq, cq::Arm::Next).unwrap();
    for _ in 0..2 {
        driver.post_receive(b, *key, 0x10000, 64).unwrap();
        post(&mut driver, a, *key, 0x2000, 40);
    }
    driver.wait_cq_event(a_cq).unwrap();
    pass(&mut driver, 10);
    assert_eq!(entries(&mut driver, a_cq).len(), 0, "the second is behind the first");
    pass(&mut driver, 15);
    assert_eq!(entries(&mut driver, a_cq).len(), 2);
}

#[test]
fn flushed_completions_are_lost() {
    let (mut driver, device) = up();
    let (key, [(a, _), (b, b_cq)]) = &mut pair(&mut driver, &device);
    fault(
        &mut driver,
        "completion",
        "where = { syndrome = 'WR_FLUSH_ERR' }\nnth = 2\ncount = 2\ndo = 'lose'",
    );
    for _ in 0..4 {
        driver.post_receive(b, *key, 0x10000, 64).unwrap();
    }
    driver.to_error(b).unwrap();
    pass(&mut driver, 5);
    let told: Vec<u16> =
        entries(&mut driver, b_cq).iter().map(|e| Cqe64(e).wqe_counter()).collect();
    assert_eq!(told, [0, 3]);
    driver.to_error(a).unwrap();
}

#[test]
fn commands_are_completed_out_of_order() {
    let (mut driver, _) = up();
    fault(&mut driver, "reply", &format!("{ALLOC_PD}\ndo = {{ delay_ms = 30 }}"));
    let [first, second] = [(); 2].map(|()| submit_alloc_pd(&mut driver));
    let begun = driver.port.now;
    driver.complete(second).unwrap();
    assert!(driver.port.now - begun < 30_000_000);
    driver.complete(first).unwrap();
    assert!(driver.port.now - begun >= 30_000_000);
}

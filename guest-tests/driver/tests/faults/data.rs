//! Work requests, completions and packets.

use super::*;

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

/// It fails by itself, once.
#[test]
fn a_work_request_that_is_none_is_not_asked_about() {
    let (mut driver, device) = up();
    let (_, [(mut qp, mut cq), _]) = pair(&mut driver, &device);
    fault(&mut driver, "work_request", "count = 0\ndo = 'lose'");
    // 256 units of 16 bytes: the count in the control segment is 0.
    driver.post_send(&mut qp, WqeOpcode::SEND, &[0; 4096]).unwrap();
    let entry = completion(&mut driver, &mut cq);
    assert_eq!(error(&entry).0, CqeSyndrome::LOCAL_QP_OP_ERR);
    assert_eq!(layouts::ErrCqe(&entry).wqe_counter(), 0);
    assert_eq!(counts(&mut driver), (0, 0));
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

/// How many datagrams arrive of two that are sent one after the other, and in which order.
fn datagrams(what: &str) -> Vec<u8> {
    const Q_KEY: u32 = 0x1111_1111;
    let (mut driver, device) = up();
    let pd = driver.alloc_pd().unwrap();
    let key = driver.create_dma_key(pd).unwrap();
    let [(mut a, mut a_cq), (mut b, mut b_cq)] = [(); 2].map(|()| {
        let (qp, cq) = create(&mut driver, &device, pd, QpType::UD);
        driver.rst2init(&qp, pd, Q_KEY).unwrap();
        driver.init2rtr(&qp, Peer { qpn: 0, lid: 0, psn: 0 }).unwrap();
        driver.rtr2rts(&qp, 0).unwrap();
        (qp, cq)
    });
    let memory = driver.memory.alloc(4096).unwrap();
    for n in 0..3 {
        driver.post_receive(&mut b, key, memory + 1024 * n, 1024).unwrap();
    }
    let rule = format!("where = {{ transport = 'UD', dest_qpn = {} }}\ndo = {what}", b.qpn);
    fault(&mut driver, "packet_sent", &rule);
    for text in [b"first", b"again"] {
        driver.port.memory.write(memory + 3072, text).unwrap();
        let mut wqe = vec![0; WqeCtrlSeg::SIZE];
        let mut address = [0; layouts::WqeDatagramSeg::SIZE];
        let mut av = layouts::WqeDatagramSeg(&mut address[..]);
        av.set_ext(true);
        av.set_qkey(Q_KEY);
        av.set_destination_qp_dct(b.qpn);
        av.set_rlid(device.port.lids.0);
        wqe.extend_from_slice(&address);
        wqe.extend_from_slice(&data_segment(key, memory + 3072, 5));
        driver.post_send(&mut a, WqeOpcode::SEND, &wqe).unwrap();
        cq::check(&completion(&mut driver, &mut a_cq)).unwrap();
    }
    let begun = driver.port.now;
    while driver.port.now - begun < 30_000_000 {
        driver.port.relax().unwrap();
    }
    assert_eq!(counts(&mut driver), (1, 1));
    let mut arrived = Vec::new();
    while let Some(entry) = driver.poll_cq(&mut b_cq).unwrap() {
        let mut byte = [0];
        let at = memory + 1024 * u64::from(Cqe64(&entry).wqe_counter()) + 40;
        driver.port.memory.read(at, &mut byte).unwrap();
        arrived.push(byte[0]);
    }
    arrived
}

#[test]
fn datagrams_are_lost_doubled_and_late() {
    assert_eq!(datagrams("'lose'"), b"a");
    assert_eq!(datagrams("'twice'"), b"ffa");
    assert_eq!(datagrams("{ delay_ms = 20 }"), b"af");
}

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

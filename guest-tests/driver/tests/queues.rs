//! Queue pairs and completion queues, against the real card.

mod common;

use common::{TestDriver, create, driver};
use dma::Dma;
use driver::cq::{self, Arm, CompletionQueue};
use driver::qp::{Peer, data_segment};
use driver::{Error, RdmaDevice};
use function::Config;
use layouts::{
    Cqe64, CqeOpcode, CqeSyndrome, QpState, QpType, WqeCtrlSeg, WqeDatagramSeg, WqeOpcode,
};

/// A driver, a device, a domain, and a key for all of memory by DMA address.
fn device() -> (TestDriver, RdmaDevice, u32, u32) {
    let mut driver = driver(&Config::default());
    let device = driver.power_on().unwrap();
    let pd = driver.alloc_pd().unwrap();
    let key = driver.create_dma_key(pd).unwrap();
    (driver, device, pd, key)
}

/// Waits for the next completion, which the queue is armed for.
fn completion(driver: &mut TestDriver, cq: &mut CompletionQueue) -> [u8; 64] {
    driver
        .wait("a completion", |driver| {
            driver.service()?;
            driver.poll_cq(cq)
        })
        .unwrap()
}

#[test]
fn a_queue_pair_goes_through_its_states() {
    let (mut driver, device, pd, key) = device();
    let (mut qp, cq) = create(&mut driver, &device, pd, QpType::RC);
    assert_eq!(driver.qp_state(qp.qpn).unwrap(), QpState::RST);
    driver.rst2init(&qp, pd, 0).unwrap();
    assert_eq!(driver.qp_state(qp.qpn).unwrap(), QpState::INIT);
    let peer = Peer { qpn: qp.qpn, lid: device.port.lids.0, psn: 0 };
    let early = driver.rtr2rts(&qp, 0);
    assert!(matches!(early, Err(Error::Command { .. })), "INIT is not RTR: {early:?}");
    driver.init2rtr(&qp, peer).unwrap();
    assert_eq!(driver.qp_state(qp.qpn).unwrap(), QpState::RTR);
    driver.rtr2rts(&qp, 0).unwrap();
    assert_eq!(driver.qp_state(qp.qpn).unwrap(), QpState::RTS);
    driver.to_error(&qp).unwrap();
    assert_eq!(driver.qp_state(qp.qpn).unwrap(), QpState::ERR);
    driver.to_reset(&mut qp).unwrap();
    assert_eq!(driver.qp_state(qp.qpn).unwrap(), QpState::RST);

    // The completion queue outlives the queue pairs that use it.
    let cqn = cq.cqn;
    let busy = driver.destroy_cq(cq);
    assert!(matches!(busy, Err(Error::Command { .. })), "it is in use: {busy:?}");
    driver.query_cq(cqn).unwrap();
    driver.destroy_qp(qp).unwrap();
    driver.destroy_mkey(key).unwrap();
}

/// What was posted is flushed, receives and sends, also what is posted afterwards.
#[test]
fn an_error_flushes_what_was_posted() {
    let (mut driver, device, pd, key) = device();
    let (mut qp, mut cq) = create(&mut driver, &device, pd, QpType::RC);
    driver.rst2init(&qp, pd, 0).unwrap();
    for _ in 0..3 {
        driver.post_receive(&mut qp, key, 0x1000, 64).unwrap();
    }
    driver.to_error(&qp).unwrap();
    let nop = vec![0; WqeCtrlSeg::SIZE];
    driver.post_send(&mut qp, WqeOpcode::NOP, &nop).unwrap();
    let mut flushed: Vec<_> = (0..4)
        .map(|_| {
            let entry = completion(&mut driver, &mut cq);
            let Err(Error::Completion { syndrome, .. }) = cq::check(&entry) else {
                panic!("not an error: {entry:02x?}")
            };
            assert_eq!(CqeSyndrome(syndrome), CqeSyndrome::WR_FLUSH_ERR);
            CqeOpcode(Cqe64(&entry).opcode())
        })
        .collect();
    flushed.sort_unstable();
    let receive = CqeOpcode::RESP_ERR;
    assert_eq!(flushed, [CqeOpcode::REQ_ERR, receive, receive, receive]);
    driver.destroy_qp(qp).unwrap();
    driver.destroy_cq(cq).unwrap();
}

/// A datagram from one queue pair to another on the same port: its bytes behind room for a GRH, a
/// completion at either end, and an event where one was asked for.
#[test]
fn a_datagram_arrives() {
    const Q_KEY: u32 = 0x1111_1111;
    /// Room before the payload for a global route header, used or not.
    const GRH: usize = 40;
    let (mut driver, device, pd, key) = device();
    let [(mut a, mut a_cq), (mut b, mut b_cq)] = [(); 2].map(|()| {
        let (qp, cq) = create(&mut driver, &device, pd, QpType::UD);
        driver.rst2init(&qp, pd, Q_KEY).unwrap();
        driver.init2rtr(&qp, Peer { qpn: 0, lid: 0, psn: 0 }).unwrap();
        driver.rtr2rts(&qp, 0).unwrap();
        (qp, cq)
    });
    let (source, target) = (driver.memory.alloc(4096).unwrap(), driver.memory.alloc(4096).unwrap());
    let text = b"from one end to the other";
    driver.port.memory.write(source, text).unwrap();

    driver.post_receive(&mut b, key, target, 4096).unwrap();
    driver.arm_cq(&mut b_cq, Arm::Next).unwrap();
    let mut send = vec![0; WqeCtrlSeg::SIZE];
    let mut address = [0; WqeDatagramSeg::SIZE];
    let mut av = WqeDatagramSeg(&mut address[..]);
    av.set_ext(true);
    av.set_qkey(Q_KEY);
    av.set_destination_qp_dct(b.qpn);
    av.set_rlid(device.port.lids.0);
    send.extend_from_slice(&address);
    send.extend_from_slice(&data_segment(key, source, text.len() as u32));
    let index = driver.post_send(&mut a, WqeOpcode::SEND, &send).unwrap();

    driver.wait_cq_event(&mut b_cq).unwrap();
    let received = driver.poll_cq(&mut b_cq).unwrap().expect("the completion of the event");
    let received = Cqe64(&received);
    assert_eq!(CqeOpcode(received.opcode()), CqeOpcode::RESP_SEND);
    assert_eq!(received.byte_cnt() as usize, GRH + text.len());
    assert_eq!((received.qpn(), received.wqe_counter(), received.rqpn()), (b.qpn, 0, a.qpn));
    let sent = completion(&mut driver, &mut a_cq);
    let sent = Cqe64(&sent);
    assert_eq!(CqeOpcode(sent.opcode()), CqeOpcode::REQ);
    assert_eq!((sent.qpn(), sent.wqe_counter()), (a.qpn, index));
    assert_eq!(WqeOpcode(sent.sop()), WqeOpcode::SEND);
    let mut arrived = vec![0; text.len()];
    driver.port.memory.read(target + GRH as u64, &mut arrived).unwrap();
    assert_eq!(arrived, text);
}

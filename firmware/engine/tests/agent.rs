//! The port's own performance agent, asked by datagrams as `perfquery` asks it.

mod common;

use common::pair::{inline, local};
use common::{Bench, IDENTITY, QpOptions};
use layouts::*;

const QP1_QKEY: u32 = 0x8001_0000;
const GRH: u64 = 40;

/// A send to queue pair 1 of LID `lid`.
fn wqe(lid: u16, data: &[&[u8]]) -> Vec<u8> {
    let mut wqe = vec![0; 64];
    WqeCtrlSeg(&mut wqe[..16]).set_ce(2);
    let mut av = WqeDatagramSeg(&mut wqe[16..64]);
    av.set_qkey(QP1_QKEY);
    av.set_ext(true);
    av.set_destination_qp_dct(1);
    av.set_rlid(lid);
    for segment in data {
        wqe.extend_from_slice(segment);
    }
    wqe
}

fn request(class: u8, method: u8) -> [u8; 256] {
    let mut bytes = [0; 256];
    let mut mad = PerfMad(&mut bytes[..]);
    mad.set_base_version(1);
    mad.set_class_version(1);
    mad.set_mgmt_class(class);
    mad.set_method(method);
    mad.set_tid(0x1234_5678);
    mad.set_attr_id(0x12);
    mad.port_counters_mut().set_port_select(1);
    mad.port_counters_mut().set_counter_select(0xf000);
    bytes
}

/// Sends a datagram from the driver's queue pair 1; what it receives.
fn ask(mad: &[u8; 256], lid: u16) -> Option<(Cqe64<[u8; 64]>, Vec<u8>)> {
    let mut bench = Bench::new();
    let mut cq = bench.cq(4);
    let mut qp = bench.ready_qp(&QpOptions::new(QpType::QP1, cq.cqn, cq.cqn));
    bench.transition(Opcode::RTS2RTS_QP, qp.qpn, 1 << 5, |qpc| qpc.set_q_key(QP1_QKEY));
    let (buffer, from) = (bench.pages(4096), bench.pages(4096));
    bench.post_receive(&mut qp, &[(buffer, 296)]);
    bench.write(from, mad);
    // As the MAD layer does: the header and the rest.
    let segments = [local(from, bench.lkey, 24), local(from + 24, bench.lkey, 232)];
    bench.post(&mut qp, WqeOpcode::SEND, &wqe(lid, &[&segments[0], &segments[1]]));
    bench.ring(&qp);
    bench.run();
    let seen = bench.drain(&mut cq);
    assert!(seen.iter().any(|entry| CqeOpcode(entry.opcode()) == CqeOpcode::REQ));
    let received = seen.into_iter().find(|e| CqeOpcode(e.opcode()) == CqeOpcode::RESP_SEND)?;
    Some((received, bench.read::<256>(buffer + GRH).to_vec()))
}

#[test]
fn a_get_is_answered_by_the_card_itself() {
    let (entry, mad) = ask(&request(0x04, 1), IDENTITY.lid).unwrap();
    assert_eq!((entry.rqpn(), entry.slid(), entry.byte_cnt()), (1, IDENTITY.lid, 296));
    let mad = PerfMad(&mad);
    assert_eq!((mad.base_version(), mad.mgmt_class(), mad.method()), (1, 0x04, 0x81));
    assert_eq!((mad.status(), mad.tid(), mad.attr_id()), (0, 0x1234_5678, 0x12));
    // The question itself has been sent and received.
    assert_eq!((mad.port_counters().port_xmit_pkts(), mad.port_counters().port_rcv_pkts()), (1, 1));
    assert_eq!(mad.port_counters().port_xmit_data(), (8 + 12 + 8 + 256 + 4) / 4);
}

#[test]
fn a_set_clears() {
    let (_, mad) = ask(&request(0x04, 2), IDENTITY.lid).unwrap();
    let mad = PerfMad(&mad);
    assert_eq!((mad.method(), mad.status()), (0x81, 0));
    assert_eq!((mad.port_counters().port_xmit_pkts(), mad.port_counters().port_rcv_data()), (0, 0));
}

#[test]
fn everything_else_is_the_driver_s() {
    // Another class, and an answer.
    for (class, method) in [(0x07, 1), (0x03, 2), (0x04, 0x81)] {
        let question = request(class, method);
        let (entry, mad) = ask(&question, IDENTITY.lid).unwrap();
        assert_eq!((entry.rqpn(), &mad[..]), (1, &question[..]), "as it was sent");
    }
    assert!(ask(&request(0x04, 1), IDENTITY.lid + 1).is_none(), "another port's");
}

#[test]
fn a_user_s_queue_pair_may_ask() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(4);
    let mut qp = bench.ready_qp(&QpOptions::new(QpType::UD, cq.cqn, cq.cqn));
    bench.transition(Opcode::RTS2RTS_QP, qp.qpn, 1 << 5, |qpc| qpc.set_q_key(QP1_QKEY));
    let buffer = bench.pages(4096);
    bench.post_receive(&mut qp, &[(buffer, 296)]);
    bench.post(&mut qp, WqeOpcode::SEND, &wqe(IDENTITY.lid, &[&inline(&request(0x04, 1))]));
    bench.ring(&qp);
    bench.run();
    let seen = bench.drain(&mut cq);
    let received = seen.iter().find(|e| CqeOpcode(e.opcode()) == CqeOpcode::RESP_SEND).unwrap();
    assert_eq!((received.rqpn(), received.qpn()), (1, qp.qpn));
}

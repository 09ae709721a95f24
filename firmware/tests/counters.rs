//! What is counted, and how it is told and cleared.

mod common;

use common::World;
use firmware::counters::Side;
use layouts::*;

fn query(w: &mut World, id: u8, clear: bool) -> (Status, Vec<u8>) {
    w.f.run(Opcode::QUERY_Q_COUNTER, 0, 0x20, 0x100, |i| {
        let mut input = QueryQCounterIn(i);
        input.set_counter_set_id(id);
        input.set_clear(clear);
    })
}

fn alloc(w: &mut World) -> u8 {
    AllocQCounterOut(&w.f.ok(Opcode::ALLOC_Q_COUNTER, 0, 0x10, 0x10, |_| {})).counter_set_id()
}

#[test]
fn a_queue_pair_counts_into_the_set_that_it_names() {
    let mut w = World::new();
    let (one, other) = (alloc(&mut w), alloc(&mut w));
    let qpn = w.qp(QpType::RC);
    w.f.fw.count(qpn, |c| c.out_of_buffer += 1);
    w.change(Opcode::RST2INIT_QP, qpn, 0, |q| q.set_counter_set_id(one));
    w.f.fw.count(qpn, |c| c.out_of_buffer += 2);
    w.change(Opcode::INIT2RTR_QP, qpn, 0, |_| {});
    w.change(Opcode::RTR2RTS_QP, qpn, 0, |_| {});
    w.change(Opcode::RTS2RTS_QP, qpn, 1 << 25, |q| q.set_counter_set_id(other));
    w.f.fw.count(qpn, |c| c.out_of_buffer += 4);
    w.f.fw.count(0x9999, |c| c.out_of_buffer += 8);
    let told = |w: &mut World, id, clear| {
        let (status, out) = query(w, id, clear);
        assert_eq!(status, Status::OK);
        QueryQCounterOut(&out).out_of_buffer()
    };
    assert_eq!((told(&mut w, one, false), told(&mut w, other, true)), (2, 4));
    assert_eq!((told(&mut w, one, false), told(&mut w, other, false)), (2, 0), "cleared");
    let dealloc = |w: &mut World, id| {
        let fill = |i: &mut [u8]| DeallocQCounterIn(i).set_counter_set_id(id);
        w.f.run(Opcode::DEALLOC_Q_COUNTER, 0, 0x10, 0x10, fill).0
    };
    assert_eq!((dealloc(&mut w, one), dealloc(&mut w, one)), (Status::OK, Status::BAD_RES));
    assert_eq!(query(&mut w, one, false).0, Status::BAD_RES);
}

#[test]
fn completions_with_errors_are_counted_by_side_and_syndrome() {
    let mut w = World::new();
    let id = alloc(&mut w);
    let counters = w.f.fw.q_counters(id).unwrap();
    for syndrome in [
        CqeSyndrome::WR_FLUSH_ERR,
        CqeSyndrome::REMOTE_ACCESS_ERR,
        CqeSyndrome::REMOTE_ACCESS_ERR,
        CqeSyndrome::REMOTE_ABORTED_ERR,
    ] {
        counters.failed(Side::Requester, syndrome);
    }
    counters.failed(Side::Responder, CqeSyndrome::LOCAL_LENGTH_ERR);
    let (_, out) = query(&mut w, id, false);
    let out = QueryQCounterOut(&out);
    assert_eq!((out.req_cqe_error(), out.resp_cqe_error()), (4, 1));
    assert_eq!((out.req_cqe_flush_error(), out.req_remote_access_errors()), (1, 2));
    assert_eq!((out.resp_local_length_error(), out.resp_cqe_flush_error()), (1, 0));
}

#[test]
fn sums_and_other_functions_counters_are_not_offered() {
    type Fill = fn(&mut QueryQCounterIn<&mut [u8]>);
    let refused: [Fill; 2] = [|i| i.set_aggregate(true), |i| i.set_other_vport(true)];
    let mut w = World::new();
    let id = alloc(&mut w);
    for fill in refused {
        let (status, _) = w.f.run(Opcode::QUERY_Q_COUNTER, 0, 0x20, 0x100, |i| {
            QueryQCounterIn(&mut *i).set_counter_set_id(id);
            fill(&mut QueryQCounterIn(i));
        });
        assert_eq!(status, Status::BAD_PARAM);
    }
}

#[test]
fn the_port_counts_packets_and_bytes() {
    let mut w = World::new();
    let counters = &mut w.f.fw.port.counters;
    counters.received_unicast.add(1, 100);
    counters.transmitted_unicast.add(2, 200);
    counters.received_multicast.add(3, 300);
    counters.transmitted_multicast.add(4, 1 << 40);
    let mut told = |clear| {
        let out = w.f.ok(Opcode::QUERY_VPORT_COUNTER, 0, 0x20, 0x210, |i| {
            let mut input = QueryVportCounterIn(i);
            input.set_port_num(1);
            input.set_clear(clear);
        });
        let out = QueryVportCounterOut(&out[..]);
        [
            out.received_ib_unicast(),
            out.transmitted_ib_unicast(),
            out.received_ib_multicast(),
            out.transmitted_ib_multicast(),
        ]
        .map(|traffic| (traffic.packets(), traffic.octets()))
    };
    assert_eq!(told(false), [(1, 100), (2, 200), (3, 300), (4, 1 << 40)]);
    assert_eq!(told(true), [(1, 100), (2, 200), (3, 300), (4, 1 << 40)]);
    assert_eq!(told(false), [(0, 0); 4]);
}

#[test]
fn the_register_tells_the_same() {
    let mut w = World::new();
    w.f.fw.port.counters.transmitted_unicast.add(2, 1 << 33 | 200);
    w.f.fw.port.counters.transmitted_multicast.add(3, 300);
    let mut told = |clear| {
        let out = w.f.ok(Opcode::ACCESS_REG, 1, 0x110, 0x110, |i| {
            AccessRegisterIn(&mut *i).set_register_id(RegisterId::PPCNT.0);
            let mut reg = PpcntReg(&mut i[0x10..]);
            reg.set_local_port(1);
            reg.set_grp(0x21);
            reg.set_clr(clear);
        });
        let reg = PpcntReg(&out[0x10..]);
        let told = reg.ib_ext_port_cntrs_grp_data_layout();
        (
            (told.port_xmit_data_high(), told.port_xmit_data_low()),
            (told.port_xmit_pkts_low(), told.port_unicast_xmit_pkts_low()),
        )
    };
    assert_eq!(told(true), ((2, 500), (5, 2)));
    assert_eq!(told(false), ((0, 0), (0, 0)), "cleared");
}

/// A performance management datagram.
fn perf(w: &mut World, method: u8, attribute: u16, port: u8, select: u16) -> (u16, [u8; 0x100]) {
    let out = w.f.ok(Opcode::MAD_IFC, 0, 0x110, 0x110, |i| {
        MadIfcIn(&mut *i).set_port(1);
        let mut mad = PerfMad(&mut i[0x10..]);
        mad.set_mgmt_class(0x04);
        mad.set_method(method);
        mad.set_tid(0x5678);
        mad.set_attr_id(attribute);
        mad.port_counters_mut().set_port_select(port);
        mad.port_counters_mut().set_counter_select(select);
    });
    let reply = PerfMad(&out[0x10..]);
    assert_eq!((reply.method(), reply.tid()), (0x81, 0x5678));
    (reply.status(), out[0x10..].try_into().unwrap())
}

#[test]
fn the_performance_agent_shows_and_resets_the_counters() {
    const GET: u8 = 1;
    const SET: u8 = 2;
    let mut w = World::new();
    let counters = &mut w.f.fw.port.counters;
    counters.received_unicast.add(1, 100);
    counters.transmitted_unicast.add(2, 200);
    counters.received_multicast.add(3, 300);
    counters.transmitted_multicast.add(4, 1 << 40);
    let (status, reply) = perf(&mut w, GET, 0x12, 1, 0);
    let basic = PerfMad(&reply[..]);
    let basic = basic.port_counters();
    assert_eq!((status, basic.port_select(), basic.port_rcv_data()), (0, 1, 100));
    assert_eq!(basic.port_xmit_data(), u32::MAX, "it stops at its end");
    assert_eq!((basic.port_xmit_pkts(), basic.port_rcv_pkts()), (6, 4));
    let (_, reply) = perf(&mut w, GET, 0x1d, 0xff, 0);
    let wide = PerfMad(&reply[..]);
    let wide = wide.port_counters_ext();
    assert_eq!((wide.port_xmit_data(), wide.port_rcv_data()), ((1 << 38) + 50, 100));
    assert_eq!((wide.port_unicast_xmit_pkts(), wide.port_multicast_xmit_pkts()), (2, 4));
    assert_eq!((wide.port_unicast_rcv_pkts(), wide.port_multicast_rcv_pkts()), (1, 3));
    // Data sent, and packets received.
    let (status, reply) = perf(&mut w, SET, 0x12, 1, 1 << 12 | 1 << 15);
    let basic = PerfMad(&reply[..]);
    let basic = basic.port_counters();
    assert_eq!((status, basic.port_xmit_data(), basic.port_rcv_pkts()), (0, 0, 0));
    assert_eq!((basic.port_rcv_data(), basic.port_xmit_pkts()), (100, 6));
    // Packets sent to groups.
    let (_, reply) = perf(&mut w, SET, 0x1d, 1, 1 << 6);
    let wide = PerfMad(&reply[..]);
    assert_eq!(wide.port_counters_ext().port_xmit_pkts(), 2);
    perf(&mut w, SET, 0x1d, 1, 0xff);
    assert_eq!(w.f.fw.port.counters, firmware::counters::PortCounters::default());

    let (status, reply) = perf(&mut w, GET, 0x01, 0, 0);
    let info = PerfMad(&reply[..]);
    let info = info.class_port_info();
    assert_eq!((status, info.capability_mask()), (0, 1 << 9));
    for (method, attribute, port, expected) in
        [(GET, 0x12, 2, 0x1c), (GET, 0x10, 1, 0x0c), (SET, 0x01, 1, 0x0c), (5, 0x12, 1, 0x0c)]
    {
        assert_eq!(perf(&mut w, method, attribute, port, 0).0, expected);
    }
}

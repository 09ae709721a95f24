//! Queue pairs: what CREATE_QP takes, the state machine, what QUERY_QP tells, references.

mod common;

use common::World;
use firmware::Work;
use layouts::*;

const STATES: [QpState; 7] = [
    QpState::RST,
    QpState::INIT,
    QpState::RTR,
    QpState::RTS,
    QpState::SQER,
    QpState::SQD,
    QpState::ERR,
];

#[test]
fn every_command_in_every_state() {
    let legal = [
        (Opcode::RST2INIT_QP, Some(QpState::RST), QpState::INIT),
        (Opcode::INIT2INIT_QP, Some(QpState::INIT), QpState::INIT),
        (Opcode::INIT2RTR_QP, Some(QpState::INIT), QpState::RTR),
        (Opcode::RTR2RTS_QP, Some(QpState::RTR), QpState::RTS),
        (Opcode::RTS2RTS_QP, Some(QpState::RTS), QpState::RTS),
        (Opcode::SQERR2RTS_QP, Some(QpState::SQER), QpState::RTS),
        (Opcode::SQD_RTS_QP, Some(QpState::SQD), QpState::RTS),
        (Opcode::TOERR_QP, None, QpState::ERR),
        (Opcode::TORST_QP, None, QpState::RST),
    ];
    let services = [
        QpType::RC,
        QpType::UC,
        QpType::UD,
        QpType::XRC,
        QpType::QP0,
        QpType::QP1,
        QpType::REG_UMR,
    ];
    let mut w = World::new();
    for service in services {
        for (opcode, from, to) in legal {
            for state in STATES {
                let qpn = w.qp(service);
                w.bring_to(qpn, state);
                assert_eq!(w.state(qpn), state);
                let status = w.change(opcode, qpn, 0, |_| {});
                let what = format!("{service} {opcode} in {state}");
                if from.is_none_or(|from| from == state) {
                    assert_eq!((status, w.state(qpn)), (Status::OK, to), "{what}");
                } else {
                    assert_eq!((status, w.state(qpn)), (Status::BAD_QP_STATE, state), "{what}");
                }
                assert_eq!(w.destroy(qpn), Status::OK, "{what}");
            }
        }
    }
    assert_eq!(w.change(Opcode::RST2INIT_QP, 0x1234, 0, |_| {}), Status::BAD_RES);
}

#[test]
fn the_engine_is_told_of_what_it_must_look_at() {
    let mut w = World::new();
    let qpn = w.qp(QpType::RC);
    w.bring_to(qpn, QpState::RTR);
    assert_eq!(w.f.fw.work, []);
    w.change(Opcode::RTR2RTS_QP, qpn, 0, |_| {});
    w.change(Opcode::TOERR_QP, qpn, 0, |_| {});
    assert_eq!(w.f.fw.work, [Work::QueuePair(qpn), Work::QueuePair(qpn)]);
}

#[test]
fn query_tells_what_was_set() {
    let mut w = World::new();
    let (status, qpn) = w.create(QpType::RC, |qpc| {
        qpc.set_user_index(0x12_3456);
        qpc.set_log_rq_size(1);
        qpc.set_log_rq_stride(2);
        qpc.set_cs_res(0x11);
    });
    assert_eq!(status, Status::OK);
    let gid = std::array::from_fn(|i| i as u8);
    w.change(Opcode::RST2INIT_QP, qpn, 0, |qpc| {
        qpc.set_pm_state(3);
        qpc.set_rwe(true);
        qpc.set_counter_set_id(9);
        // Not of this transition.
        qpc.set_retry_count(5);
        let mut path = qpc.primary_address_path_mut();
        path.set_pkey_index(3);
        path.set_vhca_port_num(1);
    });
    w.change(Opcode::INIT2RTR_QP, qpn, 1 << 1, |qpc| {
        qpc.set_mtu(5);
        qpc.set_log_msg_max(30);
        qpc.set_remote_qpn(0xabcdef);
        qpc.set_next_rcv_psn(0x11_1111);
        qpc.set_log_rra_max(4);
        qpc.set_min_rnr_nak(12);
        qpc.set_rre(true);
        // Not in the mask.
        qpc.set_rwe(false);
        let mut path = qpc.primary_address_path_mut();
        path.set_rlid(0x22);
        path.set_sl(7);
        path.set_grh(true);
        path.set_rgid_rip(&gid);
        path.set_flow_label(0xf_ffff);
    });
    w.change(Opcode::RTR2RTS_QP, qpn, 0, |qpc| {
        qpc.set_next_send_psn(0x22_2222);
        qpc.set_retry_count(7);
        qpc.set_rnr_retry(6);
        qpc.set_log_sra_max(3);
        qpc.primary_address_path_mut().set_ack_timeout(14);
    });
    w.change(Opcode::RTS2RTS_QP, qpn, 1 << 3 | 1 << 6, |qpc| {
        qpc.set_rwe(false);
        qpc.set_min_rnr_nak(1);
        qpc.set_retry_count(1);
    });
    let out = w.query(qpn);
    let qpc = QueryQpOut(&out);
    let qpc = qpc.qpc();
    assert_eq!(QpState(qpc.state()), QpState::RTS);
    assert_eq!((qpc.st(), qpc.pd(), qpc.uar_page()), (0, w.pd, w.uar));
    assert_eq!((qpc.user_index(), qpc.log_rq_size(), qpc.cs_res()), (0x12_3456, 1, 0x11));
    assert_eq!((qpc.rre(), qpc.rwe(), qpc.counter_set_id()), (true, false, 9));
    assert_eq!((qpc.mtu(), qpc.log_msg_max(), qpc.remote_qpn()), (5, 30, 0xabcdef));
    assert_eq!((qpc.next_rcv_psn(), qpc.next_send_psn()), (0x11_1111, 0x22_2222));
    assert_eq!((qpc.log_rra_max(), qpc.log_sra_max(), qpc.min_rnr_nak()), (4, 3, 1));
    assert_eq!((qpc.retry_count(), qpc.rnr_retry(), qpc.pm_state()), (7, 6, 3));
    let path = qpc.primary_address_path();
    assert_eq!((path.pkey_index(), path.vhca_port_num(), path.rlid()), (3, 1, 0x22));
    assert_eq!((path.sl(), path.grh(), path.flow_label()), (7, true, 0xf_ffff));
    assert_eq!((path.rgid_rip(), path.ack_timeout()), (gid, 14));
    // After a reset: what CREATE_QP said, and nothing else.
    w.change(Opcode::TORST_QP, qpn, 0, |_| {});
    let out = w.query(qpn);
    let qpc = QueryQpOut(&out);
    let qpc = qpc.qpc();
    assert_eq!((QpState(qpc.state()), qpc.user_index()), (QpState::RST, 0x12_3456));
    assert_eq!((qpc.mtu(), qpc.remote_qpn(), qpc.retry_count(), qpc.rre()), (0, 0, 0, false));
    assert_eq!(qpc.primary_address_path().rgid_rip(), [0; 16]);
}

#[test]
fn values_that_a_transition_refuses() {
    type Fill = fn(&mut Qpc<&mut [u8]>);
    let cases: [(&str, Opcode, u32, Fill, Status); 11] = [
        (
            "P_Key index",
            Opcode::RST2INIT_QP,
            0,
            |q| q.primary_address_path_mut().set_pkey_index(128),
            Status::IX_ERR,
        ),
        (
            "port",
            Opcode::RST2INIT_QP,
            0,
            |q| q.primary_address_path_mut().set_vhca_port_num(2),
            Status::BAD_PARAM,
        ),
        ("mtu", Opcode::INIT2RTR_QP, 0, |q| q.set_mtu(6), Status::BAD_PARAM),
        ("no mtu", Opcode::INIT2RTR_QP, 0, |q| q.set_mtu(0), Status::BAD_PARAM),
        ("log_msg_max", Opcode::INIT2RTR_QP, 0, |q| q.set_log_msg_max(31), Status::BAD_PARAM),
        ("log_rra_max", Opcode::INIT2RTR_QP, 0, |q| q.set_log_rra_max(5), Status::BAD_PARAM),
        (
            "GID index",
            Opcode::INIT2RTR_QP,
            0,
            |q| {
                q.primary_address_path_mut().set_grh(true);
                q.primary_address_path_mut().set_src_addr_index(8);
            },
            Status::IX_ERR,
        ),
        ("shared receives, having none", Opcode::INIT2RTR_QP, 1 << 18, |_| {}, Status::BAD_PARAM),
        ("another queue", Opcode::INIT2RTR_QP, 1 << 19, |q| q.set_cqn_rcv(99), Status::BAD_RES),
        ("a key of another service", Opcode::INIT2RTR_QP, 1 << 21, |_| {}, Status::BAD_PARAM),
        ("a parameter that is none", Opcode::INIT2RTR_QP, 1 << 31, |_| {}, Status::BAD_PARAM),
    ];
    let mut w = World::new();
    for (what, opcode, mask, fill, status) in cases {
        let qpn = w.qp(QpType::RC);
        let state = match opcode {
            Opcode::RST2INIT_QP => QpState::RST,
            _ => QpState::INIT,
        };
        w.bring_to(qpn, state);
        assert_eq!(w.change(opcode, qpn, mask, fill), status, "{what}");
        assert_eq!(w.state(qpn), state, "{what}: nothing has changed");
        w.destroy(qpn);
    }
}

#[test]
fn what_creation_refuses() {
    type Fill = fn(&mut Qpc<&mut [u8]>);
    let cases: [(&str, Fill, Status); 14] = [
        ("service", |q| q.set_st(0x5), Status::BAD_PARAM),
        ("no such PD", |q| q.set_pd(0x999), Status::BAD_RES),
        ("no such UAR", |q| q.set_uar_page(0x1fff), Status::BAD_RES),
        ("no such send CQ", |q| q.set_cqn_snd(0x999), Status::BAD_RES),
        ("no such receive CQ", |q| q.set_cqn_rcv(0x999), Status::BAD_RES),
        (
            "no such SRQ",
            |q| {
                q.set_rq_type(1);
                q.set_srqn_rmpn_xrqn(0x999);
            },
            Status::BAD_RES,
        ),
        ("kind of receive queue", |q| q.set_rq_type(2), Status::BAD_PARAM),
        ("more pages than the list has", |q| q.set_log_sq_size(8), Status::BAD_PARAM),
        (
            "receives of 1024 bytes",
            |q| {
                q.set_log_rq_stride(6);
            },
            Status::BAD_PARAM,
        ),
        ("pages of 2^43", |q| q.set_log_page_size(31), Status::BAD_PARAM),
        ("doorbell record", |q| q.set_dbr_addr(4), Status::BAD_PARAM),
        ("signed WQEs", |q| q.set_wq_signature(true), Status::BAD_PARAM),
        ("no UAR for a send queue", |q| q.set_uar_page(0), Status::BAD_RES),
        ("no PD", |q| q.set_pd(0), Status::BAD_RES),
    ];
    let mut w = World::new();
    let users =
        |w: &World| (w.f.fw.uars.users(w.uar), w.f.fw.cqs.users(w.cqn), w.f.fw.srqs.users(w.rmpn));
    let before = users(&w);
    for (what, fill, status) in cases {
        assert_eq!(w.create(QpType::RC, fill).0, status, "{what}");
        assert_eq!(users(&w), before, "{what}: nothing is held");
    }
    assert_eq!(w.create(QpType::XRC, |q| q.set_xrcd(0x999)).0, Status::BAD_RES);
}

#[test]
fn queues_that_need_little() {
    let mut w = World::new();
    // An XRC target: no send queue, no UAR, no doorbell record.
    let (status, target) = w.create(QpType::XRC, |q| {
        q.set_no_sq(true);
        q.set_uar_page(0);
        q.set_rq_type(1);
    });
    assert_eq!(status, Status::OK);
    let (status, receiver) = w.create(QpType::QP1, |q| {
        q.set_no_sq(true);
        q.set_cqn_snd(0);
    });
    assert_eq!(status, Status::OK);
    let (status, sender) = w.create(QpType::RC, |q| {
        q.set_rq_type(3);
        q.set_cqn_rcv(0);
    });
    assert_eq!(status, Status::OK);
    for qpn in [target, receiver, sender] {
        assert_eq!(w.destroy(qpn), Status::OK);
        assert_eq!(w.destroy(qpn), Status::BAD_RES, "a second time");
    }
}

#[test]
fn what_is_referred_to_is_busy() {
    let mut w = World::new();
    let rmpn = w.rmpn;
    let (status, qpn) = w.create(QpType::RC, |q| {
        q.set_rq_type(1);
        q.set_srqn_rmpn_xrqn(rmpn);
    });
    assert_eq!(status, Status::OK);
    let xrc = w.qp(QpType::XRC);
    let umr = w.qp(QpType::REG_UMR);
    w.change(Opcode::RST2INIT_QP, umr, 0, |_| {});
    assert_eq!(w.give_back(), [Status::RES_BUSY; 6]);
    for qpn in [qpn, xrc, umr] {
        assert_eq!(w.destroy(qpn), Status::OK);
    }
    assert_eq!(w.give_back(), [Status::OK; 6]);
    assert!(w.is_empty(), "{:?}", w.f.fw.object_counts());
}

#[test]
fn receives_come_from_elsewhere_later() {
    let mut w = World::new();
    let (first_cqn, first_rmpn, pd) = (w.cqn, w.rmpn, w.pd);
    let (status, qpn) = w.create(QpType::UD, |q| {
        q.set_rq_type(1);
        q.set_srqn_rmpn_xrqn(first_rmpn);
    });
    assert_eq!(status, Status::OK);
    let (_, cqn) = w.cq(|_| {});
    let out = w.f.ok(Opcode::CREATE_RMP, 0, 0x118, 0x10, |input| {
        let mut input = CreateRmpIn(input);
        let mut context = input.ctx_mut();
        let mut wq = context.wq_mut();
        wq.set_log_wq_stride(5);
        wq.set_pd(pd);
    });
    let rmpn = CreateRmpOut(&out).rmpn();
    w.bring_to(qpn, QpState::RTS);
    let users = |w: &World| {
        let fw = &w.f.fw;
        let srqs = [first_rmpn, rmpn].map(|srqn| fw.srqs.users(srqn));
        (srqs, [first_cqn, cqn].map(|cqn| fw.cqs.users(cqn)))
    };
    assert_eq!(users(&w), ([1, 0], [2, 0]));
    let both = |q: &mut Qpc<&mut [u8]>, rmpn, cqn| {
        q.set_srqn_rmpn_xrqn(rmpn);
        q.set_cqn_rcv(cqn);
    };
    let rts2rts = Opcode::RTS2RTS_QP;
    let status = w.change(rts2rts, qpn, 1 << 18 | 1 << 19, |q| both(q, rmpn, 0x999));
    assert_eq!((status, users(&w)), (Status::BAD_RES, ([1, 0], [2, 0])), "both or none");
    let status = w.change(rts2rts, qpn, 1 << 18 | 1 << 19, |q| both(q, rmpn, cqn));
    assert_eq!((status, users(&w)), (Status::OK, ([0, 1], [1, 1])));
    let out = w.query(qpn);
    let qpc = QueryQpOut(&out);
    assert_eq!((qpc.qpc().srqn_rmpn_xrqn(), qpc.qpc().cqn_rcv()), (rmpn, cqn));
    assert_eq!(w.destroy(qpn), Status::OK);
    assert_eq!(users(&w), ([0, 0], [0, 0]));
}

#[test]
fn the_umr_queue_pair_gets_another_domain_with_each_life() {
    let mut w = World::new();
    let umr = w.qp(QpType::REG_UMR);
    let first = w.pd;
    w.change(Opcode::RST2INIT_QP, umr, 0, |_| {});
    w.change(Opcode::TORST_QP, umr, 0, |_| {});
    let second = AllocPdOut(&w.f.ok(Opcode::ALLOC_PD, 0, 0x10, 0x10, |_| {})).pd();
    w.pd = 0x999;
    assert_eq!(w.change(Opcode::RST2INIT_QP, umr, 0, |_| {}), Status::BAD_RES);
    w.pd = second;
    assert_eq!(w.change(Opcode::RST2INIT_QP, umr, 0, |_| {}), Status::OK);
    let out = w.query(umr);
    assert_eq!(QueryQpOut(&out).qpc().pd(), second);
    let rmpn = w.rmpn;
    w.f.ok(Opcode::DESTROY_RMP, 0, 0x10, 0x10, |i| DestroyRmpIn(i).set_rmpn(rmpn));
    w.f.ok(Opcode::DEALLOC_PD, 0, 0x10, 0x10, |i| DeallocPdIn(i).set_pd(first));
}

#[test]
fn a_user_context_reaches_its_own_only() {
    let mut w = World::new();
    let out = w.f.ok(Opcode::CREATE_UCTX, 0, CreateUctxIn::SIZE, CreateUctxOut::SIZE, |_| {});
    let uid = CreateUctxOut(&out).uid();
    let qpn = w.qp(QpType::RC);
    let as_user = |w: &mut World, opcode, inlen, outlen| {
        let fill = |input: &mut [u8]| {
            DestroyQpIn(&mut *input).set_uid(uid);
            DestroyQpIn(input).set_qpn(qpn);
        };
        w.f.run(opcode, 0, inlen, outlen, fill).0
    };
    for (opcode, inlen, outlen) in [
        (Opcode::DESTROY_QP, 0x10, 0x10),
        (Opcode::TOERR_QP, 0x10, 0x10),
        (Opcode::TORST_QP, 0x10, 0x10),
        (Opcode::RST2INIT_QP, 0x110, 0x10),
    ] {
        assert_eq!(as_user(&mut w, opcode, inlen, outlen), Status::BAD_RES, "{opcode}");
    }
    assert_eq!(w.state(qpn), QpState::RST);
}

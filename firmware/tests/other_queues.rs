//! Completion queues and shared receive queues: what their commands take and tell.

mod common;

use common::World;
use dma::Dma;
use layouts::*;

#[test]
fn what_create_cq_refuses() {
    type Fill = fn(&mut Cqc<&mut [u8]>);
    let cases: [(&str, Fill, Status); 9] = [
        ("2^23 entries", |c| c.set_log_cq_size(23), Status::BAD_PARAM),
        ("more pages than the list has", |c| c.set_log_cq_size(7), Status::BAD_PARAM),
        (
            "an offset behind which it does not fit",
            |c| {
                c.set_log_cq_size(6);
                c.set_page_offset(1);
            },
            Status::BAD_PARAM,
        ),
        ("entry size", |c| c.set_cqe_sz(3), Status::BAD_PARAM),
        ("no such EQ", |c| c.set_c_eqn_or_apu_element(99), Status::BAD_RES),
        ("no such UAR", |c| c.set_uar_page(99), Status::BAD_RES),
        ("doorbell record", |c| c.set_dbr_addr(0x1004), Status::BAD_PARAM),
        ("compression", |c| c.set_cqe_comp_en(true), Status::BAD_PARAM),
        ("collapsed", |c| c.set_cc(true), Status::BAD_PARAM),
    ];
    let mut w = World::new();
    let users = w.f.fw.uars.users(w.uar);
    for (what, fill, status) in cases {
        assert_eq!(w.cq(fill).0, status, "{what}");
        assert_eq!(w.f.fw.uars.users(w.uar), users, "{what}: nothing is held");
    }
    // In a larger page a 64th is larger.
    let (status, _) = w.cq(|c| {
        c.set_log_cq_size(10);
        c.set_log_page_size(5);
        c.set_page_offset(32);
    });
    assert_eq!(status, Status::OK);
    let (status, _) = w.cq(|c| {
        c.set_log_cq_size(10);
        c.set_log_page_size(5);
        c.set_page_offset(33);
    });
    assert_eq!(status, Status::BAD_PARAM);
}

#[test]
fn query_cq_tells_what_was_set() {
    let mut w = World::new();
    let (_, cqn) = w.cq(|c| {
        c.set_cq_period(0x123);
        c.set_cq_max_count(0x4567);
        c.set_dbr_addr(0x9000);
    });
    let query =
        |w: &mut World| w.f.ok(Opcode::QUERY_CQ, 0, 0x10, 0x110, |i| QueryCqIn(i).set_cqn(cqn));
    let out = query(&mut w);
    let cqc = QueryCqOut(&out[..]);
    let cqc = cqc.cq_context();
    assert_eq!((cqc.status(), cqc.st(), cqc.log_cq_size()), (0, 0xa, 5));
    assert_eq!((cqc.cq_period(), cqc.cq_max_count(), cqc.dbr_addr()), (0x123, 0x4567, 0x9000));
    w.f.ok(Opcode::MODIFY_CQ, 0, 0x110, 0x10, |input| {
        let mut input = ModifyCqIn(input);
        input.set_cqn(cqn);
        input.modify_field_select_mut().set_modify_field_select(0b10);
        input.cq_context_mut().set_cq_max_count(9);
        input.cq_context_mut().set_cq_period(9);
    });
    let out = query(&mut w);
    let cqc = QueryCqOut(&out[..]);
    assert_eq!((cqc.cq_context().cq_period(), cqc.cq_context().cq_max_count()), (0x123, 9));
    for (op_mod, select) in [(0, 1 << 3), (1, 0), (2, 0)] {
        let (status, _) = w.f.run(Opcode::MODIFY_CQ, op_mod, 0x118, 0x10, |input| {
            let mut input = ModifyCqIn(input);
            input.set_cqn(cqn);
            input.modify_field_select_mut().set_modify_field_select(select);
        });
        assert_eq!(status, Status::BAD_PARAM, "op_mod {op_mod}, select {select:#x}");
    }
}

#[test]
fn one_space_of_numbers_and_three_kinds() {
    let mut w = World::new();
    let (_, cqn) = w.cq(|_| {});
    let (status, xrc) = w.xrc_srq(cqn, |_| {});
    assert_eq!(status, Status::OK);
    let pd = w.pd;
    let out = w.f.ok(Opcode::CREATE_SRQ, 0, 0x118, 0x10, |input| {
        let mut input = CreateSrqIn(input);
        let mut context = input.srq_context_entry_mut();
        context.set_log_rq_stride(1);
        context.set_pd(pd);
    });
    let basic = CreateSrqOut(&out).srqn();
    let out = w.f.ok(Opcode::CREATE_RMP, 0, 0x118, 0x10, |input| {
        let mut input = CreateRmpIn(input);
        let mut context = input.ctx_mut();
        let mut wq = context.wq_mut();
        wq.set_log_wq_stride(5);
        wq.set_pd(pd);
    });
    let rmp = CreateRmpOut(&out).rmpn();
    assert!(xrc != basic && basic != rmp && xrc != rmp);
    let commands =
        [(Opcode::DESTROY_SRQ, basic), (Opcode::DESTROY_XRC_SRQ, xrc), (Opcode::DESTROY_RMP, rmp)];
    for (opcode, own) in commands {
        for number in [basic, xrc, rmp] {
            if number != own {
                let (status, _) =
                    w.f.run(opcode, 0, 0x10, 0x10, |i| DestroySrqIn(i).set_srqn(number));
                assert_eq!(status, Status::BAD_RES, "{opcode} {number}");
            }
        }
    }
    let busy = w.f.run(Opcode::DESTROY_CQ, 0, 0x10, 0x10, |i| DestroyCqIn(i).set_cqn(cqn)).0;
    assert_eq!(busy, Status::RES_BUSY);
    for (opcode, own) in commands {
        w.f.ok(opcode, 0, 0x10, 0x10, |i| DestroySrqIn(i).set_srqn(own));
    }
    w.f.ok(Opcode::DESTROY_CQ, 0, 0x10, 0x10, |i| DestroyCqIn(i).set_cqn(cqn));
}

#[test]
fn an_xrc_queue_needs_its_own_objects() {
    let mut w = World::new();
    let (_, cqn) = w.cq(|_| {});
    assert_eq!(w.xrc_srq(0x99, |_| {}).0, Status::BAD_RES);
    assert_eq!(w.xrc_srq(cqn, |c| c.set_xrcd(0x99)).0, Status::BAD_RES);
    assert_eq!(w.xrc_srq(cqn, |c| c.set_pd(0x99)).0, Status::BAD_RES);
    assert_eq!(w.xrc_srq(cqn, |c| c.set_log_rq_stride(0)).0, Status::BAD_PARAM, "16 bytes");
    assert_eq!(w.xrc_srq(cqn, |c| c.set_log_xrc_srq_size(8)).0, Status::BAD_PARAM, "pages");
    assert_eq!(w.xrc_srq(cqn, |c| c.set_lwm(17)).0, Status::BAD_PARAM, "limit");
    assert_eq!(w.f.fw.cqs.users(cqn), 0);
}

#[test]
fn a_limit_is_told_of_once() {
    let mut w = World::new();
    let uar = w.uar;
    let ring = 0x4_0000;
    w.f.ok(Opcode::CREATE_EQ, 0, 0x118, 0x10, |input| {
        input[0x110..].copy_from_slice(&u64::to_be_bytes(ring));
        let mut input = CreateEqIn(input);
        input.set_event_bitmask(&[1 << EventType::SRQ_RQ_LIMIT.0, 0, 0, 0]);
        input.eq_context_entry_mut().set_log_eq_size(4);
        input.eq_context_entry_mut().set_uar_page(uar);
    });
    let (_, cqn) = w.cq(|_| {});
    let (_, srqn) = w.xrc_srq(cqn, |_| {});
    // Five are posted.
    w.f.memory.write(0x8000, &5u32.to_be_bytes()).unwrap();
    let arm = |w: &mut World, limit| {
        w.f.run(Opcode::ARM_XRC_SRQ, 1, 0x10, 0x10, |input| {
            let mut input = ArmXrcSrqIn(input);
            input.set_xrc_srqn(srqn);
            input.set_lwm(limit);
        })
        .0
    };
    let limit = |w: &mut World| {
        let out = w.f.ok(Opcode::QUERY_XRC_SRQ, 0, 0x10, 0x110, |i| {
            QueryXrcSrqIn(i).set_xrc_srqn(srqn);
        });
        let out = QueryXrcSrqOut(&out[..]);
        (out.xrc_srq_context_entry().lwm(), out.xrc_srq_context_entry().wqe_cnt())
    };
    let event = |w: &World, index: u64| {
        let mut bytes = [0; 64];
        w.f.memory.read(ring + 64 * index, &mut bytes).unwrap();
        (EventType(Eqe(&bytes).r#type()), Eqe(&bytes).qp_srq().qp_srq_n())
    };
    assert_eq!(arm(&mut w, 17), Status::BAD_PARAM);
    assert_eq!(arm(&mut w, 5), Status::OK);
    assert_eq!((limit(&mut w), event(&w, 0).0), ((5, 5), EventType::COMP), "not yet");
    assert_eq!(arm(&mut w, 6), Status::OK);
    assert_eq!(limit(&mut w), (0, 5), "and no longer armed");
    assert_eq!(event(&w, 0), (EventType::SRQ_RQ_LIMIT, srqn));
}

//! Queues that users make themselves, on memory that they have registered.

mod common;

use common::World;
use layouts::*;
use proptest::prelude::*;

/// A world in which the objects that queues refer to belong to a user.
struct User {
    w: World,
    uid: u16,
    uar: u32,
}

impl User {
    fn new() -> Self {
        let mut w = World::new();
        let out = w.f.ok(Opcode::CREATE_UCTX, 0, CreateUctxIn::SIZE, CreateUctxOut::SIZE, |_| {});
        let uid = CreateUctxOut(&out).uid();
        let fill = |i: &mut [u8]| AllocUarIn(i).set_uid(uid);
        let uar = AllocUarOut(&w.f.ok(Opcode::ALLOC_UAR, 0, 0x10, 0x10, fill)).uar();
        let fill = |i: &mut [u8]| AllocPdIn(i).set_uid(uid);
        w.pd = AllocPdOut(&w.f.ok(Opcode::ALLOC_PD, 0, 0x10, 0x10, fill)).pd();
        Self { w, uid, uar }
    }

    fn umem(&mut self, pages: &[u64], offset: u32) -> (Status, u32) {
        let uid = self.uid;
        let len = 0x30 + 8 * pages.len();
        let (status, out) = self.w.f.run(Opcode::CREATE_UMEM, 0, len, 0x10, |i| {
            for (to, page) in i[0x30..].chunks_mut(8).zip(pages) {
                to.copy_from_slice(&page.to_be_bytes());
            }
            let mut input = CreateUmemIn(i);
            input.set_uid(uid);
            let mut umem = input.umem_mut();
            umem.set_num_of_mtt(pages.len() as u64);
            umem.set_page_offset(offset);
        });
        (status, CreateUmemOut(&out).umem_id())
    }

    fn destroy_umem(&mut self, id: u32) -> Status {
        let uid = self.uid;
        let fill = |i: &mut [u8]| {
            let mut input = DestroyUmemIn(i);
            input.set_uid(uid);
            input.set_umem_id(id);
        };
        self.w.f.run(Opcode::DESTROY_UMEM, 0, 0x10, 0x10, fill).0
    }

    /// CREATE_CQ of 64 entries at byte `at` of `ring`, with its record at byte `record_at`.
    fn cq(&mut self, ring: u32, at: u64, record: u32, record_at: u64) -> (Status, u32) {
        let &mut Self { uid, uar, .. } = self;
        let eqn = self.w.eqn;
        let (status, out) = self.w.f.run(Opcode::CREATE_CQ, 0, 0x110, 0x10, |i| {
            let mut input = CreateCqIn(i);
            input.set_uid(uid);
            input.set_cq_umem_valid(true);
            input.set_cq_umem_id(ring);
            input.set_cq_umem_offset(at);
            let mut cqc = input.cq_context_mut();
            cqc.set_log_cq_size(6);
            cqc.set_uar_page(uar);
            cqc.set_c_eqn_or_apu_element(eqn.into());
            cqc.set_dbr_umem_valid(true);
            cqc.set_dbr_umem_id(record);
            cqc.set_dbr_addr(record_at);
        });
        (status, CreateCqOut(&out).cqn())
    }

    fn qp(&mut self, cqn: u32, buffer: u32, record: u32) -> (Status, u32) {
        let &mut Self { uid, uar, .. } = self;
        let pd = self.w.pd;
        let (status, out) = self.w.f.run(Opcode::CREATE_QP, 0, 0x110, 0x10, |i| {
            let mut input = CreateQpIn(i);
            input.set_uid(uid);
            input.set_wq_umem_valid(true);
            input.set_wq_umem_id(buffer);
            let mut qpc = input.qpc_mut();
            qpc.set_pm_state(3);
            qpc.set_pd(pd);
            qpc.set_uar_page(uar);
            qpc.set_cqn_snd(cqn);
            qpc.set_cqn_rcv(cqn);
            qpc.set_log_rq_size(2);
            qpc.set_log_sq_size(4);
            qpc.set_dbr_umem_valid(true);
            qpc.set_dbr_umem_id(record);
        });
        (status, CreateQpOut(&out).qpn())
    }

    /// CREATE_RMP of 8 WQEs of 64 bytes at byte `at` of `buffer`, with its record at byte 8 of
    /// `record`.
    fn rmp(&mut self, buffer: u32, at: u64, record: u32) -> (Status, u32) {
        let &mut Self { uid, .. } = self;
        let pd = self.w.pd;
        let (status, out) = self.w.f.run(Opcode::CREATE_RMP, 0, CreateRmpIn::SIZE, 0x10, |i| {
            let mut input = CreateRmpIn(i);
            input.set_uid(uid);
            let mut context = input.ctx_mut();
            let mut wq = context.wq_mut();
            wq.set_log_wq_sz(3);
            wq.set_log_wq_stride(6);
            wq.set_pd(pd);
            wq.set_wq_umem_valid(true);
            wq.set_wq_umem_id(buffer);
            wq.set_wq_umem_offset(at);
            wq.set_dbr_umem_valid(true);
            wq.set_dbr_umem_id(record);
            wq.set_dbr_addr(8);
        });
        (status, CreateRmpOut(&out).rmpn())
    }
}

/// A page that may be read and written.
const fn page(addr: u64) -> u64 {
    addr | 3
}

#[test]
fn queues_lie_where_the_user_says() {
    let mut u = User::new();
    // Two pages that do not follow one another, from the middle of the first on.
    let (_, ring) = u.umem(&[page(0x9000), page(0x3000)], 0x800);
    let (_, record) = u.umem(&[page(0x5000)], 0xff0);
    let (status, cqn) = u.cq(ring, 0x100, record, 8);
    assert_eq!(status, Status::OK, "{:?}", u.w.f.probe.mistakes());
    let (_, buffer) = u.umem(&[page(0x7000)], 0);
    let (status, qpn) = u.qp(cqn, buffer, record);
    assert_eq!(status, Status::OK, "{:?}", u.w.f.probe.mistakes());
    let qp = u.w.f.fw.qps.get(qpn).unwrap();
    assert_eq!(qp.doorbell_record, 0x5ff0);
    assert_eq!(qp.buffer.as_ref().unwrap().locate(64), Some((0x7040, 0x400)));
    // All of it is kept until nothing refers to it.
    for umem in [ring, record, buffer] {
        assert_eq!(u.destroy_umem(umem), Status::RES_BUSY);
    }
    assert_eq!(u.w.destroy(qpn), Status::OK);
    let destroy = |i: &mut [u8]| DestroyCqIn(i).set_cqn(cqn);
    u.w.f.ok(Opcode::DESTROY_CQ, 0, 0x10, 0x10, destroy);
    for umem in [ring, record, buffer] {
        assert_eq!(u.destroy_umem(umem), Status::OK);
        assert_eq!(u.destroy_umem(umem), Status::BAD_RES);
    }
}

#[test]
fn shared_receives_lie_where_the_user_says() {
    let mut u = User::new();
    let (_, buffer) = u.umem(&[0x9000 | 1], 0);
    let (_, record) = u.umem(&[page(0x5000)], 0x100);
    let (status, rmpn) = u.rmp(buffer, 0xe00, record);
    assert_eq!(status, Status::OK, "{:?}", u.w.f.probe.mistakes());
    let srq = u.w.f.fw.srqs.get(rmpn).unwrap();
    assert_eq!(srq.doorbell_record, 0x5108);
    assert_eq!(srq.buffer.locate(64), Some((0x9e40, 0x1c0)));
    for umem in [buffer, record] {
        assert_eq!(u.destroy_umem(umem), Status::RES_BUSY);
    }
    assert_eq!(u.rmp(buffer, 0xe40, record).0, Status::BAD_PARAM, "past its end");
    assert_eq!(u.rmp(0x99, 0, record).0, Status::BAD_RES);
    assert_eq!(u.rmp(buffer, 0, 0x99).0, Status::BAD_RES);
    let uid = std::mem::replace(&mut u.uid, 0x77);
    assert_eq!(u.rmp(buffer, 0, record).0, Status::BAD_RES, "another user's");
    u.uid = uid;
    let destroy = |i: &mut [u8]| DestroyRmpIn(i).set_rmpn(rmpn);
    u.w.f.ok(Opcode::DESTROY_RMP, 0, 0x10, 0x10, destroy);
    for umem in [buffer, record] {
        assert_eq!(u.destroy_umem(umem), Status::OK);
    }
}

#[test]
fn an_xrc_queue_has_pages_of_its_own() {
    let mut w = World::new();
    let cqn = w.cqn;
    assert_eq!(w.xrc_srq(cqn, |c| c.set_dbr_umem_valid(true)).0, Status::BAD_PARAM);
    let (pd, xrcd) = (w.pd, w.xrcd);
    let create = |valid: bool| {
        move |i: &mut [u8]| {
            let mut input = CreateXrcSrqIn(i);
            input.set_xrc_srq_umem_valid(valid);
            let mut context = input.xrc_srq_context_entry_mut();
            context.set_log_xrc_srq_size(4);
            context.set_log_rq_stride(2);
            context.set_pd(pd);
            context.set_cqn(cqn);
            context.set_xrcd(xrcd);
        }
    };
    let mut status = |valid| w.f.run(Opcode::CREATE_XRC_SRQ, 0, 0x118, 0x10, create(valid)).0;
    assert_eq!((status(true), status(false)), (Status::BAD_PARAM, Status::OK));
}

#[test]
fn what_user_memory_can_not_be() {
    let mut u = User::new();
    for (pages, offset) in
        [(&[][..], 0), (&[page(0x1000)], 0x1000), (&[page(0x1000)], u32::MAX), (&[0x1000], 0)]
    {
        assert_eq!(u.umem(pages, offset).0, Status::BAD_PARAM, "{pages:x?} {offset:#x}");
    }
    assert_eq!(u.w.f.fw.umems.len(), 0);
    // More pages than the list has.
    let uid = u.uid;
    for count in [2, 1 << 29, u64::MAX] {
        let (status, _) = u.w.f.run(Opcode::CREATE_UMEM, 0, 0x38, 0x10, |i| {
            CreateUmemIn(&mut *i).set_uid(uid);
            CreateUmemIn(i).umem_mut().set_num_of_mtt(count);
        });
        assert_eq!(status, Status::BAD_PARAM);
    }
}

#[test]
fn queues_stay_within_their_user_s_memory() {
    let mut u = User::new();
    let (_, one) = u.umem(&[page(0x9000)], 0);
    let (_, read_only) = u.umem(&[0x5000 | 1], 0);
    // Sixty-four entries fill the page.
    assert_eq!(u.cq(one, 0, one, 0).0, Status::OK);
    let cases = [
        ("past its end", (one, 64, one, 0), Status::BAD_PARAM),
        ("far past its end", (one, u64::MAX - 63, one, 0), Status::BAD_PARAM),
        ("entries across pages", (one, 8, one, 0), Status::BAD_PARAM),
        ("entries that can't be written", (read_only, 0, one, 0), Status::BAD_PARAM),
        ("a record past its end", (one, 0, one, 0x1000), Status::BAD_PARAM),
        ("a record that is cut", (one, 0, one, 0xffc), Status::BAD_PARAM),
        ("a record that is not aligned", (one, 0, one, 4), Status::BAD_PARAM),
        ("no such memory", (0x99, 0, one, 0), Status::BAD_RES),
        ("no such memory for the record", (one, 0, 0x99, 0), Status::BAD_RES),
    ];
    for (what, (ring, at, record, record_at), status) in cases {
        assert_eq!(u.cq(ring, at, record, record_at).0, status, "{what}");
    }
    // A record is only read.
    assert_eq!(u.cq(one, 0, read_only, 0).0, Status::OK);
    // Another user has no such memory, and no queue to complete into.
    let out = u.w.f.ok(Opcode::CREATE_UCTX, 0, CreateUctxIn::SIZE, CreateUctxOut::SIZE, |_| {});
    u.uid = CreateUctxOut(&out).uid();
    assert_eq!(u.cq(one, 0, one, 0).0, Status::BAD_RES);
    assert_eq!(u.destroy_umem(one), Status::BAD_RES);
}

#[test]
fn a_user_builds_on_its_own_objects_only() {
    let mut u = User::new();
    let (_, memory) = u.umem(&[page(0x9000)], 0);
    let (_, cqn) = u.cq(memory, 0, memory, 0);
    assert_eq!(u.qp(cqn, memory, memory).0, Status::OK);
    let (own_pd, own_uar) = (u.w.pd, u.uar);
    assert_eq!(u.qp(u.w.cqn, memory, memory).0, Status::BAD_RES, "the driver's queue");
    u.w.pd = AllocPdOut(&u.w.f.ok(Opcode::ALLOC_PD, 0, 0x10, 0x10, |_| {})).pd();
    assert_eq!(u.qp(cqn, memory, memory).0, Status::BAD_RES, "the driver's domain");
    u.w.pd = own_pd;
    u.uar = u.w.uar;
    assert_eq!(u.qp(cqn, memory, memory).0, Status::BAD_RES, "the driver's page");
    assert_eq!(u.cq(memory, 0, memory, 0).0, Status::BAD_RES, "the driver's page");
    u.uar = own_uar;
    let users = u.w.f.fw.cqs.users(cqn);
    let uid = u.uid;
    for service in [QpType::REG_UMR, QpType::QP0, QpType::QP1] {
        let (pd, uar) = (u.w.pd, u.uar);
        let (status, _) = u.w.f.run(Opcode::CREATE_QP, 0, 0x118, 0x10, |i| {
            CreateQpIn(&mut *i).set_uid(uid);
            let mut input = CreateQpIn(i);
            let mut qpc = input.qpc_mut();
            qpc.set_st(service.0);
            qpc.set_pd(pd);
            qpc.set_uar_page(uar);
            qpc.set_cqn_snd(cqn);
            qpc.set_cqn_rcv(cqn);
        });
        assert_eq!(status, Status::BAD_PARAM, "{service}");
    }
    assert_eq!(u.w.f.fw.cqs.users(cqn), users, "nothing is held");
}

#[test]
fn a_user_s_key_names_keys() {
    let mut u = User::new();
    let (pd, user) = (u.w.pd, u.uid);
    let mut create = |uid, mode, on_umem| {
        let (status, out) = u.w.f.run(Opcode::CREATE_MKEY, 0, CreateMkeyIn::SIZE, 0x10, |i| {
            let mut input = CreateMkeyIn(i);
            input.set_uid(uid);
            input.set_mkey_umem_valid(on_umem);
            let mut mkc = input.memory_key_mkey_entry_mut();
            mkc.set_access_mode_1_0(mode);
            mkc.set_log_page_size(12);
            mkc.set_lr(true);
            mkc.set_len(0x1000);
            mkc.set_translations_octword_size(4);
            mkc.set_pd(pd);
        });
        (status, CreateMkeyOut(&out).mkey_index())
    };
    // PA, MTT, KLM, KSM.
    for (mode, of_user) in
        [(0, Status::BAD_PARAM), (1, Status::BAD_PARAM), (2, Status::OK), (3, Status::OK)]
    {
        assert_eq!(create(user, mode, false).0, of_user, "mode {mode}");
        assert_eq!(create(0, mode, false).0, Status::OK, "mode {mode}");
        assert_eq!(create(user, mode, true).0, Status::BAD_PARAM, "not offered");
    }
}

proptest! {
    /// Any description of memory, any place in it: an answer, and what was held is given back.
    #[test]
    fn any_memory_is_answered(
        bytes in prop::collection::vec(any::<u8>(), 0x20..0x80),
        log_page in 0u8..32,
        count in prop_oneof![0..8u64, any::<u64>()],
        offset in prop_oneof![0..0x2000u32, any::<u32>()],
        at in prop_oneof![0..0x2000u64, any::<u64>()],
    ) {
        let mut u = User::new();
        let uid = u.uid;
        let (status, out) = u.w.f.run(Opcode::CREATE_UMEM, 0, 0x10 + bytes.len(), 0x10, |i| {
            i[0x10..].copy_from_slice(&bytes);
            let mut input = CreateUmemIn(i);
            input.set_uid(uid);
            let mut umem = input.umem_mut();
            umem.set_log_page_size(log_page);
            umem.set_num_of_mtt(count);
            umem.set_page_offset(offset);
        });
        let id = CreateUmemOut(&out).umem_id();
        if status == Status::OK {
            let (status, cqn) = u.cq(id, at & !63, id, at & !7);
            if status == Status::OK {
                prop_assert_eq!(u.destroy_umem(id), Status::RES_BUSY);
                u.w.f.ok(Opcode::DESTROY_CQ, 0, 0x10, 0x10, |i| DestroyCqIn(i).set_cqn(cqn));
            }
            prop_assert_eq!(u.destroy_umem(id), Status::OK);
        }
        prop_assert!(u.w.f.fw.umems.is_empty());
    }
}

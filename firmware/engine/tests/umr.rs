//! UMR as the drivers post it: translations inline and by pointer, checks, failure and recovery.

mod common;

use common::{Bench, Cq, Qp, QpOptions, failure};
use layouts::*;
use mtt::{Access, Piece, Pieces, Place, Question};

struct Umr<'a> {
    key: u32,
    flags: u8,
    mask: u64,
    octwords: u16,
    offset: u64,
    mkc: &'a dyn Fn(&mut Mkc<&mut [u8]>),
}

impl Default for Umr<'_> {
    fn default() -> Self {
        Self { key: 0, flags: 0, mask: 0, octwords: 0, offset: 0, mkc: &|_| {} }
    }
}

impl Umr<'_> {
    fn wqe(&self, after: &[u8]) -> Vec<u8> {
        let mut wqe = vec![0; 128];
        let mut ctrl = WqeCtrlSeg(&mut wqe[..16]);
        ctrl.set_ce(2);
        ctrl.set_umr_mkey(self.key);
        let mut umr = WqeUmrCtrlSeg(&mut wqe[16..64]);
        umr.set_flags(self.flags);
        umr.set_xlt_octowords(self.octwords);
        umr.set_xlt_offset(self.offset as u16);
        umr.set_xlt_offset_47_16((self.offset >> 16) as u32);
        umr.set_mkey_mask(self.mask);
        (self.mkc)(&mut Mkc(&mut wqe[64..128]));
        wqe.extend_from_slice(after);
        wqe
    }
}

const ENABLE: u64 = mkey_mask::FREE
    | mkey_mask::KEY
    | mkey_mask::LEN
    | mkey_mask::START_ADDR
    | mkey_mask::PAGE_SIZE
    | mkey_mask::LR
    | mkey_mask::LW
    | mkey_mask::PD;

/// The driver's own UMR queue pair, and a key of it that is free with room for `octwords`.
fn umr_pair(bench: &mut Bench, octwords: u32) -> (Cq, Qp, u32) {
    let cq = bench.cq(7);
    let qp = bench.ready_qp(&QpOptions::new(QpType::REG_UMR, cq.cqn, cq.cqn));
    let key = free_key(bench, octwords);
    (cq, qp, key)
}

fn free_key(bench: &mut Bench, octwords: u32) -> u32 {
    let pd = bench.pd;
    bench.key(|mkc| {
        mkc.set_free(true);
        mkc.set_umr_en(true);
        mkc.set_access_mode_1_0(1);
        mkc.set_log_page_size(12);
        mkc.set_pd(pd);
        mkc.set_translations_octword_size(octwords);
    })
}

fn mtts(pages: impl IntoIterator<Item = u64>) -> Vec<u8> {
    pages.into_iter().flat_map(|page| (page | 3).to_be_bytes()).collect()
}

/// The segment that names a list in memory.
fn pointer(addr: u64, len: usize, lkey: u32) -> Vec<u8> {
    let mut segment = vec![0; 16];
    let mut view = WqeDataSeg(&mut segment);
    view.set_byte_count(len as u32);
    view.set_lkey(lkey);
    view.set_addr(addr);
    segment
}

fn post(bench: &mut Bench, cq: &mut Cq, qp: &mut Qp, wqe: &[u8]) -> Cqe64<[u8; 64]> {
    bench.post(qp, WqeOpcode::UMR, wqe);
    bench.ring(qp);
    bench.run();
    let mut seen = bench.drain(cq);
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].sop(), seen[0].qpn()), (WqeOpcode::UMR.0, qp.qpn));
    seen.remove(0)
}

fn succeeded(entry: &Cqe64<[u8; 64]>) -> bool {
    CqeOpcode(entry.opcode()) == CqeOpcode::REQ
}

fn pieces(bench: &Bench, key: u32, addr: u64, len: u64) -> Option<Vec<Piece>> {
    let access = Access::LocalWrite;
    let question = Question { key, addr, len, access, pd: Some(bench.pd), qpn: None };
    let mut pieces = Pieces::new();
    bench.f.fw.mtt.translate(&question, &mut pieces).ok()?;
    Some(pieces.to_vec())
}

#[test]
fn a_registration_of_many_pages_in_chunks() {
    let mut bench = Bench::new();
    let (mut cq, mut qp, key) = umr_pair(&mut bench, 1024);
    // 1500 pages, every other one of a range, in chunks of 600, by pointer.
    let pages: Vec<u64> = (0..1500).map(|i| 0x10_0000_0000 + 0x2000 * i).collect();
    let list = bench.pages(600 * 8);
    let mut offset = 0;
    for (i, chunk) in pages.chunks(600).enumerate() {
        let mut bytes = mtts(chunk.iter().copied());
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        bench.write(list, &bytes);
        let last = i == 2;
        let octwords = (bytes.len() / 16) as u16;
        let pd = bench.pd;
        let mkc = move |mkc: &mut Mkc<&mut [u8]>| {
            mkc.set_lr(true);
            mkc.set_lw(true);
            mkc.set_start_addr(0x7000_0000_0123);
            mkc.set_len(1500 * 4096 - 0x200);
            mkc.set_log_page_size(12);
            mkc.set_pd(pd);
            mkc.set_mkey_7_0(key as u8);
        };
        let mut flags = umr_flags::CHECK_NOT_FREE;
        if i > 0 {
            flags |= umr_flags::TRANSLATION_OFFSET_EN;
        }
        let mask = if last { ENABLE } else { 0 };
        let umr = Umr { key, flags, mask, octwords, offset, mkc: &mkc };
        let wqe = umr.wqe(&pointer(list, bytes.len(), bench.lkey));
        assert!(succeeded(&post(&mut bench, &mut cq, &mut qp, &wqe)));
        offset += u64::from(octwords);
        assert_eq!(pieces(&bench, key, 0x7000_0000_0123, 1).is_some(), last, "free until the end");
    }
    let found = pieces(&bench, key, 0x7000_0000_0123, 1500 * 4096 - 0x200).unwrap();
    assert_eq!(found.len(), 1500);
    assert_eq!(found[0], Piece { place: Place::Memory(0x10_0000_0123), len: 4096 - 0x123 });
    assert_eq!(found[700], Piece { place: Place::Memory(pages[700]), len: 4096 });
    assert_eq!(bench.f.probe.value(probe::Counter::Umr), 3);
}

#[test]
fn inline_translations_across_the_end_of_the_ring() {
    let mut bench = Bench::new();
    let (mut cq, mut qp, key) = umr_pair(&mut bench, 16);
    // The ring has 16 basic blocks; the WQE takes three, from 14 on.
    bench.nops(&mut qp, 14);
    bench.drain(&mut cq);
    let pd = bench.pd;
    let mkc = move |mkc: &mut Mkc<&mut [u8]>| {
        mkc.set_lr(true);
        mkc.set_lw(true);
        mkc.set_len(8 * 4096);
        mkc.set_log_page_size(12);
        mkc.set_pd(pd);
        mkc.set_mkey_7_0(0x33);
    };
    let flags = umr_flags::INLINE | umr_flags::CHECK_NOT_FREE;
    // As fast registration does: the key is named by the variant that it gets.
    let new = key & !0xff | 0x33;
    let umr = Umr { key: new, flags, mask: ENABLE, octwords: 4, mkc: &mkc, ..Umr::default() };
    let wqe = umr.wqe(&mtts((0..8).map(|i| 0x4000_0000 + 0x10_0000 * i)));
    let entry = post(&mut bench, &mut cq, &mut qp, &wqe);
    assert!(succeeded(&entry));
    assert_eq!(entry.wqe_counter(), 14);
    let found = pieces(&bench, new, 7 * 4096 + 5, 10).unwrap();
    assert_eq!(found, [Piece { place: Place::Memory(0x4070_0005), len: 10 }]);
    assert!(pieces(&bench, key, 0, 1).is_none(), "the old variant");
}

#[test]
fn revoking_and_local_invalidation_need_no_translations() {
    let mut bench = Bench::new();
    let (mut cq, mut qp, _) = umr_pair(&mut bench, 16);
    let (pd, page) = (bench.pd, 0x5000);
    let key = bench.key(|mkc| {
        mkc.set_umr_en(true);
        mkc.set_pd(pd);
        mkc.set_length64(true);
        mkc.set_lr(true);
        mkc.set_lw(true);
    });
    assert!(pieces(&bench, key, page, 1).is_some());
    let free = |mkc: &mut Mkc<&mut [u8]>| mkc.set_free(true);
    let (flags, mask) = (umr_flags::INLINE, mkey_mask::FREE);
    let wqe = Umr { key, flags, mask, mkc: &free, ..Umr::default() }.wqe(&[]);
    assert!(succeeded(&post(&mut bench, &mut cq, &mut qp, &wqe)));
    assert!(pieces(&bench, key, page, 1).is_none());
}

#[test]
fn every_failure_fails_the_work_request() {
    type Make = fn(&Bench, u32) -> Vec<u8>;
    let bind = (CqeSyndrome::MW_BIND_ERR, 0x78);
    let bad_wqe = (CqeSyndrome::LOCAL_QP_OP_ERR, 0x61);
    let cases: [(&str, Make, (CqeSyndrome, u8)); 8] = [
        ("no such key", |_, key| Umr { key: key + 0x1_0000, ..Umr::default() }.wqe(&[]), bind),
        (
            "not free, but it is",
            |_, key| Umr { key, flags: umr_flags::CHECK_FREE, ..Umr::default() }.wqe(&[]),
            bind,
        ),
        (
            "more than there is room for",
            |b, key| {
                let umr = Umr { key, octwords: 20, ..Umr::default() };
                umr.wqe(&pointer(0x1000, 320, b.lkey))
            },
            bind,
        ),
        (
            "a list that is shorter than it says",
            |b, key| {
                let umr = Umr { key, octwords: 4, ..Umr::default() };
                umr.wqe(&pointer(0x1000, 32, b.lkey))
            },
            bad_wqe,
        ),
        ("no list", |_, key| Umr { key, octwords: 4, ..Umr::default() }.wqe(&[]), bad_wqe),
        (
            "inline beyond the WQE",
            |_, key| {
                let umr = Umr { key, flags: umr_flags::INLINE, octwords: 8, ..Umr::default() };
                umr.wqe(&[0; 64])
            },
            bad_wqe,
        ),
        (
            "a list by a key that does not exist",
            |_, key| {
                Umr { key, octwords: 4, ..Umr::default() }.wqe(&pointer(0x1000, 64, 0xdead_be00))
            },
            (CqeSyndrome::LOCAL_PROT_ERR, 0x51),
        ),
        (
            "a list that is not mapped",
            |b, key| Umr { key, octwords: 4, ..Umr::default() }.wqe(&pointer(1 << 40, 64, b.lkey)),
            (CqeSyndrome::LOCAL_PROT_ERR, 0x51),
        ),
    ];
    for (what, make, expected) in cases {
        let mut bench = Bench::new();
        let (mut cq, mut qp, key) = umr_pair(&mut bench, 16);
        let wqe = make(&bench, key);
        let entry = post(&mut bench, &mut cq, &mut qp, &wqe);
        assert_eq!(CqeOpcode(entry.opcode()), CqeOpcode::REQ_ERR, "{what}");
        assert_eq!(failure(&entry), expected, "{what}");
        assert_eq!(bench.state(qp.qpn), QpState::ERR, "{what}");
    }
}

#[test]
fn the_driver_recovers_as_it_does() {
    let mut bench = Bench::new();
    let (mut cq, mut qp, key) = umr_pair(&mut bench, 16);
    let bad = Umr { key, flags: umr_flags::CHECK_FREE, ..Umr::default() }.wqe(&[]);
    post(&mut bench, &mut cq, &mut qp, &bad);
    // The same again, as a barrier: flushed.
    let entry = post(&mut bench, &mut cq, &mut qp, &bad);
    assert_eq!(failure(&entry), (CqeSyndrome::WR_FLUSH_ERR, 0xf9));
    assert_eq!(bench.state_command(Opcode::TORST_QP, qp.qpn), Status::OK);
    qp.posted = 0;
    bench.write(qp.record, &[0; 8]);
    bench.bring_up(qp.qpn);
    let good = Umr { key, flags: umr_flags::INLINE, ..Umr::default() }.wqe(&[]);
    assert!(succeeded(&post(&mut bench, &mut cq, &mut qp, &good)));
}

#[test]
fn others_change_keys_of_their_own_domain_only() {
    for service in [QpType::RC, QpType::UC, QpType::XRC] {
        let mut bench = Bench::new();
        let cq = bench.cq(4);
        let mut cq = cq;
        let mut qp = bench.ready_qp(&QpOptions::new(service, cq.cqn, cq.cqn));
        let own = free_key(&mut bench, 16);
        let umr = |key| Umr { key, flags: umr_flags::INLINE, ..Umr::default() }.wqe(&[]);
        assert!(succeeded(&post(&mut bench, &mut cq, &mut qp, &umr(own))), "{service}");
        let pd = AllocPdOut(&bench.f.ok(Opcode::ALLOC_PD, 0, 0x10, 0x10, |_| {})).pd();
        let ours = std::mem::replace(&mut bench.pd, pd);
        let foreign = free_key(&mut bench, 16);
        bench.pd = ours;
        let entry = post(&mut bench, &mut cq, &mut qp, &umr(foreign));
        assert_eq!(failure(&entry), (CqeSyndrome::MW_BIND_ERR, 0x78), "{service}");
    }
}

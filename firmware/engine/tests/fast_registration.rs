//! Fast registration as the kernel's own users post it (IB_WR_REG_MR, IB_WR_LOCAL_INV): through
//! their connection, before and after the peer uses the memory.

mod common;

use common::failure;
use common::pair::{Pair, inline, local, remote, wqe};
use common::regions::{key_with, region, run};
use layouts::*;

/// Lists of up to this many bytes are in the WQE.
const INLINE: usize = 128;
/// What mlx5_ib names.
const MASK: u64 = mkey_mask::LEN
    | mkey_mask::PAGE_SIZE
    | mkey_mask::START_ADDR
    | mkey_mask::EN_RINVAL
    | mkey_mask::KEY
    | mkey_mask::LR
    | mkey_mask::LW
    | mkey_mask::RR
    | mkey_mask::RW
    | mkey_mask::SMALL_FENCE
    | mkey_mask::FREE;

/// ib_alloc_mr: a free key with room for `bytes` of list.
fn alloc(pair: &mut Pair, mode: u8, bytes: usize) -> u32 {
    let pd = pair.bench.pd;
    key_with(&mut pair.bench, &vec![0; bytes], &|mkc| {
        mkc.set_free(true);
        mkc.set_access_mode_1_0(mode);
        mkc.set_log_page_size(12);
        mkc.set_pd(pd);
        for set in [Mkc::set_lw, Mkc::set_rr, Mkc::set_rw, Mkc::set_a] {
            set(mkc, false);
        }
    })
}

/// IB_WR_REG_MR of `len` bytes from `start`, by a list that is in the WQE or at `list_at`.
fn register(pair: &Pair, key: u32, (start, len): (u64, u64), list: &[u8], list_at: u64) -> Vec<u8> {
    let mut list = list.to_vec();
    let is_inline = list.len() <= INLINE;
    list.resize(list.len().next_multiple_of(64), 0);
    let mut bytes = vec![0; 128];
    let mut ctrl = WqeCtrlSeg(&mut bytes[..16]);
    ctrl.set_ce(2);
    ctrl.set_umr_mkey(key);
    let mut umr = WqeUmrCtrlSeg(&mut bytes[16..64]);
    umr.set_flags(umr_flags::CHECK_NOT_FREE | if is_inline { umr_flags::INLINE } else { 0 });
    umr.set_xlt_octowords((list.len() / 16) as u16);
    umr.set_mkey_mask(MASK);
    let mut mkc = Mkc(&mut bytes[64..128]);
    mkc.set_mkey_7_0(key as u8);
    mkc.set_qpn(0xff_ffff);
    mkc.set_umr_en(true);
    mkc.set_lr(true);
    mkc.set_lw(true);
    mkc.set_rw(true);
    mkc.set_en_rinval(true);
    mkc.set_start_addr(start);
    mkc.set_len(len);
    mkc.set_log_page_size(12);
    if is_inline {
        bytes.extend_from_slice(&list);
    } else {
        pair.bench.write(list_at, &list);
        bytes.extend_from_slice(&local(list_at, pair.bench.lkey, list.len() as u32));
    }
    bytes
}

/// IB_WR_LOCAL_INV.
fn invalidate(key: u32) -> Vec<u8> {
    let mut bytes = vec![0; 128];
    let mut ctrl = WqeCtrlSeg(&mut bytes[..16]);
    ctrl.set_ce(2);
    ctrl.set_umr_mkey(key);
    let mut umr = WqeUmrCtrlSeg(&mut bytes[16..64]);
    umr.set_flags(umr_flags::INLINE);
    umr.set_mkey_mask(mkey_mask::FREE);
    Mkc(&mut bytes[64..128]).set_free(true);
    bytes
}

fn umr(pair: &mut Pair, bytes: &[u8]) -> Result<(), (CqeSyndrome, u8)> {
    pair.bench.post(&mut pair.b, WqeOpcode::UMR, bytes);
    pair.bench.ring(&pair.b);
    pair.bench.run();
    let seen = pair.drain_b();
    match CqeOpcode(seen[0].opcode()) {
        CqeOpcode::REQ => Ok(()),
        _ => Err(failure(&seen[0])),
    }
}

fn write(pair: &mut Pair, key: u32, addr: u64) -> bool {
    pair.post(WqeOpcode::RDMA_WRITE, &wqe(&[&remote(addr, key), &inline(b"x")]));
    pair.go();
    CqeOpcode(pair.drain_a()[0].opcode()) == CqeOpcode::REQ
}

#[test]
fn pages_are_registered_used_invalidated_and_registered_again() {
    let mut pair = Pair::new(QpType::RC);
    let (to, list_at) = (pair.to, pair.from + 0x8000);
    let key = alloc(&mut pair, 1, 32 * 8);
    // Two pages, then more than a WQE holds, in the other order; each time under the next key.
    let few = [to + 0x1000, to];
    let many: Vec<u64> = (0..16).rev().map(|page| to + page * 0x1000).collect();
    for (turn, pages) in (1..).zip([&few[..], &[many.clone(), many.clone()].concat()]) {
        let key = key + turn;
        let list: Vec<u8> = pages.iter().flat_map(|page| (page | 3).to_be_bytes()).collect();
        let len = pages.len() as u64 * 0x1000;
        let request = register(&pair, key, (0x1_0000_0000, len), &list, list_at);
        assert_eq!(umr(&mut pair, &request), Ok(()), "{turn}");
        for (index, &page) in pages.iter().enumerate() {
            pair.bench.write(page + 7, b"-");
            assert!(write(&mut pair, key, 0x1_0000_0007 + index as u64 * 0x1000));
            assert_eq!(pair.bytes(page + 7, 1), b"x");
        }
        assert_eq!(umr(&mut pair, &invalidate(key)), Ok(()));
    }
    assert!(!write(&mut pair, key + 2, 0x1_0000_0000), "invalidated");
}

#[test]
fn a_key_in_use_is_not_registered_again() {
    let mut pair = Pair::new(QpType::RC);
    let (to, key) = (pair.to, alloc(&mut pair, 1, 64));
    let list = (to | 3).to_be_bytes();
    let request = register(&pair, key, (0, 0x1000), &list, 0);
    assert_eq!(umr(&mut pair, &request), Ok(()));
    assert_eq!(umr(&mut pair, &request), Err((CqeSyndrome::MW_BIND_ERR, 0x78)));
    let b = pair.b.qpn;
    assert_eq!(pair.bench.state(b), QpState::ERR);
}

#[test]
fn memory_with_gaps_is_registered_by_runs() {
    let mut pair = Pair::new(QpType::RC);
    let (pd, to) = (pair.bench.pd, pair.to);
    let under =
        region(&mut pair.bench, pd, to, 0x4000, &[0, 1, 2, 3].map(|n| to + n * 0x1000), &|_| {});
    let key = alloc(&mut pair, 2, 64);
    let list = [run(5, under, to + 1), run(700, under, to + 0x1ffe), run(3, under, to)].concat();
    let request = register(&pair, key, (0x5000, 708), &list, 0);
    assert_eq!(umr(&mut pair, &request), Ok(()));
    let message: Vec<u8> = (0..708u32).map(|n| n as u8 | 1).collect();
    pair.bench.write(pair.from, &message);
    pair.bench.write(to, &[0; 0x3000]);
    let (from, lkey) = (pair.from, pair.bench.lkey);
    pair.post(WqeOpcode::RDMA_WRITE, &wqe(&[&remote(0x5000, key), &local(from, lkey, 708)]));
    pair.go();
    assert_eq!(CqeOpcode(pair.drain_a()[0].opcode()), CqeOpcode::REQ);
    // The last run lies before the first.
    let mut expected = vec![0; 0x3000];
    expected[1..6].copy_from_slice(&message[..5]);
    expected[0x1ffe..0x1ffe + 700].copy_from_slice(&message[5..705]);
    expected[..3].copy_from_slice(&message[705..]);
    assert!(pair.bytes(to, 0x3000) == expected);
}

//! Memory windows and indirect keys, bound, used and invalidated through the queue pairs of their
//! users, with the work requests that rdma-core posts.

mod common;

use common::failure;
use common::pair::{Pair, inline, local, remote, wqe};
use common::regions::{key_with, region, run};
use layouts::*;

const START: u64 = 0x7000;
const LEN: u64 = 0x2000;
/// Neither for reading nor writing from afar.
fn closed(mkc: &mut Mkc<&mut [u8]>) {
    mkc.set_rr(false);
    mkc.set_rw(false);
    mkc.set_a(false);
}

/// A region of the responder that no peer may touch.
fn under(pair: &mut Pair) -> u32 {
    let (pd, to) = (pair.bench.pd, pair.to);
    region(&mut pair.bench, pd, START, LEN, &[to, to + 0x1000], &closed)
}

/// ALLOC_MW as mlx5_ib does it.
fn alloc_window(pair: &mut Pair, type_2: bool) -> u32 {
    let pd = pair.bench.pd;
    key_with(&mut pair.bench, &[0; 64], &|mkc| {
        closed(mkc);
        mkc.set_lw(false);
        mkc.set_free(true);
        mkc.set_access_mode_1_0(2);
        mkc.set_pd(pd);
        mkc.set_en_rinval(type_2);
    })
}

/// What a bind asks for.
struct Bind {
    window: u32,
    /// The key afterwards.
    next: u32,
    under: u32,
    start: u64,
    len: u32,
    /// The queue pair that the window is bound to.
    qpn: Option<u32>,
}

/// rdma-core's bind: a UMR of the key's rights, bounds and its one run. Of no bytes: an unbind.
fn bind(bind: &Bind) -> Vec<u8> {
    let &Bind { window, next, under, start, len, qpn } = bind;
    let mut flags = umr_flags::INLINE | umr_flags::TRANSLATION_OFFSET_EN;
    let mut mask = mkey_mask::FREE | mkey_mask::KEY;
    if qpn.is_some() {
        mask |= mkey_mask::QPN;
        // To be bound it must be free; to be unbound it must be this queue pair's.
        flags |= if len == 0 { umr_flags::CHECK_QPN } else { umr_flags::CHECK_NOT_FREE };
    }
    if len != 0 {
        mask |= mkey_mask::LEN | mkey_mask::START_ADDR;
        mask |= mkey_mask::LW | mkey_mask::RR | mkey_mask::RW | mkey_mask::A;
    }
    let mut bytes = vec![0; if len == 0 { 128 } else { 192 }];
    let mut ctrl = WqeCtrlSeg(&mut bytes[..16]);
    ctrl.set_ce(2);
    ctrl.set_umr_mkey(window);
    let mut umr = WqeUmrCtrlSeg(&mut bytes[16..64]);
    umr.set_flags(flags);
    umr.set_mkey_mask(mask);
    umr.set_xlt_octowords(if len == 0 { 0 } else { 4 });
    let mut mkc = Mkc(&mut bytes[64..128]);
    mkc.set_mkey_7_0(next as u8);
    mkc.set_qpn(qpn.filter(|_| len != 0).unwrap_or(0xff_ffff));
    mkc.set_free(len == 0);
    mkc.set_rr(true);
    mkc.set_rw(true);
    mkc.set_start_addr(start);
    mkc.set_len(len.into());
    if len != 0 {
        bytes[128..144].copy_from_slice(&run(len, under, start));
    }
    bytes
}

/// rdma-core's local invalidation: an unbind to variant 0.
fn invalidate(key: u32, qpn: u32) -> Vec<u8> {
    bind(&Bind { window: key, next: 0, under: 0, start: 0, len: 0, qpn: Some(qpn) })
}

/// Posts a UMR to the responder's queue and returns what its completion says.
fn umr(pair: &mut Pair, bytes: &[u8]) -> Result<(), (CqeSyndrome, u8)> {
    pair.bench.post(&mut pair.b, WqeOpcode::UMR, bytes);
    pair.bench.ring(&pair.b);
    pair.bench.run();
    let seen = pair.drain_b();
    assert_eq!(seen.len(), 1);
    match CqeOpcode(seen[0].opcode()) {
        CqeOpcode::REQ => Ok(()),
        _ => Err(failure(&seen[0])),
    }
}

/// Writes "x" through a key from afar; what the requester is told.
fn write(pair: &mut Pair, key: u32, addr: u64) -> Result<(), (CqeSyndrome, u8)> {
    pair.post(WqeOpcode::RDMA_WRITE, &wqe(&[&remote(addr, key), &inline(b"x")]));
    pair.go();
    let seen = pair.drain_a();
    assert_eq!(seen.len(), 1);
    match CqeOpcode(seen[0].opcode()) {
        CqeOpcode::REQ => Ok(()),
        _ => Err(failure(&seen[0])),
    }
}

const REFUSED: Result<(), (CqeSyndrome, u8)> = Err((CqeSyndrome::REMOTE_ACCESS_ERR, 0x88));
const NOT_BOUND: Result<(), (CqeSyndrome, u8)> = Err((CqeSyndrome::MW_BIND_ERR, 0x78));

/// Both ends anew, after a refusal.
fn reconnect(pair: &mut Pair) {
    let (a, b) = (pair.a.qpn, pair.b.qpn);
    for qpn in [a, b] {
        assert_eq!(pair.bench.state_command(Opcode::TORST_QP, qpn), Status::OK);
    }
    for record in [pair.a.record, pair.b.record] {
        pair.bench.write(record, &[0; 8]);
    }
    (pair.a.posted, pair.a.received, pair.b.posted, pair.b.received) = (0, 0, 0, 0);
    pair.bench.connect(a, b, |_| {});
    pair.bench.connect(b, a, |_| {});
    pair.drain_a();
    pair.drain_b();
}

#[test]
fn a_window_of_type_1_opens_what_is_closed_until_it_is_bound_elsewhere() {
    let mut pair = Pair::new(QpType::RC);
    let (under, window) = (under(&mut pair), alloc_window(&mut pair, false));
    assert_eq!(write(&mut pair, under, START), REFUSED, "the region itself");
    reconnect(&mut pair);
    let (first, second, third) = (window + 1, window + 2, window + 3);
    let bind_to =
        |window, next, start, len| bind(&Bind { window, next, under, start, len, qpn: None });
    assert_eq!(umr(&mut pair, &bind_to(window, first, START + 0x800, 0x1000)), Ok(()));
    assert_eq!(write(&mut pair, first, START + 0x900), Ok(()));
    assert_eq!(pair.bytes(pair.to + 0x900, 1), b"x");
    // Bound again without being unbound before, to another part.
    assert_eq!(umr(&mut pair, &bind_to(first, second, START, 0x100)), Ok(()));
    assert_eq!(write(&mut pair, second, START + 0x10), Ok(()));
    assert_eq!(pair.bytes(pair.to + 0x10, 1), b"x");
    for (key, addr) in [(second, START + 0x900), (first, START + 0x900), (window, START)] {
        assert_eq!(write(&mut pair, key, addr), REFUSED);
        reconnect(&mut pair);
    }
    // Unbound: bound to nothing.
    assert_eq!(umr(&mut pair, &bind_to(second, third, 0, 0)), Ok(()));
    assert_eq!(write(&mut pair, third, START + 0x10), REFUSED);
}

#[test]
fn a_window_of_type_2_is_its_queue_pair_s_and_bound_once() {
    let mut pair = Pair::new(QpType::RC);
    let (under, window) = (under(&mut pair), alloc_window(&mut pair, true));
    let (b, other) = (pair.b.qpn, pair.a.qpn);
    let to = |window, next, qpn| {
        bind(&Bind { window, next, under, start: START, len: 0x1000, qpn: Some(qpn) })
    };
    assert_eq!(umr(&mut pair, &to(window, window + 1, b)), Ok(()));
    assert_eq!(write(&mut pair, window + 1, START), Ok(()));
    // While it is bound it can't be bound again.
    assert_eq!(umr(&mut pair, &to(window + 1, window + 2, b)), NOT_BOUND);
    assert_eq!(pair.bench.state(b), QpState::ERR);
    reconnect(&mut pair);
    assert_eq!(write(&mut pair, window + 1, START), Ok(()), "and stays as it was");
    // Invalidated by its owner, under the name that it has then, and bound under the next.
    assert_eq!(umr(&mut pair, &invalidate(window + 1, b)), Ok(()));
    assert_eq!(write(&mut pair, window + 1, START), REFUSED);
    reconnect(&mut pair);
    assert_eq!(umr(&mut pair, &to(window + 1, window + 2, other)), Ok(()));
    // Bound to another queue pair, who reaches it through this one is refused.
    assert_eq!(write(&mut pair, window + 2, START), REFUSED);
    reconnect(&mut pair);
    assert_eq!(umr(&mut pair, &invalidate(window + 2, b)), NOT_BOUND, "not this one's");
}

#[test]
fn a_peer_invalidates_a_window_with_a_send() {
    let mut pair = Pair::new(QpType::RC);
    let (under, window) = (under(&mut pair), alloc_window(&mut pair, true));
    let (b, to) = (pair.b.qpn, pair.to);
    let key = window + 1;
    let to_b = Bind { window, next: key, under, start: START, len: 0x1000, qpn: Some(b) };
    assert_eq!(umr(&mut pair, &bind(&to_b)), Ok(()));
    let send_inval = |pair: &mut Pair, key: u32| {
        pair.bench.post_receive(&mut pair.b, &[(to + 0x4000, 64)]);
        let mut send = wqe(&[&inline(b"bye")]);
        WqeCtrlSeg(&mut send[..]).set_imm(key);
        pair.post(WqeOpcode::SEND_INVAL, &send);
        pair.go();
        (pair.drain_a(), pair.drain_b())
    };
    let (sent, received) = send_inval(&mut pair, key);
    assert_eq!(CqeOpcode(sent[0].opcode()), CqeOpcode::REQ);
    assert_eq!(CqeOpcode(received[0].opcode()), CqeOpcode::RESP_SEND_INV);
    assert_eq!((received[0].inval_rkey(), received[0].byte_cnt()), (key, 3));
    assert_eq!(write(&mut pair, key, START), REFUSED);
    reconnect(&mut pair);
    // Bound again under the next key; a stale one invalidates nothing.
    let again = Bind { window: key, next: key + 1, ..to_b };
    assert_eq!(umr(&mut pair, &bind(&again)), Ok(()));
    let (sent, _) = send_inval(&mut pair, key);
    assert_eq!(CqeOpcode(sent[0].opcode()), CqeOpcode::REQ_ERR);
    reconnect(&mut pair);
    assert_eq!(write(&mut pair, key + 1, START), Ok(()));
    // Nor does a region that does not permit it.
    let (sent, _) = send_inval(&mut pair, under);
    assert_eq!(CqeOpcode(sent[0].opcode()), CqeOpcode::REQ_ERR);
}

#[test]
fn indirect_keys_scatter_and_gather() {
    let mut pair = Pair::new(QpType::RC);
    let (pd, to) = (pair.bench.pd, pair.to);
    let region = region(&mut pair.bench, pd, START, LEN, &[to, to + 0x1000], &|_| {});
    // rdma-core's mlx5dv_create_mkey and wr_mr_interleaved: twice eight bytes, three times.
    let key = key_with(&mut pair.bench, &[0; 64], &|mkc| {
        closed(mkc);
        mkc.set_lw(false);
        mkc.set_free(true);
        mkc.set_access_mode_1_0(2);
        mkc.set_pd(pd);
    });
    let mut block = StrideBlock([0; 16]);
    block.set_bcount_per_cycle(16);
    block.set_op(STRIDE_BLOCK_OP);
    block.set_repeat_count(3);
    block.set_num_entries(2);
    let entry = |addr| {
        let mut entry = StrideEntry([0; 16]);
        entry.set_bcount(8);
        entry.set_stride(10);
        entry.set_key(region);
        entry.set_va(addr);
        entry.0
    };
    let mut configure = vec![0; 192];
    let mut ctrl = WqeCtrlSeg(&mut configure[..16]);
    ctrl.set_ce(2);
    ctrl.set_umr_mkey(key);
    let mut umr_ctrl = WqeUmrCtrlSeg(&mut configure[16..64]);
    umr_ctrl.set_flags(umr_flags::INLINE);
    umr_ctrl.set_xlt_octowords(4);
    umr_ctrl.set_mkey_mask(
        mkey_mask::FREE
            | mkey_mask::KEY
            | mkey_mask::LEN
            | mkey_mask::LW
            | mkey_mask::RR
            | mkey_mask::RW
            | mkey_mask::A,
    );
    let mut mkc = Mkc(&mut configure[64..128]);
    mkc.set_qpn(0xff_ffff);
    mkc.set_lw(true);
    mkc.set_len(48);
    configure[128..144].copy_from_slice(&block.0);
    configure[144..160].copy_from_slice(&entry(START));
    configure[160..176].copy_from_slice(&entry(START + 64));
    assert_eq!(umr(&mut pair, &configure), Ok(()));
    // A message of 48 bytes is scattered over them.
    let lkey = std::mem::replace(&mut pair.bench.lkey, key);
    pair.bench.post_receive(&mut pair.b, &[(0, 48)]);
    pair.bench.lkey = lkey;
    pair.bench.write(to, &[0xee; 128]);
    let message: Vec<u8> = (0..48).collect();
    pair.post(WqeOpcode::SEND, &wqe(&[&inline(&message)]));
    pair.go();
    assert_eq!(CqeOpcode(pair.drain_b()[0].opcode()), CqeOpcode::RESP_SEND);
    let mut expected = vec![0xee; 128];
    for (cycle, part) in message.chunks(16).enumerate() {
        expected[cycle * 10..][..8].copy_from_slice(&part[..8]);
        expected[64 + cycle * 10..][..8].copy_from_slice(&part[8..]);
    }
    assert_eq!(pair.bytes(to, 128), expected);
    // Invalidated, though it is bound to no queue pair, it takes nothing more.
    let b = pair.b.qpn;
    assert_eq!(umr(&mut pair, &invalidate(key, b)), Ok(()));
    let from = local(0, key, 48);
    pair.bench.post(&mut pair.b, WqeOpcode::SEND, &wqe(&[&from]));
    pair.bench.ring(&pair.b);
    pair.bench.run();
    let seen = pair.drain_b();
    assert_eq!(failure(&seen[0]), (CqeSyndrome::LOCAL_PROT_ERR, 0x51));
}

/// ibv_alloc_null_mr: memory that is nowhere.
#[test]
fn the_null_key_drops_what_comes_and_gives_zeros() {
    let mut pair = Pair::new(QpType::RC);
    let out = pair.bench.f.ok(Opcode::QUERY_SPECIAL_CONTEXTS, 0, 0x10, 0x20, |_| {});
    let null = QuerySpecialContextsOut(&out).dump_fill_mkey();
    assert_eq!(null, mtt::NULL_KEY);
    let (to, rkey) = (pair.to, pair.rkey);
    pair.bench.write(to, &[0xee; 1000]);
    pair.post(WqeOpcode::RDMA_WRITE, &wqe(&[&remote(to, rkey), &local(0, null, 1000)]));
    let lkey = std::mem::replace(&mut pair.bench.lkey, null);
    pair.bench.post_receive(&mut pair.b, &[(0x1234, 5000)]);
    pair.bench.lkey = lkey;
    let from = pair.from;
    pair.post(WqeOpcode::SEND, &wqe(&[&local(from, lkey, 5000)]));
    pair.post(WqeOpcode::RDMA_READ, &wqe(&[&remote(from, rkey), &local(0, null, 700)]));
    pair.go();
    let kinds: Vec<_> = pair.drain_a().iter().map(|e| CqeOpcode(e.opcode())).collect();
    assert_eq!(kinds, [CqeOpcode::REQ; 3]);
    let received = pair.drain_b();
    assert_eq!(
        (CqeOpcode(received[0].opcode()), received[0].byte_cnt()),
        (CqeOpcode::RESP_SEND, 5000)
    );
    assert_eq!(pair.bytes(to, 1000), [0; 1000]);
    // A peer has no such key.
    assert_eq!(write(&mut pair, null, 0), REFUSED);
}

//! Keys that lead to other keys.

mod common;

use common::*;
use layouts::STRIDE_BLOCK_OP;
use mtt::{Access, Cause, MAX_DEPTH, MAX_ENTRIES, Mtt, NULL_KEY, Piece, Place, Question};
use proptest::prelude::*;

/// A key of `pages` pages that leads to DMA addresses from `dma` on.
fn memory(mtt: &mut Mtt, pd: u32, start: u64, dma: u64, pages_: u64) -> u32 {
    let addrs: Vec<u64> = (0..pages_.next_multiple_of(2)).map(|page| dma + (page << 12)).collect();
    create(mtt, &region(MTT, pd, start, pages_ << 12, pages_ as u32), &pages(&addrs))
}

fn list(mtt: &mut Mtt, pd: u32, start: u64, len: u64, entries: &[[u8; 16]]) -> u32 {
    create(mtt, &region(KLM, pd, start, len, entries.len() as u32), &entries.concat())
}

fn table(mtt: &mut Mtt, pd: u32, start: u64, len: u64, log: u8, entries: &[[u8; 16]]) -> u32 {
    let mut mkc = region(KSM, pd, start, len, entries.len() as u32);
    mkc.set_log_page_size(log);
    create(mtt, &mkc, &entries.concat())
}

#[test]
fn a_list_of_runs() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let a = memory(&mut mtt, pd, 0x1000, 0xa0000, 4);
    let b = memory(&mut mtt, pd, 0, 0xb0000, 4);
    let entries = [klm(3, a, 0x1001), klm(0, 0, 0), klm(0x1800, b, 0x800), klm(5, a, 0x1004)];
    let key = list(&mut mtt, pd, 0x50, 3 + 0x1800 + 5, &entries);
    assert_eq!(
        read(&mtt, key, 0x50, 0x1808).unwrap(),
        [at(0xa0001, 3), at(0xb0800, 0x1800), at(0xa0004, 5)]
    );
    assert_eq!(read(&mtt, key, 0x52, 2).unwrap(), [at(0xa0003, 1), at(0xb0800, 1)]);
    assert_eq!(read(&mtt, key, 0x54, 0xfff).unwrap(), [at(0xb0801, 0xfff)]);
    assert_eq!(read(&mtt, key, 0x50 + 0x1803, 5).unwrap(), [at(0xa0004, 5)]);
    assert_eq!(refused(&mtt, &question(key, 0x4f, 1, Access::LocalRead)), "out_of_bounds");
    assert_eq!(read(&mtt, key, 0x50, 0).unwrap(), []);
}

#[test]
fn a_list_shorter_than_its_key() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let a = memory(&mut mtt, pd, 0, 0xa0000, 1);
    let key = list(&mut mtt, pd, 0, 0x1000, &[klm(8, a, 0)]);
    assert_eq!(read(&mtt, key, 0, 8).unwrap(), [at(0xa0000, 8)]);
    let refusal = read(&mtt, key, 0, 9).unwrap_err();
    assert_eq!((refusal.key, refusal.cause), (key, Cause::EntryNotPresent { index: 1 }));
}

#[test]
fn the_key_behind_is_judged() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let other = mtt.alloc_pd(0).unwrap();
    let a = memory(&mut mtt, pd, 0x1000, 0xa0000, 1);
    let foreign = memory(&mut mtt, other, 0x1000, 0xb0000, 1);
    let mut mkc = region(MTT, pd, 0x1000, 0x1000, 4);
    mkc.set_lw(false);
    mkc.set_rr(false);
    mkc.set_a(false);
    let read_only = create(&mut mtt, &mkc, &pages(&[0xc0000, 0]));
    let mut through = |inner, va, bcount, access| {
        let key = list(&mut mtt, pd, 0, 0x1000, &[klm(bcount, inner, va)]);
        let answer = ask(&mtt, &Question { pd: Some(pd), ..question(key, 0, 16, access) });
        mtt.destroy(key >> 8).unwrap();
        answer.map_err(|refusal| {
            assert_eq!((refusal.key, refusal.access), (inner, access));
            refusal.reason()
        })
    };
    use Access::*;
    assert_eq!(through(a, 0x1000, 16, RemoteAtomic), Ok(vec![at(0xa0000, 16)]));
    assert_eq!(through(a, 0xff8, 16, LocalRead), Err("out_of_bounds"));
    assert_eq!(through(a, 0x1ff8, 16, LocalRead), Err("out_of_bounds"));
    assert_eq!(through(a, u64::MAX, 16, LocalRead), Err("out_of_bounds"));
    assert_eq!(through(a ^ 1, 0x1000, 16, LocalRead), Err("wrong_variant"));
    assert_eq!(through(foreign, 0x1000, 16, LocalRead), Err("pd_mismatch"));
    assert_eq!(through(0x300, 0x1000, 16, LocalRead), Err("no_such_key"));
    // Peers reach what is behind with local rights.
    assert_eq!(through(read_only, 0x1000, 16, RemoteRead), Ok(vec![at(0xc0000, 16)]));
    assert_eq!(through(read_only, 0x1000, 16, RemoteWrite), Err("right_missing"));
    assert_eq!(through(read_only, 0x1000, 16, RemoteAtomic), Err("right_missing"));
}

#[test]
fn a_run_past_the_last_address() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let mut mkc = context(0, pd);
    mkc.set_length64(true);
    let all = create(&mut mtt, &mkc, &[]);
    let key = list(&mut mtt, pd, 0, 0x1000, &[klm(16, all, u64::MAX - 7)]);
    assert_eq!(read(&mtt, key, 0, 8).unwrap(), [at(u64::MAX - 7, 8)]);
    for (addr, len) in [(0, 9), (7, 2), (8, 1), (15, 1)] {
        let refusal = read(&mtt, key, addr, len).unwrap_err();
        assert_eq!((refusal.reason(), refusal.key), ("out_of_bounds", all), "{addr} {len}");
    }
}

#[test]
fn a_table_of_pages_of_keys() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let a = memory(&mut mtt, pd, 0, 0xa0000, 2);
    let b = memory(&mut mtt, pd, 0x7000, 0xb0000, 2);
    // 8 KiB pages; the key begins within the first, as in a table of pages.
    let entries = [klm(0, a, 0), klm(0, b, 0x7000), klm(0, NULL_KEY, 0), klm(0, 0, 0)];
    let key = table(&mut mtt, pd, 0x2800, 0x10000, 13, &entries);
    assert_eq!(
        read(&mtt, key, 0x2800, 0x3800).unwrap(),
        [at(0xa0800, 0x1800), at(0xb0000, 0x2000)]
    );
    let null = Piece { place: Place::Null, len: 1 };
    assert_eq!(read(&mtt, key, 0x5fff, 2).unwrap(), [at(0xb1fff, 1), null]);
    let refusal = read(&mtt, key, 0x7fff, 2).unwrap_err();
    assert_eq!(refusal.cause, Cause::EntryNotPresent { index: 3 });
    // Past the table's room.
    let refusal = read(&mtt, key, 0xa000, 1).unwrap_err();
    assert_eq!(refusal.cause, Cause::EntryNotPresent { index: 4 });
    // A peer reaches the null key through a table, too.
    let remote = question(key, 0x6000, 1, Access::RemoteWrite);
    assert_eq!(ask(&mtt, &remote).unwrap(), [null]);
}

#[test]
fn depth_is_bounded() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let mut key = memory(&mut mtt, pd, 0, 0xa0000, 1);
    for depth in 1..=MAX_DEPTH + 1 {
        key = if depth % 2 == 0 {
            list(&mut mtt, pd, 0, 0x1000, &[klm(0x1000, key, 0)])
        } else {
            table(&mut mtt, pd, 0, 0x1000, 12, &[klm(0, key, 0)])
        };
        let answer = read(&mtt, key, 0x10, 0x20);
        match depth <= MAX_DEPTH {
            true => assert_eq!(answer.unwrap(), [at(0xa0010, 0x20)]),
            false => assert_eq!(answer.unwrap_err().reason(), "too_deep"),
        }
    }
    // A key that leads to itself.
    let index = key >> 8;
    let own = list(&mut mtt, pd, 0, 0x1000, &[klm(0x1000, (index + 1) << 8, 0)]);
    assert_eq!(own, (index + 1) << 8);
    assert_eq!(refused(&mtt, &question(own, 0, 1, Access::LocalRead)), "too_deep");
}

#[test]
fn work_is_bounded() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let a = memory(&mut mtt, pd, 0, 0xa0000, 1);
    // The longest walk that is permitted, and one more.
    let mut entries = vec![klm(0, 0, 0); MAX_ENTRIES as usize - 1];
    entries.push(klm(8, a, 0));
    let key = list(&mut mtt, pd, 0, 0x1000, &entries);
    assert_eq!(read(&mtt, key, 0, 8).unwrap(), [at(0xa0000, 8)]);
    mtt.destroy(key >> 8).unwrap();
    entries.push(klm(8, a, 0));
    let key = list(&mut mtt, pd, 0, 0x1000, &entries);
    assert_eq!(refused(&mtt, &question(key, 8, 8, Access::LocalRead)), "too_much_work");
    mtt.destroy(key >> 8).unwrap();

    // One byte an entry, each leading through a list that begins with nothing: the product counts.
    let mut entries = vec![klm(0, 0, 0); 1000];
    entries.push(klm(8, a, 0));
    let slow = list(&mut mtt, pd, 0, 0x1000, &entries);
    let entries = vec![klm(1, slow, 0); 1000];
    let key = list(&mut mtt, pd, 0, 0x1000, &entries);
    assert_eq!(read(&mtt, key, 0, 200).unwrap().len(), 200);
    assert_eq!(refused(&mtt, &question(key, 0, 1000, Access::LocalRead)), "too_much_work");

    // Pages of one byte.
    let key = table(&mut mtt, pd, 0, u64::MAX, 0, &vec![klm(0, a, 0); 100]);
    assert_eq!(read(&mtt, key, 0, 100).unwrap().len(), 100);
    assert_eq!(refused(&mtt, &question(key, 0, 1 << 40, Access::LocalRead)), "entry_not_present");
}

#[test]
fn strided_blocks() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let a = memory(&mut mtt, pd, 0, 0xa0000, 1);
    let b = memory(&mut mtt, pd, 0, 0xb0000, 1);
    // 8 of each 16 of a, then 4 of each 4 of b, three times; then a plain run.
    let entries =
        [stride_block(12, 3, 2), stride(8, 16, a, 0x100), stride(4, 4, b, 0x200), klm(7, a, 0)];
    let key = list(&mut mtt, pd, 0, 43, &entries);
    let all = [
        at(0xa0100, 8),
        at(0xb0200, 4),
        at(0xa0110, 8),
        at(0xb0204, 4),
        at(0xa0120, 8),
        at(0xb0208, 4),
        at(0xa0000, 7),
    ];
    assert_eq!(read(&mtt, key, 0, 43).unwrap(), all);
    assert_eq!(read(&mtt, key, 0, 36).unwrap(), all[..6]);
    assert_eq!(read(&mtt, key, 21, 4).unwrap(), [at(0xb0205, 3), at(0xa0120, 1)]);
    assert_eq!(read(&mtt, key, 35, 2).unwrap(), [at(0xb020b, 1), at(0xa0000, 1)]);

    let bad_long =
        vec![stride_block(12, 3, 3), stride(8, 16, a, 0), stride(5, 4, b, 0), stride(0, 0, a, 0)];
    let bad = [
        bad_long.clone(),
        vec![stride_block(12, 3, 2), stride(8, 16, a, 0), stride(3, 4, b, 0)],
        vec![stride_block(12, 3, 0)],
        vec![stride_block(12, u32::MAX, u16::MAX)],
    ];
    for entries in bad {
        let key = list(&mut mtt, pd, 0, 1 << 40, &entries);
        assert_eq!(refused(&mtt, &question(key, 6, 20, Access::LocalRead)), "bad_stride_block");
    }
    // Not even up to where the cycle should have ended.
    let long = list(&mut mtt, pd, 0, 36, &bad_long);
    assert_eq!(refused(&mtt, &question(long, 6, 6, Access::LocalRead)), "bad_stride_block");
    // No bytes in a cycle, or no cycle: nothing, and the list goes on.
    let entries = [stride_block(0, u32::MAX, 1), klm(8, a, 0), stride_block(4, 0, 0), klm(8, b, 0)];
    let key = list(&mut mtt, pd, 0, 8, &entries);
    assert_eq!(read(&mtt, key, 0, 8).unwrap(), [at(0xb0000, 8)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    /// Byte by byte, a list of runs over lists of runs over memory is what laying the runs one
    /// after the other gives.
    #[test]
    fn lists_of_lists(
        lists in prop::collection::vec(prop::collection::vec((0..60u32, 0..100u64, any::<u8>()), 1..8), 1..4),
        asks in prop::collection::vec((0..200u64, 0..200u64), 10),
    ) {
        let mut mtt = mtt();
        let pd = mtt.alloc_pd(0).unwrap();
        // What each key's bytes are, by DMA address.
        let mut keys: Vec<(u32, Vec<u64>)> = [0xa0000, 0xb0000]
            .map(|dma| (memory(&mut mtt, pd, 0, dma, 1), (dma..dma + 0x1000).collect()))
            .to_vec();
        for runs in lists {
            let mut entries = Vec::new();
            let mut bytes = Vec::new();
            for (len, va, which) in runs {
                let (key, inner) = &keys[usize::from(which) % keys.len()];
                let va = va.min(inner.len() as u64);
                let len = u64::from(len).min(inner.len() as u64 - va);
                entries.push(klm(len as u32, *key, va));
                bytes.extend_from_slice(&inner[va as usize..(va + len) as usize]);
            }
            let key = list(&mut mtt, pd, 0, bytes.len() as u64, &entries);
            for &(addr, len) in &asks {
                let answer = ask(&mtt, &question(key, addr, len, Access::RemoteWrite));
                match bytes.get(addr as usize..(addr + len) as usize) {
                    None => prop_assert_eq!(answer.unwrap_err().reason(), "out_of_bounds"),
                    Some(expected) => {
                        let pieces = answer.unwrap();
                        let reached: Vec<u64> = pieces
                            .iter()
                            .flat_map(|piece| match piece.place {
                                Place::Memory(addr) => addr..addr + piece.len,
                                Place::Null => 0..0,
                            })
                            .collect();
                        prop_assert_eq!(&reached, expected);
                        prop_assert!(pieces.iter().all(|piece| piece.len > 0));
                    }
                }
            }
            keys.push((key, bytes));
        }
    }

    /// Any entries at all end in pieces or a refusal, soon.
    #[test]
    fn random_entries(
        entries in prop::collection::vec((prop_oneof![0..64u32, any::<u32>()], 0..8u32, any::<u8>(), any::<u64>()), 1..64),
        modes in prop::collection::vec((prop_oneof![Just(KLM), Just(KSM)], 0..64u8), 4),
        asks in prop::collection::vec((any::<u64>(), any::<u64>(), 0..64u32, 0..4u32), 10),
    ) {
        let mut mtt = mtt();
        let pd = mtt.alloc_pd(0).unwrap();
        let first = 0x10;
        let list: Vec<[u8; 16]> = entries
            .into_iter()
            .map(|(bcount, key, op, va)| match op % 8 {
                0 => klm(bcount, STRIDE_BLOCK_OP, va),
                1 => klm(bcount, NULL_KEY, va),
                2 => klm(bcount, bcount, va),
                op => klm(bcount, (first + key) << 8, va >> (op * 9)),
            })
            .collect();
        for (mode, log) in modes {
            let mut mkc = region(mode, pd, 0, 0, 64);
            mkc.set_length64(true);
            mkc.set_log_page_size(log);
            create(&mut mtt, &mkc, &list.concat());
        }
        memory(&mut mtt, pd, 0, 0xa0000, 4);
        for (addr, len, shift, key) in asks {
            let question = question((first + key) << 8, addr >> shift, len >> (63 - shift), Access::RemoteWrite);
            if let Ok(pieces) = ask(&mtt, &question) {
                prop_assert_eq!(pieces.iter().map(|piece| piece.len).sum::<u64>(), question.len);
            }
        }
    }
}

//! The question, asked of keys that lead straight to memory: one test a rule, and one against a
//! model that knows nothing but arithmetic.

mod common;

use std::collections::HashMap;
use std::ops::ControlFlow;

use common::*;
use mtt::{Access, Cause, List, Mtt, NULL_KEY, Piece, Place, Question};
use proptest::prelude::*;

/// One key of three pages: 0x1800 to 0x4000 in its address space.
fn three_pages() -> (Mtt, u32, u32) {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let mkc = region(MTT, pd, 0x1800, 0x2800, 4);
    let key = create(&mut mtt, &mkc, &pages(&[0xa000, 0xb000, 0xf000, 0]));
    (mtt, pd, key)
}

#[test]
fn pieces_in_order_and_joined() {
    let (mtt, _, key) = three_pages();
    assert_eq!(read(&mtt, key, 0x1800, 0x2800).unwrap(), [at(0xa800, 0x1800), at(0xf000, 0x1000)]);
    assert_eq!(read(&mtt, key, 0x1fff, 2).unwrap(), [at(0xafff, 2)]);
    assert_eq!(read(&mtt, key, 0x2fff, 2).unwrap(), [at(0xbfff, 1), at(0xf000, 1)]);
    assert_eq!(read(&mtt, key, 0x3fff, 1).unwrap(), [at(0xffff, 1)]);
}

#[test]
fn bounds() {
    let (mtt, _, key) = three_pages();
    let cases = [(0x17ff, 1), (0x17ff, 2), (0x4000, 1), (0x3fff, 2), (0, u64::MAX), (u64::MAX, 2)];
    for (addr, len) in cases {
        let refusal = read(&mtt, key, addr, len).unwrap_err();
        let bounds = Cause::OutOfBounds { start: 0x1800, len: Some(0x2800) };
        assert_eq!((refusal.cause, refusal.key), (bounds, key), "{addr:#x} {len:#x}");
        assert_eq!((refusal.addr, refusal.len), (addr, len));
    }
    // No bytes are within the key up to its end.
    assert_eq!(read(&mtt, key, 0x4000, 0).unwrap(), []);
    assert_eq!(refused(&mtt, &question(key, 0x4001, 0, Access::LocalRead)), "out_of_bounds");
}

#[test]
fn the_full_key_counts() {
    let (mut mtt, pd, key) = three_pages();
    assert_eq!(refused(&mtt, &question(key ^ 1, 0x1800, 1, Access::LocalRead)), "wrong_variant");
    let refusal = read(&mtt, key ^ 0x80, 0x1800, 1).unwrap_err();
    assert_eq!(refusal.cause, Cause::WrongVariant { variant: key as u8 });
    for other in [0, 1, 0x100, 0x400, key + 0x100, u32::MAX] {
        let question = question(other, 0x1800, 1, Access::LocalRead);
        assert_eq!(refused(&mtt, &question), "no_such_key", "{other:#x}");
    }
    let mut mkc = region(MTT, pd, 0x1800, 0x2800, 4);
    mkc.set_free(true);
    let free = create(&mut mtt, &mkc, &pages(&[0xa000, 0xb000]));
    assert_eq!(refused(&mtt, &question(free, 0x1800, 1, Access::LocalRead)), "free_key");
    mtt.destroy(key >> 8).unwrap();
    assert_eq!(refused(&mtt, &question(key, 0x1800, 1, Access::LocalRead)), "no_such_key");
}

#[test]
fn domain_and_queue_pair_of_the_asker() {
    let (mut mtt, pd, key) = three_pages();
    let q = question(key, 0x1800, 1, Access::LocalRead);
    assert!(ask(&mtt, &Question { pd: Some(pd), qpn: Some(5), ..q }).is_ok());
    let refusal = ask(&mtt, &Question { pd: Some(pd + 1), ..q }).unwrap_err();
    assert_eq!(refusal.cause, Cause::PdMismatch { key: pd, asker: pd + 1 });
    assert_eq!(refusal.reason(), "pd_mismatch");

    let mut bound = region(MTT, pd, 0x1800, 0x2800, 4);
    bound.set_qpn(7);
    let key = create(&mut mtt, &bound, &pages(&[0xa000, 0xb000]));
    let q = question(key, 0x1800, 1, Access::LocalRead);
    assert!(ask(&mtt, &q).is_ok());
    assert!(ask(&mtt, &Question { qpn: Some(7), ..q }).is_ok());
    assert_eq!(refused(&mtt, &Question { qpn: Some(8), ..q }), "qp_mismatch");
}

#[test]
fn each_right_is_its_own() {
    type TakeAway = fn(&mut Context);
    let rights: [(Access, TakeAway); 5] = [
        (Access::LocalRead, |mkc| mkc.set_lr(false)),
        (Access::LocalWrite, |mkc| mkc.set_lw(false)),
        (Access::RemoteRead, |mkc| mkc.set_rr(false)),
        (Access::RemoteWrite, |mkc| mkc.set_rw(false)),
        (Access::RemoteAtomic, |mkc| mkc.set_a(false)),
    ];
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    for (missing, take_away) in rights {
        let mut mkc = region(MTT, pd, 0, 0x1000, 4);
        take_away(&mut mkc);
        let key = create(&mut mtt, &mkc, &pages(&[0xa000, 0]));
        for access in Access::ALL {
            let answer = ask(&mtt, &question(key, 0, 8, access));
            match access == missing {
                true => assert_eq!(answer.unwrap_err().reason(), "right_missing"),
                false => assert_eq!(answer.unwrap(), [at(0xa000, 8)]),
            }
        }
    }
}

#[test]
fn pages_have_rights_and_may_be_absent() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let entries = [
        page(0xa000, true, true),
        page(0xb000, true, false),
        page(0xc000, false, true),
        page(0xd000, false, false),
    ]
    .concat();
    let mkc = region(MTT, pd, 0, 0x5000, 4);
    let key = create(&mut mtt, &mkc, &entries);
    let reason = |page: u64, access| {
        ask(&mtt, &question(key, page << 12, 8, access)).err().map(|refusal| refusal.reason())
    };
    for access in Access::ALL {
        assert_eq!(reason(0, access), None);
        let missing = Some("entry_right_missing");
        assert_eq!(reason(1, access), if access.writes() { missing } else { None });
        assert_eq!(reason(2, access), if access.reads() { missing } else { None });
        // Filled without rights, and never filled.
        assert_eq!(reason(3, access), Some("entry_not_present"));
        assert_eq!(reason(4, access), Some("entry_not_present"));
    }
    // All or nothing, and the entry that refuses is named.
    let refusal = read(&mtt, key, 0, 0x5000).unwrap_err();
    assert_eq!(refusal.cause, Cause::EntryRightMissing { index: 2 });

    // Without rights in the list all of it is permitted, but no more than the list.
    let list = pages(&[0xa000, 0xb000]).iter().map(|byte| byte & !3).collect::<Vec<_>>();
    let list = List { segments: [&list[..]], octwords: 1, pg_access: false };
    let key = mtt.create(&mkc, list, 0).unwrap() << 8;
    for access in Access::ALL {
        assert_eq!(ask(&mtt, &question(key, 8, 0x1000, access)).unwrap(), [at(0xa008, 0x1000)]);
        assert_eq!(refused(&mtt, &question(key, 0x1fff, 2, access)), "entry_not_present");
    }
}

#[test]
fn keys_of_bus_addresses() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let mut mkc = context(0, pd);
    mkc.set_length64(true);
    mkc.set_a(false);
    let key = create(&mut mtt, &mkc, &[]);
    assert_eq!(
        read(&mtt, key, 0x1234_5678_9abc, 0x10_0001).unwrap(),
        [at(0x1234_5678_9abc, 0x10_0001)]
    );
    assert_eq!(read(&mtt, key, u64::MAX, 1).unwrap(), [at(u64::MAX, 1)]);
    assert_eq!(read(&mtt, key, 0, u64::MAX).unwrap(), [at(0, u64::MAX)]);
    let refusal = read(&mtt, key, u64::MAX, 2).unwrap_err();
    assert_eq!(refusal.cause, Cause::OutOfBounds { start: 0, len: None });
    assert!(refusal.to_string().contains("2^64 bytes from 0x0"), "{refusal}");
    assert_eq!(refused(&mtt, &question(key, 0, 8, Access::RemoteAtomic)), "right_missing");
}

#[test]
fn page_sizes_up_to_the_largest() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    for log in 12..64 {
        let size = 1u64 << log;
        let start = 0x1234_5678_9abc_def0;
        let mut mkc = region(MTT, pd, start, u64::MAX - start, 4);
        mkc.set_log_page_size(log);
        // A page of any size has some multiple of it as its address.
        let (first, second) = (0, size);
        let key = create(&mut mtt, &mkc, &pages(&[first, second]));
        let offset = start & (size - 1);
        assert_eq!(read(&mtt, key, start, 1).unwrap(), [at(first + offset, 1)], "2^{log}");
        let end = (start & !(size - 1)).checked_add(size);
        let Some(end) = end.filter(|&end| end < u64::MAX) else { continue };
        assert_eq!(read(&mtt, key, end, 1).unwrap(), [at(second, 1)], "2^{log}");
        let joined = read(&mtt, key, end - 1, 2).unwrap();
        assert_eq!(joined, [at(size - 1, 2)], "2^{log}");
    }
}

#[test]
fn bits_of_an_entry_below_its_page_size_are_not_used() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let mut mkc = region(MTT, pd, 0, 1 << 21, 4);
    mkc.set_log_page_size(21);
    let key = create(&mut mtt, &mkc, &pages(&[0x4012_3000, 0]));
    assert_eq!(read(&mtt, key, 5, 1).unwrap(), [at(0x4000_0005, 1)]);
}

#[test]
fn a_key_without_length_and_a_key_of_all_addresses() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let empty = create(&mut mtt, &region(MTT, pd, 0x5000, 0, 4), &pages(&[0xa000, 0]));
    assert_eq!(read(&mtt, empty, 0x5000, 0).unwrap(), []);
    assert_eq!(refused(&mtt, &question(empty, 0x5000, 1, Access::LocalRead)), "out_of_bounds");

    // What the stock driver makes of a region of no bytes.
    let mut mkc = region(MTT, pd, 0x5000, 0, 4);
    mkc.set_length64(true);
    let key = create(&mut mtt, &mkc, &[]);
    assert_eq!(read(&mtt, key, 0x5000, 0).unwrap(), []);
    for addr in [0x5000, u64::MAX] {
        assert_eq!(refused(&mtt, &question(key, addr, 1, Access::LocalRead)), "entry_not_present");
    }
    for (addr, len) in [(0x4fff, 1), (u64::MAX, 2)] {
        assert_eq!(refused(&mtt, &question(key, addr, len, Access::LocalRead)), "out_of_bounds");
    }
}

#[test]
fn a_key_whose_end_is_past_the_last_address() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let start = u64::MAX - 0xfff;
    let mkc = region(MTT, pd, start, 0x2000, 4);
    let key = create(&mut mtt, &mkc, &pages(&[0xa000, 0xb000]));
    assert_eq!(read(&mtt, key, start, 0x1000).unwrap(), [at(0xa000, 0x1000)]);
    let over = question(key, start, 0x1001, Access::LocalRead);
    assert_eq!(refused(&mtt, &over), "out_of_bounds");
}

#[test]
fn the_null_key() {
    let mtt = mtt();
    for access in [Access::LocalRead, Access::LocalWrite] {
        let pieces = ask(
            &mtt,
            &Question { pd: Some(77), qpn: Some(3), ..question(NULL_KEY, 5, u64::MAX, access) },
        );
        assert_eq!(pieces.unwrap(), [Piece { place: Place::Null, len: u64::MAX }]);
    }
    assert_eq!(read(&mtt, NULL_KEY, 0, 0).unwrap(), []);
    assert_eq!(refused(&mtt, &question(NULL_KEY, 0, 8, Access::RemoteRead)), "right_missing");
    assert_eq!(refused(&mtt, &question(NULL_KEY + 1, 0, 8, Access::LocalRead)), "no_such_key");
}

#[test]
fn a_visitor_may_stop() {
    let (mtt, _, key) = three_pages();
    let mut seen = Vec::new();
    let q = question(key, 0x1800, 0x2800, Access::LocalRead);
    let result = mtt.visit(&q, |piece| {
        seen.push(piece);
        if seen.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(result, Ok(()));
    // A page at a time, not joined.
    assert_eq!(seen, [at(0xa800, 0x800), at(0xb000, 0x1000)]);
}

#[test]
fn refusals_speak() {
    let (mtt, _, key) = three_pages();
    let refusal = ask(&mtt, &question(key, 0x10, 4, Access::RemoteWrite)).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "remote write of 0x4 bytes at 0x10 through key 0x1000: the key covers 0x2800 bytes from \
         0x1800"
    );
}

/// What a model that takes each byte for itself makes of an access.
fn model(
    table: &HashMap<u128, (u64, u8)>,
    (start, len, length64, log): (u64, u64, bool, u8),
    question: &Question,
) -> Result<Vec<Piece>, &'static str> {
    let (start, size) = (u128::from(start), 1u128 << log);
    let end = if length64 { 1 << 64 } else { (start + u128::from(len)).min(1 << 64) };
    let (first, last) =
        (u128::from(question.addr), u128::from(question.addr) + u128::from(question.len));
    if first < start || last > end {
        return Err("out_of_bounds");
    }
    let need = u8::from(question.access.reads()) | u8::from(question.access.writes()) << 1;
    let mut pieces: Vec<Piece> = Vec::new();
    let mut addr = first;
    while addr < last {
        let index = (addr - start + start % size) / size;
        let &(page, rights) = table.get(&index).unwrap_or(&(0, 0));
        if rights == 0 {
            return Err("entry_not_present");
        }
        if rights & need != need {
            return Err("entry_right_missing");
        }
        let next = last.min((addr / size + 1) * size);
        let dma = (u128::from(page) + addr % size) as u64;
        let len = (next - addr) as u64;
        match pieces.last_mut() {
            Some(Piece { place: Place::Memory(before), len: have })
                if u128::from(*before) + u128::from(*have) == u128::from(dma) =>
            {
                *have += len;
            }
            _ => pieces.push(at(dma, len)),
        }
        addr = next;
    }
    Ok(pieces)
}

/// A number near `around` or anywhere.
fn near(around: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => (-40i64..40).prop_map(move |by| around.wrapping_add_signed(by)),
        1 => any::<u64>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn as_the_model_says(
        (start, log) in (prop_oneof![any::<u64>(), 0..0x10_0000u64, near(0)], 12..64u8),
        entries in prop::collection::vec((0..6u64, 0..8u8, any::<bool>()), 0..40),
        (length64, pages_long, bytes_long) in (prop::bool::weighted(0.2), 0..45u64, any::<u16>()),
        asks in prop::collection::vec((0..45u64, -3..4i64, 0..45u64, -3..4i64, 0..5usize, any::<bool>(), any::<u64>()), 20),
    ) {
        let size = 1u64 << log;
        let len = size.saturating_mul(pages_long).saturating_add(u64::from(bytes_long) % size);
        let mut table = HashMap::new();
        let mut list = Vec::new();
        for (index, &(number, rights, somewhere)) in entries.iter().enumerate() {
            // Few pages, so that neighbours come up and are joined.
            let number = if somewhere { number.wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { number };
            let addr = number.wrapping_mul(size) & !(size - 1);
            let rights = if rights > 3 { 3 } else { rights };
            table.insert(index as u128, (addr, rights));
            list.extend(page(addr, rights & 1 != 0, rights & 2 != 0));
        }
        let mut mtt = mtt();
        let pd = mtt.alloc_pd(0).unwrap();
        let mut mkc = region(MTT, pd, start, len, 20);
        mkc.set_log_page_size(log);
        mkc.set_length64(length64);
        list.resize(list.len().next_multiple_of(16), 0);
        let key = create(&mut mtt, &mkc, &list);
        for (page, by, pages, by_too, access, anywhere, wild) in asks {
            let addr = if anywhere && wild % 4 == 0 {
                wild
            } else {
                start.wrapping_add(page.wrapping_mul(size)).wrapping_add_signed(by)
            };
            let len = if anywhere && wild % 4 == 1 {
                wild
            } else {
                pages.saturating_mul(size).saturating_add_signed(by_too)
            };
            let question = question(key, addr, len, Access::ALL[access]);
            let answer = ask(&mtt, &question).map_err(|refusal| refusal.reason());
            let expected = model(&table, (start, mkc.len(), length64, log), &question);
            prop_assert_eq!(answer, expected, "{:?}", question);
        }
    }
}

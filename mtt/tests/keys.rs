//! Keys and protection domains: made, shown, destroyed; limits; references.

mod common;

use common::*;
use dma::RemoveError;
use layouts::Mkc;
use mtt::{
    Access, BadContext, CreateError, FIRST_INDEX, Limits, List, Mode, Mtt, UnknownKey, index_of,
};
use proptest::prelude::*;

fn try_create(mtt: &mut Mtt, mkc: &Context) -> Result<u32, CreateError> {
    mtt.create(mkc, List::NONE, 0)
}

#[test]
fn indices_are_given_from_above_the_special_keys_and_not_again_at_once() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let first = try_create(&mut mtt, &context(MTT, pd)).unwrap();
    assert_eq!(first, FIRST_INDEX);
    mtt.destroy(first).unwrap();
    let second = try_create(&mut mtt, &context(MTT, pd)).unwrap();
    assert_ne!(second, first);
    assert_eq!(mtt.destroy(first), Err(RemoveError::Unknown(first)));
}

#[test]
fn query_shows_what_create_said() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let mut mkc = region(KSM, pd, 0x1234_5678_9abc_d000, 0xfedc_ba98_7654_3210, 77);
    mkc.set_mkey_7_0(0xa5);
    mkc.set_qpn(0x123456);
    mkc.set_log_page_size(63);
    mkc.set_free(true);
    mkc.set_en_rinval(true);
    mkc.set_length64(true);
    mkc.set_relaxed_ordering_read(true);
    mkc.set_relaxed_ordering_write(true);
    mkc.set_small_fence_on_rdma_read_response(true);
    mkc.set_ma_translation_mode(1);
    mkc.set_rr(false);
    let index = try_create(&mut mtt, &mkc).unwrap();
    let mut shown = Mkc([0; 0x40]);
    mtt.query(index, &mut shown).unwrap();
    assert_eq!(shown.0, mkc.0);
    assert_eq!(mtt.query(index + 1, &mut shown), Err(UnknownKey(index + 1)));
}

#[test]
fn info_tells_what_there_is() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(7).unwrap();
    assert_eq!(mtt.pd_uid(pd), Some(7));
    let mut mkc = region(MTT, pd, 0x1000, 0x2800, 8);
    mkc.set_mkey_7_0(3);
    mkc.set_rw(false);
    let list = pages(&[0x10_000, 0x20_000, 0x30_000, 0]);
    let list = List { segments: [&list[..]], octwords: 2, pg_access: true };
    let index = mtt.create(&mkc, list, 9).unwrap();
    let info = mtt.info(index).unwrap();
    assert_eq!(info.key, index << 8 | 3);
    assert_eq!((info.start, info.len, info.length64), (0x1000, 0x2800, false));
    assert_eq!((info.mode, info.free, info.pd, info.log_page_size), (Mode::Mtt, false, pd, 12));
    // The entry for address 0 has rights, so it counts.
    assert_eq!((info.capacity, info.filled, info.uid), (16, 4, 9));
    assert!(info.permits(Access::RemoteRead) && !info.permits(Access::RemoteWrite));
    assert!(info.umr_en());
    assert_eq!(mtt.infos().collect::<Vec<_>>(), [info]);
    assert_eq!((mtt.len(), mtt.live(), mtt.filled()), (1, 1, 4));
    mtt.destroy(index).unwrap();
    assert_eq!((mtt.len(), mtt.live(), mtt.filled()), (0, 0, 0));
    assert_eq!(mtt.info(index), None);
}

#[test]
fn contexts_that_no_key_has_are_refused() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    for mode in 4..32 {
        let error = try_create(&mut mtt, &context(mode, pd)).unwrap_err();
        assert_eq!(error, BadContext::Mode(mode).into());
    }
    for log_page_size in 0..12 {
        let mut mkc = context(MTT, pd);
        mkc.set_log_page_size(log_page_size);
        let error = try_create(&mut mtt, &mkc).unwrap_err();
        assert_eq!(error, BadContext::PageSize { log_page_size }.into());
        mkc.set_free(true);
        try_create(&mut mtt, &mkc).expect("a free key's page size may come later");
    }
    let signature: [fn(&mut Context); 3] = [
        |mkc| mkc.set_bsf_en(true),
        |mkc| mkc.set_bsf_octword_size(8),
        |mkc| mkc.set_expected_sigerr_count(true),
    ];
    for set in signature {
        let mut mkc = context(KLM, pd);
        set(&mut mkc);
        assert_eq!(try_create(&mut mtt, &mkc), Err(BadContext::Signature.into()));
    }
    assert_eq!(try_create(&mut mtt, &context(MTT, pd + 1)), Err(CreateError::UnknownPd(pd + 1)));
    // Nothing of the failures is left.
    assert_eq!(mtt.len(), 12);
}

#[test]
fn lists_must_fit_their_key_and_be_there() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let bytes = [0x11; 0x100];
    let mkc = region(MTT, pd, 0, 1 << 20, 5);
    let mut with = |segments: &[&[u8]], octwords| {
        let list = List { segments: segments.iter().copied(), octwords, pg_access: true };
        mtt.create(&mkc, list, 0)
    };
    // Room is rounded up to the drivers' units of 64 bytes.
    assert_eq!(with(&[&bytes], 9), Err(CreateError::ListTooLong { octwords: 9, capacity: 5 }));
    with(&[&bytes], 8).unwrap();
    assert_eq!(with(&[&bytes[..0x7f]], 8), Err(CreateError::ListTooShort { octwords: 8 }));
    assert_eq!(with(&[], 1), Err(CreateError::ListTooShort { octwords: 1 }));
    // Segments of any size of whole entries, empty ones too.
    with(&[&bytes[..8], &[], &bytes[8..0x48], &bytes[0x48..]], 8).unwrap();
    assert_eq!((mtt.len(), mtt.filled()), (2, 32));
    // A key in PA mode has no translations.
    let list = List { segments: [&bytes[..]], octwords: 1, pg_access: true };
    let pa = region(0, pd, 0, 1 << 20, 5);
    let error = CreateError::ListTooLong { octwords: 1, capacity: 5 };
    assert_eq!(mtt.create(&pa, list, 0), Err(error));
}

#[test]
fn a_card_out_of_keys_or_entries_says_so_and_recovers() {
    let mut mtt = Mtt::new(Limits { keys: 2, pds: 1, entries: 1100 });
    let pd = mtt.alloc_pd(0).unwrap();
    assert!(mtt.alloc_pd(0).is_err());
    let list = vec![0x11; 16 * 512];
    let try_fill = |mtt: &mut Mtt, octwords| {
        let list = List { segments: [&list[..]], octwords, pg_access: true };
        mtt.create(&region(MTT, pd, 0, 1 << 30, 512), list, 0)
    };
    // 1024 entries are two blocks of 512, and two for finding them.
    let first = try_fill(&mut mtt, 512).unwrap();
    assert_eq!(mtt.filled(), 1026);
    let error = try_fill(&mut mtt, 38).unwrap_err();
    assert_eq!(error, CreateError::NoEntryLeft { limit: 1100 });
    try_fill(&mut mtt, 37).unwrap();
    assert!(matches!(try_fill(&mut mtt, 0), Err(CreateError::NoKeyLeft(_))));
    mtt.destroy(first).unwrap();
    try_fill(&mut mtt, 512).expect("what was destroyed is there again");
}

#[test]
fn reserved_room_costs_nothing() {
    let mut mtt = Mtt::new(Limits { keys: 7000, pds: 1, entries: 0 });
    let pd = mtt.alloc_pd(0).unwrap();
    for _ in 0..6120 {
        let mut mkc = region(MTT, pd, 0, 0, u32::MAX);
        mkc.set_free(true);
        try_create(&mut mtt, &mkc).unwrap();
    }
    assert_eq!((mtt.len(), mtt.live(), mtt.filled()), (6120, 0, 0));
}

#[test]
fn a_domain_outlives_what_refers_to_it() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    assert_ne!(pd, 0);
    let key = try_create(&mut mtt, &context(MTT, pd)).unwrap();
    assert!(mtt.hold_pd(pd));
    assert_eq!(mtt.dealloc_pd(pd), Err(RemoveError::Busy { id: pd, users: 2 }));
    mtt.destroy(key).unwrap();
    assert_eq!(mtt.dealloc_pd(pd), Err(RemoveError::Busy { id: pd, users: 1 }));
    mtt.release_pd(pd);
    mtt.dealloc_pd(pd).unwrap();
    assert_eq!(mtt.dealloc_pd(pd), Err(RemoveError::Unknown(pd)));
    assert!(!mtt.hold_pd(pd));
}

#[test]
fn reset_leaves_nothing() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let key = create(&mut mtt, &region(MTT, pd, 0, 4096, 4), &pages(&[0x1000, 0x2000]));
    mtt.reset();
    assert_eq!((mtt.len(), mtt.live(), mtt.filled(), mtt.pds()), (0, 0, 0, 0));
    assert_eq!(refused(&mtt, &question(key, 0, 1, Access::LocalRead)), "no_such_key");
    // As new: the same numbers again.
    assert_eq!(mtt.alloc_pd(0), Ok(pd));
    assert_eq!(try_create(&mut mtt, &context(MTT, pd)), Ok(index_of(key)));
}

proptest! {
    /// Whatever the bytes of a context, a key is made or refused, and a made one shows what it was
    /// made from, is destroyed, and leaves nothing behind.
    #[test]
    fn random_contexts(
        bytes in prop::array::uniform32(any::<u16>()),
        list in prop::collection::vec(any::<u8>(), 0..300),
        octwords in prop_oneof![0..20u32, any::<u32>()],
        pg_access: bool,
        sane: bool,
        probes in prop::collection::vec((any::<u64>(), any::<u64>()), 8),
    ) {
        let mut mtt = mtt();
        let pd = mtt.alloc_pd(0).unwrap();
        let mut mkc = Mkc([0u8; 0x40]);
        for (at, value) in mkc.0.chunks_mut(2).zip(bytes) {
            at.copy_from_slice(&value.to_ne_bytes());
        }
        if sane {
            mkc.set_pd(pd);
            mkc.set_access_mode_4_2(0);
            mkc.set_bsf_en(false);
            mkc.set_bsf_octword_size(0);
            mkc.set_expected_sigerr_count(false);
        }
        let list = List { segments: [&list[..]], octwords, pg_access };
        if let Ok(index) = mtt.create(&mkc, list, 0) {
            let mut shown = Mkc([0; 0x40]);
            mtt.query(index, &mut shown).unwrap();
            prop_assert_eq!(shown.start_addr(), mkc.start_addr());
            prop_assert_eq!(shown.log_page_size(), mkc.log_page_size());
            for (addr, len) in probes {
                for access in Access::ALL {
                    let key = mtt::key_of(index, mkc.mkey_7_0());
                    let _ = ask(&mtt, &question(key, addr, len % (1 << 20), access));
                    let _ = ask(&mtt, &question(key, mkc.start_addr(), len, access));
                }
            }
            mtt.destroy(index).unwrap();
        }
        prop_assert_eq!((mtt.len(), mtt.live(), mtt.filled()), (0, 0, 0));
        mtt.dealloc_pd(pd).unwrap();
    }
}

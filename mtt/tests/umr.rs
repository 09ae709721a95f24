//! Edits by work request: what each caller of the stock driver and of rdma-core sends, what is
//! refused, and that what is refused changes nothing.

mod common;

use common::*;
use layouts::{Mkc, mkey_mask, umr_flags};
use mtt::{ANY_QPN, Access, BadContext, Limits, Mtt, UmrError, UmrRequest, index_of};

/// A key as the driver's cache makes them: free, 4 KiB pages, the driver's own domain.
fn cached(mtt: &mut Mtt, pd: u32, octwords: u32, variant: u8) -> u32 {
    let mut mkc = region(MTT, pd, 0, 0, octwords);
    mkc.set_free(true);
    mkc.set_mkey_7_0(variant);
    for set in [Mkc::set_a, Mkc::set_rw, Mkc::set_rr, Mkc::set_lw] {
        set(&mut mkc, false);
    }
    create(mtt, &mkc, &[])
}

fn enabled(user: u32, start: u64, len: u64, key: u32) -> Context {
    let mut mkc = region(MTT, user, start, len, 0);
    mkc.set_mkey_7_0(key as u8);
    mkc
}

#[test]
fn the_driver_registers_revokes_and_registers_again() {
    let mut mtt = mtt();
    let own = mtt.alloc_pd(0).unwrap();
    let user = mtt.alloc_pd(1).unwrap();
    let key = cached(&mut mtt, own, 4, 0x5a);
    assert_eq!(mtt.live(), 0);

    let mkc = enabled(user, 0x7000, 0x2000, key);
    let enable =
        UmrRequest { flags: umr_flags::CHECK_NOT_FREE, octwords: 4, ..change(key, ENABLE, &mkc) };
    let list = padded(pages(&[0xa000, 0xc000]));
    mtt.umr(&enable, &list).unwrap();
    assert_eq!(mtt.live(), 1);
    assert_eq!(read(&mtt, key, 0x7800, 0x1000).unwrap(), [at(0xa800, 0x800), at(0xc000, 0x800)]);
    // Again it would not be free.
    assert_eq!(mtt.umr(&enable, &list), Err(UmrError::NotFree(key)));
    // The reference went from one domain to the other.
    mtt.dealloc_pd(own).unwrap();
    assert!(mtt.dealloc_pd(user).is_err());
    let own = mtt.alloc_pd(0).unwrap();

    // Only what the mask names: the request's other fields are zero, and ignored.
    let mut mkc = Mkc([0; 0x40]);
    mkc.set_free(true);
    mkc.set_pd(own);
    mkc.set_qpn(ANY_QPN);
    let revoke = change(key, mkey_mask::PD | mkey_mask::FREE, &mkc);
    mtt.umr(&revoke, &[]).unwrap();
    assert_eq!(refused(&mtt, &question(key, 0x7800, 8, Access::LocalRead)), "free_key");
    let info = mtt.info(index_of(key)).unwrap();
    assert_eq!((info.start, info.len, info.key, info.pd), (0x7000, 0x2000, key, own));
    assert_eq!((mtt.live(), info.free), (0, true));
    mtt.dealloc_pd(user).unwrap();

    // Larger pages, another place, the same key.
    let mut mkc = enabled(own, 0, 8 << 30, key);
    mkc.set_log_page_size(32);
    let enable = UmrRequest { mkc: Mkc(&mkc.0), ..enable };
    mtt.umr(&enable, &padded(pages(&[4 << 32, 9 << 32]))).unwrap();
    assert_eq!(read(&mtt, key, (1 << 32) - 8, 16).unwrap(), [at((5 << 32) - 8, 8), at(9 << 32, 8)]);
}

#[test]
fn a_long_list_comes_in_chunks() {
    let mut mtt = mtt();
    let own = mtt.alloc_pd(0).unwrap();
    let key = cached(&mut mtt, own, 1500, 0);
    let addrs: Vec<u64> = (0..3000).map(|page| (page * 7 + 3) << 12).collect();
    let mkc = enabled(own, 0, 3000 << 12, key);
    let (first, rest) = addrs.split_at(1600);
    // All but the last change nothing but translations.
    let chunk =
        UmrRequest { flags: umr_flags::CHECK_NOT_FREE, octwords: 800, ..change(key, 0, &mkc) };
    mtt.umr(&chunk, &pages(first)).unwrap();
    assert!(mtt.info(index_of(key)).unwrap().free);
    let last = UmrRequest {
        flags: umr_flags::CHECK_NOT_FREE | umr_flags::TRANSLATION_OFFSET_EN,
        octwords: 700,
        offset: 800,
        ..change(key, ENABLE, &mkc)
    };
    // The last in pieces, as guest memory gives them.
    mtt.umr_check(&last).unwrap();
    let bytes = pages(rest);
    for (piece, bytes) in bytes.chunks(16 * 96).enumerate() {
        mtt.umr_write(&last, piece as u32 * 96, bytes).unwrap();
        assert!(mtt.info(index_of(key)).unwrap().free);
    }
    mtt.umr_commit(&last).unwrap();
    for (page, &addr) in addrs.iter().enumerate() {
        let start = (page as u64) << 12;
        assert_eq!(read(&mtt, key, start + 5, 4090).unwrap(), [at(addr + 5, 4090)]);
    }
    assert_eq!(mtt.info(index_of(key)).unwrap().filled, 3000);
    // Pieces must be whole octwords within what was announced.
    assert!(matches!(mtt.umr_write(&last, 0, &[0; 16]), Err(UmrError::NotFree(_))));
    let more = UmrRequest { flags: 0, octwords: 2, offset: 0, ..last };
    for (at, len) in [(0, 8), (0, 48), (1, 32), (2, 16), (u32::MAX, 16)] {
        let error = mtt.umr_write(&more, at, &vec![0; len]).unwrap_err();
        assert_eq!(error, UmrError::WrongLength { bytes: len, octwords: 2 });
    }
}

#[test]
fn pages_come_and_go_under_a_key_in_use() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    // Room for three entries; the driver rewrites whole units of eight.
    let key = create(&mut mtt, &region(MTT, pd, 0, 0x3000, 2), &pages(&[0xa000, 0xb000]));
    let zero = Mkc([0; 0x40]);
    let update = UmrRequest {
        flags: umr_flags::CHECK_FREE | umr_flags::TRANSLATION_OFFSET_EN,
        octwords: 4,
        ..change(key, 0, &zero)
    };
    mtt.umr(&update, &[0; 64]).unwrap();
    assert_eq!(refused(&mtt, &question(key, 0, 1, Access::LocalRead)), "entry_not_present");
    let readable = padded([[0; 8], page(0xd000, true, false)].concat());
    mtt.umr(&update, &readable).unwrap();
    assert_eq!(read(&mtt, key, 0x1000, 1).unwrap(), [at(0xd000, 1)]);
    let write = question(key, 0x1000, 1, Access::RemoteWrite);
    assert_eq!(refused(&mtt, &write), "entry_right_missing");
    // Free, it is not to be touched.
    let mut mkc = Mkc([0; 0x40]);
    mkc.set_free(true);
    mtt.umr(&change(key, mkey_mask::FREE, &mkc), &[]).unwrap();
    assert_eq!(mtt.umr(&update, &readable), Err(UmrError::Free(key)));
}

#[test]
fn a_region_gets_another_domain_and_other_rights() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let other = mtt.alloc_pd(0).unwrap();
    let key = create(&mut mtt, &region(MTT, pd, 0, 0x1000, 4), &pages(&[0xa000, 0]));
    let mut mkc = Mkc([0; 0x40]);
    mkc.set_lr(true);
    mkc.set_rw(true);
    mkc.set_pd(other);
    let mask = mkey_mask::PD
        | mkey_mask::LR
        | mkey_mask::LW
        | mkey_mask::RR
        | mkey_mask::RW
        | mkey_mask::A;
    let rereg = UmrRequest { flags: umr_flags::CHECK_FREE, ..change(key, mask, &mkc) };
    mtt.umr(&rereg, &[]).unwrap();
    let info = mtt.info(index_of(key)).unwrap();
    let permitted: Vec<_> = Access::ALL.into_iter().filter(|&a| info.permits(a)).collect();
    assert_eq!(permitted, [Access::LocalRead, Access::RemoteWrite]);
    assert_eq!(info.pd, other);
    let mut unknown = mkc;
    unknown.set_pd(0x1234);
    let rereg = UmrRequest { mkc: Mkc(&unknown.0), ..rereg };
    assert_eq!(mtt.umr(&rereg, &[]), Err(UmrError::UnknownPd(0x1234)));
    assert!(mtt.dealloc_pd(other).is_err());
    mtt.dealloc_pd(pd).unwrap();
}

#[test]
fn the_sixth_bit_of_the_page_size() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let both = mkey_mask::PAGE_SIZE | mkey_mask::PAGE_SIZE_5;
    let mut set = |have: u8, mask, want: u8| {
        let mut mkc = context(MTT, pd);
        mkc.set_log_page_size(have);
        let key = create(&mut mtt, &mkc, &[]);
        mkc.set_log_page_size(want);
        let result = mtt.umr(&change(key, mask, &mkc), &[]);
        let now = mtt.info(index_of(key)).unwrap().log_page_size;
        mtt.destroy(index_of(key)).unwrap();
        result.map(|()| now)
    };
    assert_eq!(set(12, mkey_mask::LEN, 44), Ok(12));
    assert_eq!(set(44, mkey_mask::LEN, 12), Ok(44));
    assert_eq!(set(12, mkey_mask::PAGE_SIZE, 31), Ok(31));
    assert_eq!(set(40, mkey_mask::PAGE_SIZE, 63), Ok(63));
    assert_eq!(set(12, both, 44), Ok(44));
    assert_eq!(set(44, both, 12), Ok(12));
    assert_eq!(set(12, mkey_mask::PAGE_SIZE_5, 32), Ok(44));
    for (have, want) in [(12, 32), (12, 44), (44, 12), (63, 31)] {
        let error = BadContext::PageSizeBit { have, want };
        assert_eq!(set(have, mkey_mask::PAGE_SIZE, want), Err(error.into()));
    }
    // Too small for a key that can be used.
    let error = BadContext::PageSize { log_page_size: 11 };
    assert_eq!(set(12, mkey_mask::PAGE_SIZE, 11), Err(error.into()));
    let error = BadContext::PageSize { log_page_size: 8 };
    assert_eq!(set(40, mkey_mask::PAGE_SIZE_5, 8), Err(error.into()));
}

#[test]
fn fast_registration_names_the_key_that_will_be() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let key = cached(&mut mtt, pd, 4, 7);
    let next = key + 1;
    let mask = ENABLE & !mkey_mask::PD & !mkey_mask::PAGE_SIZE_5;
    let mkc = enabled(0, 0, 0x1000, next);
    let request = UmrRequest {
        pd: Some(pd),
        flags: umr_flags::CHECK_NOT_FREE,
        octwords: 4,
        ..change(next, mask, &mkc)
    };
    mtt.umr(&request, &padded(pages(&[0xa000]))).unwrap();
    assert_eq!(read(&mtt, next, 0, 1).unwrap(), [at(0xa000, 1)]);
    assert_eq!(refused(&mtt, &question(key, 0, 1, Access::LocalRead)), "wrong_variant");
    // In use, the key must be named by its variant; so must a free one that keeps it.
    let mut free = Mkc([0; 0x40]);
    free.set_free(true);
    let wrong = Err(UmrError::WrongVariant { key, variant: next as u8 });
    assert_eq!(mtt.umr(&change(key, mkey_mask::FREE, &free), &[]), wrong);
    assert_eq!(mtt.umr(&change(key, mkey_mask::FREE | mkey_mask::KEY, &free), &[]), wrong);
    mtt.umr(&change(next, mkey_mask::FREE, &free), &[]).unwrap();
    assert_eq!(mtt.umr(&change(key, mkey_mask::FREE, &free), &[]), wrong);
}

#[test]
fn who_may_change_what() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let other = mtt.alloc_pd(0).unwrap();
    let key = create(&mut mtt, &context(MTT, pd), &[]);
    let mkc = context(MTT, other);
    let rights = change(key, mkey_mask::RW, &mkc);
    mtt.umr(&UmrRequest { pd: Some(pd), ..rights }, &[]).unwrap();
    let error = UmrError::PdMismatch { key, pd };
    assert_eq!(mtt.umr(&UmrRequest { pd: Some(other), ..rights }, &[]), Err(error));
    // Nor may a key be taken out of another domain into one's own.
    let mine = context(MTT, other);
    let take = UmrRequest { pd: Some(other), ..change(key, mkey_mask::PD, &mine) };
    assert_eq!(mtt.umr(&take, &[]), Err(error));
    // Only the driver's own queue moves keys between domains.
    let domain = change(key, mkey_mask::PD, &mkc);
    let error = UmrError::PdMismatch { key, pd: other };
    assert_eq!(mtt.umr(&UmrRequest { pd: Some(pd), ..domain }, &[]), Err(error));
    mtt.umr(&domain, &[]).unwrap();
    // A domain that does not exist is noticed before any translation is written.
    let nowhere = context(MTT, 0x999);
    let room = create(&mut mtt, &region(MTT, pd, 0, 0x1000, 4), &pages(&[0xa000, 0]));
    let request = UmrRequest { octwords: 4, ..change(room, mkey_mask::PD, &nowhere) };
    assert_eq!(mtt.umr_check(&request), Err(UmrError::UnknownPd(0x999)));
    assert_eq!(mtt.umr(&request, &[0; 64]), Err(UmrError::UnknownPd(0x999)));
    assert_eq!(read(&mtt, room, 0, 1).unwrap(), [at(0xa000, 1)]);

    let mut fixed = context(MTT, pd);
    fixed.set_umr_en(false);
    let key = create(&mut mtt, &fixed, &[]);
    assert_eq!(mtt.umr(&change(key, mkey_mask::RW, &mkc), &[]), Err(UmrError::Disabled(key)));
    assert_eq!(
        mtt.umr(&change(key + 256, mkey_mask::RW, &mkc), &[]),
        Err(UmrError::UnknownKey(key + 256))
    );
}

#[test]
fn requests_that_contradict_themselves() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let key = create(&mut mtt, &region(MTT, pd, 0, 0x1000, 4), &[]);
    let mkc = context(MTT, pd);
    let both = umr_flags::CHECK_FREE | umr_flags::CHECK_NOT_FREE;
    let plain = change(key, 0, &mkc);
    assert_eq!(mtt.umr(&UmrRequest { flags: both, ..plain }, &[]), Err(UmrError::BadFlags(both)));
    // Without an offset this is the length of a signature's fields.
    assert_eq!(
        mtt.umr(&UmrRequest { flags: 0, offset: 8, ..plain }, &[]),
        Err(UmrError::BadFlags(0))
    );
    for bit in [2, 3, 10, 16, 30, 43, 63] {
        let unknown = UmrRequest { mask: 1 << bit | mkey_mask::LEN, ..plain };
        assert_eq!(mtt.umr(&unknown, &[]), Err(UmrError::UnknownFields(1 << bit)));
    }
    // Signatures may be switched off, not on.
    let mask = mkey_mask::BSF_EN | mkey_mask::EN_SIGERR;
    mtt.umr(&UmrRequest { mask, ..plain }, &[]).unwrap();
    for set in [Mkc::set_bsf_en, Mkc::set_expected_sigerr_count] {
        let mut signed = mkc;
        set(&mut signed, true);
        let error = mtt.umr(&UmrRequest { mask, mkc: Mkc(&signed.0), ..plain }, &[]).unwrap_err();
        assert_eq!(error, BadContext::Signature.into());
    }
    // More or less than announced.
    for len in [0, 48, 80] {
        let error = mtt.umr(&UmrRequest { octwords: 4, ..plain }, &vec![0; len]).unwrap_err();
        assert_eq!(error, UmrError::WrongLength { bytes: len, octwords: 4 });
    }
}

#[test]
fn translations_stay_within_the_key() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    let mkc = context(MTT, pd);
    for mode in [MTT, KLM, KSM] {
        // Room for five is room for eight.
        let key = create(&mut mtt, &region(mode, pd, 0, 0x1000, 5), &[]);
        let plain = UmrRequest { flags: umr_flags::TRANSLATION_OFFSET_EN, ..change(key, 0, &mkc) };
        for (offset, octwords) in [(0, 8), (4, 4), (7, 1), (8, 0), (u64::MAX, 0)] {
            let request = UmrRequest { offset, octwords, ..plain };
            mtt.umr(&request, &vec![0; octwords as usize * 16]).unwrap();
        }
        for (offset, octwords) in [(0, 9), (8, 1), (5, 4), (u64::MAX, 1), ((1 << 48) - 1, 1)] {
            let request = UmrRequest { offset, octwords, ..plain };
            let octwords = octwords.into();
            let error = UmrError::OutOfBounds { offset, octwords, capacity: 8 };
            assert_eq!(mtt.umr_check(&request), Err(error));
        }
    }
    let pa = create(&mut mtt, &region(0, pd, 0, 0x1000, 8), &[]);
    let request = UmrRequest { octwords: 4, ..change(pa, 0, &mkc) };
    let error = UmrError::OutOfBounds { offset: 0, octwords: 4, capacity: 0 };
    assert_eq!(mtt.umr(&request, &[0; 64]), Err(error));
}

#[test]
fn entries_run_out() {
    let mut mtt = Mtt::new(Limits { keys: 10, pds: 1, entries: 600 });
    let pd = mtt.alloc_pd(0).unwrap();
    let mkc = context(MTT, pd);
    let key = create(&mut mtt, &region(MTT, pd, 0, 0x1000, 1 << 30), &[]);
    let fill =
        UmrRequest { flags: umr_flags::TRANSLATION_OFFSET_EN, octwords: 4, ..change(key, 0, &mkc) };
    // A far entry costs its block and the way to it.
    let far = UmrRequest { offset: 80 * 256, ..fill };
    mtt.umr(&far, &[1; 64]).unwrap();
    assert_eq!(mtt.filled(), 512 + 81);
    let farther = UmrRequest { offset: 88 * 256, ..fill };
    assert_eq!(mtt.umr(&farther, &[1; 64]), Err(UmrError::NoEntryLeft { limit: 600 }));
    assert_eq!(mtt.umr(&fill, &[1; 64]), Err(UmrError::NoEntryLeft { limit: 600 }));
    // A request that reaches from the block that is there into one that can't be.
    let across = UmrRequest { offset: 81 * 256 - 4, octwords: 8, ..fill };
    assert_eq!(mtt.umr_check(&across), Err(UmrError::NoEntryLeft { limit: 600 }));
    mtt.umr_write(&across, 0, &[1; 64]).unwrap();
    assert_eq!(mtt.umr_write(&across, 4, &[1; 64]), Err(UmrError::NoEntryLeft { limit: 600 }));
    mtt.umr(&far, &[2; 64]).expect("what is filled may be filled again");
    mtt.destroy(index_of(key)).unwrap();
    assert_eq!(mtt.filled(), 0);
}

#[test]
fn a_user_does_not_choose_where_a_key_leads() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(1).unwrap();
    let key = create(&mut mtt, &region(MTT, pd, 0, 0x1000, 4), &pages(&[0xa000, 0]));
    let mut mkc = region(MTT, pd, 0x100, 0x800, 0);
    mkc.set_log_page_size(21);
    mkc.set_rw(false);
    let user = UmrRequest { pd: Some(pd), user: true, ..change(key, mkey_mask::RW, &mkc) };
    let refused = Err(UmrError::NotForUsers(key));
    assert_eq!(mtt.umr(&UmrRequest { octwords: 4, ..user }, &[0; 64]), refused);
    for bit in [mkey_mask::LEN, mkey_mask::START_ADDR, mkey_mask::PAGE_SIZE, mkey_mask::PAGE_SIZE_5]
    {
        assert_eq!(mtt.umr(&UmrRequest { mask: bit | mkey_mask::RW, ..user }, &[]), refused);
    }
    // Its rights may change, and it may be invalidated.
    mtt.umr(&user, &[]).unwrap();
    assert!(!mtt.info(index_of(key)).unwrap().permits(Access::RemoteWrite));
    // A key that leads to other keys is the user's own business.
    let list = create(&mut mtt, &region(KLM, pd, 0, 0x1000, 4), &[]);
    let entries = padded(klm(0x800, key, 0).to_vec());
    let mask = mkey_mask::LEN | mkey_mask::START_ADDR;
    mtt.umr(&UmrRequest { key: list, mask, octwords: 4, ..user }, &entries).unwrap();
    assert_eq!(read(&mtt, list, 0x100, 8).unwrap(), [at(0xa000, 8)]);
}

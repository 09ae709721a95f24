//! Keys that lead to other keys, edited by their users' own queue pairs: windows of both types and
//! rdma-core's indirect keys, as rdma-core's work requests ask for them.

mod common;

use common::*;
use layouts::{Mkc, mkey_mask, umr_flags};
use mtt::{ANY_QPN, Access, Cause, Mtt, Question, UmrError, UmrRequest, index_of};
use proptest::prelude::*;

#[test]
fn windows_of_type_2() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(0).unwrap();
    // The region itself is closed to peers.
    let mut mkc = region(MTT, pd, 0x7000, 0x2000, 4);
    mkc.set_rr(false);
    mkc.set_rw(false);
    mkc.set_a(false);
    let mr = create(&mut mtt, &mkc, &pages(&[0xa000, 0xb000]));
    let mut mkc = region(KLM, pd, 0, 0, 4);
    mkc.set_free(true);
    mkc.set_en_rinval(true);
    for set in [Mkc::set_a, Mkc::set_rw, Mkc::set_rr, Mkc::set_lw] {
        set(&mut mkc, false);
    }
    let mw = create(&mut mtt, &mkc, &[]);
    let (me, peer) = (0x11, 0x22);

    // Type 2 is bound to the queue pair that asks, under the next key.
    let bound = mw + 1;
    let mut mkc = Mkc([0; 0x40]);
    mkc.set_mkey_7_0(bound as u8);
    mkc.set_qpn(me);
    mkc.set_rr(true);
    mkc.set_start_addr(0x7800);
    mkc.set_len(0x1000);
    let mask = mkey_mask::FREE
        | mkey_mask::KEY
        | mkey_mask::QPN
        | mkey_mask::LEN
        | mkey_mask::START_ADDR
        | mkey_mask::LW
        | mkey_mask::RR
        | mkey_mask::RW
        | mkey_mask::A;
    let list = padded(klm(0x1000, mr, 0x7800).to_vec());
    let bind = UmrRequest {
        pd: Some(pd),
        qpn: me,
        flags: umr_flags::INLINE | umr_flags::TRANSLATION_OFFSET_EN | umr_flags::CHECK_NOT_FREE,
        octwords: 4,
        ..change(mw, mask, &mkc)
    };
    mtt.umr(&bind, &list).unwrap();
    let by = |qpn, access| mtt::Question {
        pd: Some(pd),
        qpn: Some(qpn),
        ..question(bound, 0x7900, 0x800, access)
    };
    let reached = ask(&mtt, &by(me, Access::RemoteRead)).unwrap();
    assert_eq!(reached, [at(0xa900, 0x800)]);
    assert_eq!(refused(&mtt, &by(peer, Access::RemoteRead)), "qp_mismatch");
    assert_eq!(refused(&mtt, &by(me, Access::RemoteWrite)), "right_missing");

    // Invalidated from afar only by the right key over the right queue pair.
    let wrong = Cause::WrongVariant { variant: bound as u8 };
    assert_eq!(mtt.invalidate(mw, pd, me), Err(wrong));
    assert_eq!(mtt.invalidate(bound, pd, peer), Err(Cause::QpMismatch { key: me, asker: peer }));
    assert_eq!(
        mtt.invalidate(bound, pd + 1, me),
        Err(Cause::PdMismatch { key: pd, asker: pd + 1 })
    );
    assert_eq!(mtt.invalidate(mr, pd, me), Err(Cause::InvalidationForbidden));
    assert_eq!(mtt.invalidate(bound + 256, pd, me), Err(Cause::NoSuchKey));
    assert_eq!(mtt.live(), 2);
    mtt.invalidate(bound, pd, me).unwrap();
    assert_eq!(mtt.live(), 1);
    assert_eq!(mtt.invalidate(bound, pd, me), Err(Cause::Free));
    assert_eq!(refused(&mtt, &by(me, Access::RemoteRead)), "free_key");

    // Bound again, and unbound by its owner: rdma-core's local invalidation.
    mtt.umr(&bind, &list).unwrap();
    let mut none = Mkc([0; 0x40]);
    none.set_free(true);
    none.set_qpn(ANY_QPN);
    let unbind = UmrRequest {
        qpn: peer,
        flags: umr_flags::INLINE | umr_flags::TRANSLATION_OFFSET_EN | umr_flags::CHECK_QPN,
        octwords: 0,
        ..change(bound, mkey_mask::FREE | mkey_mask::KEY | mkey_mask::QPN, &none)
    };
    assert_eq!(mtt.umr(&unbind, &[]), Err(UmrError::QpMismatch { key: bound, qpn: me }));
    let stale = UmrRequest { qpn: me, key: bound + 1, ..unbind };
    assert!(matches!(mtt.umr(&stale, &[]), Err(UmrError::WrongVariant { .. })));
    mtt.umr(&UmrRequest { qpn: me, ..unbind }, &[]).unwrap();
    let info = mtt.info(index_of(mw)).unwrap();
    assert_eq!((info.free, info.qpn, info.key), (true, ANY_QPN, mw & !0xff));
    mtt.destroy(index_of(mr)).unwrap();
    mtt.destroy(index_of(mw)).unwrap();
    mtt.dealloc_pd(pd).unwrap();
}

/// rdma-core's `mlx5dv_create_mkey`: free, without a right but local reads, bound to nobody.
fn indirect(mtt: &mut Mtt, pd: u32) -> u32 {
    let mut mkc = region(KLM, pd, 0, 0, 4);
    mkc.set_free(true);
    for set in [Mkc::set_a, Mkc::set_rw, Mkc::set_rr, Mkc::set_lw] {
        set(&mut mkc, false);
    }
    create(mtt, &mkc, &[])
}

/// What its `wr_mkey_configure` names.
const CONFIGURE: u64 = mkey_mask::FREE
    | mkey_mask::KEY
    | mkey_mask::LEN
    | mkey_mask::LW
    | mkey_mask::RR
    | mkey_mask::RW
    | mkey_mask::A;

/// What its local invalidation asks for: the variant becomes 0.
fn invalidation() -> Context {
    let mut mkc = Mkc([0; 0x40]);
    mkc.set_free(true);
    mkc.set_qpn(ANY_QPN);
    mkc
}

#[test]
fn indirect_keys_are_configured_used_and_invalidated() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(1).unwrap();
    let mr = create(&mut mtt, &region(MTT, pd, 0x7000, 0x2000, 4), &pages(&[0xa000, 0xc000]));
    let key = indirect(&mut mtt, pd);
    let lists = [
        // Two runs.
        (16, [klm(8, mr, 0x7000), klm(8, mr, 0x7040), [0; 16], [0; 16]].concat()),
        // Three times eight bytes of each of two, ten apart.
        (
            48,
            [stride_block(16, 3, 2), stride(8, 10, mr, 0x7000), stride(8, 10, mr, 0x7040), [0; 16]]
                .concat(),
        ),
    ];
    for (len, list) in lists {
        let mut mkc = Mkc([0; 0x40]);
        mkc.set_qpn(ANY_QPN);
        mkc.set_len(len);
        mkc.set_lw(true);
        let by_user = |request| UmrRequest { pd: Some(pd), qpn: 0x11, ..request };
        let configure = UmrRequest { octwords: 4, ..change(key, CONFIGURE, &mkc) };
        mtt.umr(&by_user(configure), &list).unwrap();
        let first = ask(&mtt, &question(key, 0, 16, Access::LocalWrite)).unwrap();
        assert_eq!(first, [at(0xa000, 8), at(0xa040, 8)]);
        if len == 48 {
            assert_eq!(read(&mtt, key, 36, 12).unwrap(), [at(0xa018, 4), at(0xa054, 8)]);
        }
        let beyond = question(key, len, 1, Access::LocalRead);
        assert_eq!(refused(&mtt, &beyond), "out_of_bounds");
        assert_eq!(refused(&mtt, &question(key, 0, 1, Access::RemoteRead)), "right_missing");
        // Bound to no queue pair, it is invalidated by any of its domain.
        let mkc = invalidation();
        let invalidate = UmrRequest {
            flags: umr_flags::INLINE | umr_flags::TRANSLATION_OFFSET_EN | umr_flags::CHECK_QPN,
            ..change(key, mkey_mask::FREE | mkey_mask::KEY | mkey_mask::QPN, &mkc)
        };
        mtt.umr(&by_user(invalidate), &[]).unwrap();
        assert_eq!(refused(&mtt, &question(key, 0, 1, Access::LocalRead)), "free_key");
        assert!(!mtt.info(index_of(key)).unwrap().permits(Access::RemoteWrite));
    }
}

#[test]
fn a_window_of_type_1_is_bound_to_no_queue_pair_and_unbound_by_nothing() {
    let mut mtt = mtt();
    let pd = mtt.alloc_pd(1).unwrap();
    let mr = create(&mut mtt, &region(MTT, pd, 0, 0x1000, 4), &pages(&[0xa000, 0]));
    let mut name = indirect(&mut mtt, pd);
    let mask = CONFIGURE | mkey_mask::START_ADDR;
    for (start, len) in [(0x100, 0x80), (0x200, 0x40), (0, 0)] {
        let next = name & !0xff | (name + 1) & 0xff;
        let mut mkc = Mkc([0; 0x40]);
        mkc.set_qpn(ANY_QPN);
        mkc.set_mkey_7_0(next as u8);
        mkc.set_free(len == 0);
        mkc.set_rw(true);
        mkc.set_start_addr(start);
        mkc.set_len(len.into());
        let list = padded(klm(len, mr, start).to_vec());
        let bind = UmrRequest {
            pd: Some(pd),
            flags: umr_flags::INLINE | umr_flags::TRANSLATION_OFFSET_EN,
            octwords: if len == 0 { 0 } else { 4 },
            ..change(name, if len == 0 { mkey_mask::FREE | mkey_mask::KEY } else { mask }, &mkc)
        };
        mtt.umr(&bind, if len == 0 { &[] } else { &list }).unwrap();
        // The earlier name reaches nothing any more, whether bound anew or not at all.
        assert!(ask(&mtt, &question(name, start, 1, Access::RemoteWrite)).is_err());
        let now = question(next, start, len.max(1).into(), Access::RemoteWrite);
        match len {
            0 => assert_eq!(refused(&mtt, &now), "free_key"),
            len => assert_eq!(ask(&mtt, &now).unwrap(), [at(0xa000 + start, len.into())]),
        }
        name = next;
    }
    // Who goes through a window needs the local rights of what is under it.
    let mut closed = region(MTT, pd, 0, 0x1000, 4);
    closed.set_lw(false);
    let closed = create(&mut mtt, &closed, &pages(&[0xa000, 0]));
    let mut mkc = Mkc([0; 0x40]);
    mkc.set_qpn(ANY_QPN);
    mkc.set_rw(true);
    mkc.set_rr(true);
    mkc.set_len(8);
    let bind = UmrRequest { pd: Some(pd), octwords: 4, ..change(name, mask, &mkc) };
    mtt.umr(&bind, &padded(klm(8, closed, 0).to_vec())).unwrap();
    let name = name & !0xff;
    assert_eq!(refused(&mtt, &question(name, 0, 8, Access::RemoteWrite)), "right_missing");
    assert!(ask(&mtt, &question(name, 0, 8, Access::RemoteRead)).is_ok());
}

/// What a window is to be, or is.
#[derive(Debug, Clone, Copy)]
struct Bound {
    /// Queue pair, for type 2.
    qpn: Option<u32>,
    start: u64,
    len: u32,
    read: bool,
    write: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Bind(Bound),
    LocalInvalidate {
        qpn: u32,
    },
    RemoteInvalidate {
        qpn: u32,
    },
    /// Binds by a name that is `off` variants away from the right one.
    Misname {
        off: u8,
        bound: Bound,
    },
}

fn bound() -> impl Strategy<Value = Bound> {
    let qpn = prop::option::of(1..3u32);
    (qpn, 0..0x2000u64, 0..0x1000u32, any::<bool>(), any::<bool>()).prop_map(
        |(qpn, start, len, read, write)| {
            // Within the region, as the library sees to it.
            let len = len.min((0x2000 - start) as u32);
            Bound { qpn, start: 0x7000 + start, len, read, write }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => bound().prop_map(Step::Bind),
        1 => (1..3u32).prop_map(|qpn| Step::LocalInvalidate { qpn }),
        1 => (1..3u32).prop_map(|qpn| Step::RemoteInvalidate { qpn }),
        1 => (1..255u8, bound()).prop_map(|(off, bound)| Step::Misname { off, bound }),
    ]
}

/// rdma-core's bind of `name`, which becomes `next`.
fn bind(
    mtt: &mut Mtt,
    (name, next): (u32, u8),
    pd: u32,
    under: u32,
    bound: Bound,
) -> Result<(), UmrError> {
    let mut mkc = Mkc([0; 0x40]);
    mkc.set_qpn(bound.qpn.unwrap_or(ANY_QPN));
    mkc.set_mkey_7_0(next);
    mkc.set_rr(bound.read);
    mkc.set_rw(bound.write);
    mkc.set_start_addr(bound.start);
    mkc.set_len(bound.len.into());
    let mut mask = CONFIGURE | mkey_mask::START_ADDR;
    let mut flags = umr_flags::INLINE | umr_flags::TRANSLATION_OFFSET_EN;
    if bound.qpn.is_some() {
        mask |= mkey_mask::QPN;
        flags |= umr_flags::CHECK_NOT_FREE;
    }
    let list = padded(klm(bound.len, under, bound.start).to_vec());
    let qpn = bound.qpn.unwrap_or(1);
    let pd = Some(pd);
    let request =
        UmrRequest { pd, qpn, user: true, flags, octwords: 4, ..change(name, mask, &mkc) };
    mtt.umr(&request, &list)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    /// Whatever is bound, unbound and invalidated by whom: a peer reaches what the window shows
    /// then, through the queue pair that it is bound to, and nothing else.
    #[test]
    fn a_window_is_what_was_bound_last(
        type_2 in any::<bool>(),
        steps in prop::collection::vec(step(), 1..20),
        asks in prop::collection::vec((0x6f00..0x9100u64, 0..0x1100u64, 1..3u32), 4),
    ) {
        let mut mtt = mtt();
        let pd = mtt.alloc_pd(1).unwrap();
        let under = create(
            &mut mtt,
            &region(MTT, pd, 0x7000, 0x2000, 4),
            &pages(&[0xa000, 0xc000]),
        );
        let mut mkc = region(KLM, pd, 0, 0, 4);
        mkc.set_free(true);
        mkc.set_en_rinval(true);
        for set in [Mkc::set_a, Mkc::set_rw, Mkc::set_rr, Mkc::set_lw] {
            set(&mut mkc, false);
        }
        let window = create(&mut mtt, &mkc, &[]) & !0xff;
        let (mut variant, mut now): (u8, Option<Bound>) = (0, None);
        // Whose it is, which a peer's invalidation does not change.
        let mut owner = None;
        let of_type = |bound: Bound| {
            let qpn = type_2.then(|| bound.qpn.unwrap_or(1));
            Bound { qpn, ..bound }
        };
        for step in steps {
            let name = window | u32::from(variant);
            match step {
                Step::Bind(bound) => {
                    let (next, bound) = (variant.wrapping_add(1), of_type(bound));
                    let result = bind(&mut mtt, (name, next), pd, under, bound);
                    if type_2 && now.is_some() {
                        prop_assert_eq!(result, Err(UmrError::NotFree(name)));
                    } else {
                        prop_assert_eq!(result, Ok(()));
                        (variant, now, owner) = (next, Some(bound), bound.qpn);
                    }
                }
                Step::Misname { off, bound } => {
                    // A free window is named by what it will be; one in use by what it is.
                    if now.is_some() {
                        let name = window | u32::from(variant.wrapping_add(off));
                        let result = bind(&mut mtt, (name, 0), pd, under, of_type(bound));
                        prop_assert_eq!(result, Err(UmrError::WrongVariant { key: name, variant }));
                    }
                }
                Step::LocalInvalidate { qpn } => {
                    let mkc = invalidation();
                    let mask = mkey_mask::FREE | mkey_mask::KEY | mkey_mask::QPN;
                    let flags = umr_flags::INLINE
                        | umr_flags::TRANSLATION_OFFSET_EN
                        | umr_flags::CHECK_QPN;
                    let request = UmrRequest { pd: Some(pd), qpn, flags, ..change(name, mask, &mkc) };
                    let result = mtt.umr(&request, &[]);
                    match owner.filter(|&of| of != qpn) {
                        Some(of) => {
                            let error = UmrError::QpMismatch { key: name, qpn: of };
                            prop_assert_eq!(result, Err(error));
                        }
                        None => {
                            prop_assert_eq!(result, Ok(()));
                            (variant, now, owner) = (0, None, None);
                        }
                    }
                }
                Step::RemoteInvalidate { qpn } => {
                    let may = now.is_some_and(|bound| bound.qpn.is_none_or(|of| of == qpn));
                    prop_assert_eq!(mtt.invalidate(name, pd, qpn).is_ok(), may);
                    if may {
                        now = None;
                    }
                }
            }
            let name = window | u32::from(variant);
            for &(addr, len, qpn) in &asks {
                for access in [Access::RemoteRead, Access::RemoteWrite, Access::RemoteAtomic] {
                    let question =
                        Question { pd: Some(pd), qpn: Some(qpn), ..question(name, addr, len, access) };
                    let may = now.is_some_and(|bound| {
                        let right = match access {
                            Access::RemoteRead => bound.read,
                            Access::RemoteWrite => bound.write,
                            _ => false,
                        };
                        let inside = addr >= bound.start
                            && addr + len <= bound.start + u64::from(bound.len);
                        right && inside && bound.qpn.is_none_or(|of| of == qpn)
                    });
                    let reached = ask(&mtt, &question);
                    prop_assert_eq!(reached.is_ok(), may, "{:?} {:?}", now, question);
                    if let Ok(pieces) = reached {
                        let same = ask(&mtt, &Question { key: under, ..question }).unwrap();
                        prop_assert_eq!(pieces, same);
                    }
                }
            }
        }
    }
}

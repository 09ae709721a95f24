//! Random edits by work request, against a model that sets one field after the other.

mod common;

use common::*;
use dma::RemoveError;
use layouts::{Mkc, mkey_mask, umr_flags};
use mtt::{ANY_QPN, Mtt, UmrRequest, index_of};
use proptest::prelude::*;

/// All that can be seen of a key.
fn shown(mtt: &Mtt, key: u32) -> ([u8; 0x40], mtt::KeyInfo, u64, usize) {
    let mut mkc = Mkc([0; 0x40]);
    mtt.query(index_of(key), &mut mkc).unwrap();
    (mkc.0, mtt.info(index_of(key)).unwrap(), mtt.filled(), mtt.live())
}

/// The fields of a context by the bit that lets each change, set one by one.
type Field = (u64, fn(&mut Context, &Context));
const FIELDS: [Field; 17] = [
    (mkey_mask::LEN, |to, from| {
        to.set_len(from.len());
        to.set_length64(from.length64());
    }),
    (mkey_mask::PAGE_SIZE, |to, from| {
        to.set_log_page_size(to.log_page_size() & 32 | from.log_page_size() & 31);
    }),
    (mkey_mask::PAGE_SIZE_5, |to, from| {
        to.set_log_page_size(to.log_page_size() & 31 | from.log_page_size() & 32);
    }),
    (mkey_mask::START_ADDR, |to, from| to.set_start_addr(from.start_addr())),
    (mkey_mask::PD, |to, from| to.set_pd(from.pd())),
    (mkey_mask::EN_RINVAL, |to, from| to.set_en_rinval(from.en_rinval())),
    (mkey_mask::KEY, |to, from| to.set_mkey_7_0(from.mkey_7_0())),
    (mkey_mask::QPN, |to, from| to.set_qpn(from.qpn())),
    (mkey_mask::LR, |to, from| to.set_lr(from.lr())),
    (mkey_mask::LW, |to, from| to.set_lw(from.lw())),
    (mkey_mask::RR, |to, from| to.set_rr(from.rr())),
    (mkey_mask::RW, |to, from| to.set_rw(from.rw())),
    (mkey_mask::A, |to, from| to.set_a(from.a())),
    (mkey_mask::SMALL_FENCE, |to, from| {
        to.set_small_fence_on_rdma_read_response(from.small_fence_on_rdma_read_response());
    }),
    (mkey_mask::RELAXED_ORDERING_WRITE, |to, from| {
        to.set_relaxed_ordering_write(from.relaxed_ordering_write());
    }),
    (mkey_mask::RELAXED_ORDERING_READ, |to, from| {
        to.set_relaxed_ordering_read(from.relaxed_ordering_read());
    }),
    (mkey_mask::FREE, |to, from| to.set_free(from.free())),
];

/// Random bytes that are nearly a context: domains exist, modes are known.
fn sensible() -> impl Strategy<Value = [u8; 0x40]> {
    (prop::array::uniform32(any::<u16>()), 1..4u32, 1..4u8, 0..40u32).prop_map(
        |(bytes, pd, mode, octwords)| {
            let mut mkc = Mkc([0; 0x40]);
            for (at, value) in mkc.0.chunks_mut(2).zip(bytes) {
                at.copy_from_slice(&value.to_ne_bytes());
            }
            mkc.set_pd(pd);
            if octwords % 4 == 0 {
                mkc.set_qpn(ANY_QPN);
            }
            mkc.set_access_mode_4_2(0);
            mkc.set_access_mode_1_0(mode);
            mkc.set_bsf_en(false);
            mkc.set_bsf_octword_size(0);
            mkc.set_expected_sigerr_count(false);
            mkc.set_translations_octword_size(octwords);
            mkc.0
        },
    )
}

/// Whether a request that names a key by its variant is to be carried out.
fn acceptable(key: &Context, request: &UmrRequest, to: &Context) -> bool {
    let &UmrRequest { mask, flags, pd, offset, octwords, .. } = request;
    let mut then = *key;
    for (bit, set) in FIELDS {
        if mask & bit != 0 {
            set(&mut then, to);
        }
    }
    let set = |flag| flags & flag != 0;
    let named = |bit| mask & bit != 0;
    let known = FIELDS.iter().fold(mkey_mask::EN_SIGERR | mkey_mask::BSF_EN, |all, f| all | f.0);
    let checks = match (set(umr_flags::CHECK_FREE), set(umr_flags::CHECK_NOT_FREE)) {
        (false, false) => true,
        (true, false) => !key.free(),
        (false, true) => key.free(),
        (true, true) => false,
    };
    let sixth = named(mkey_mask::PAGE_SIZE)
        && !named(mkey_mask::PAGE_SIZE_5)
        && (key.log_page_size() ^ to.log_page_size()) & 32 != 0;
    let small = then.access_mode_1_0() == MTT && !then.free() && then.log_page_size() < 12;
    let end = u64::from(octwords) + if set(umr_flags::TRANSLATION_OFFSET_EN) { offset } else { 0 };
    let room = u64::from(key.translations_octword_size()).next_multiple_of(4);
    checks
        && mask & !known == 0
        && (!set(umr_flags::CHECK_QPN) || [ANY_QPN, request.qpn].contains(&key.qpn()))
        && (set(umr_flags::TRANSLATION_OFFSET_EN) || offset == 0)
        && pd.is_none_or(|pd| pd == key.pd() && pd == then.pd())
        && (1..4).contains(&then.pd())
        && (octwords == 0 || end <= room)
        && !sixth
        && !small
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    /// A request changes the fields that it names and the octwords that it covers; one that is
    /// refused changes nothing; domains have as many references as there are keys in them.
    #[test]
    fn random_requests(
        made in sensible(),
        requests in prop::collection::vec(
            (sensible(), any::<u64>(), any::<u8>(), prop::option::of(1..4u32), 0..45u64, 0..12u32, any::<u8>()),
            1..20,
        ),
    ) {
        let mut mtt = mtt();
        for _ in 0..3 {
            mtt.alloc_pd(0).unwrap();
        }
        let mut made = Mkc(made);
        made.set_log_page_size(made.log_page_size() | 16);
        made.set_umr_en(true);
        let index = mtt.create(&made, mtt::List::NONE, 0).unwrap();
        let mut mkc = Mkc([0; 0x40]);
        mtt.query(index, &mut mkc).unwrap();
        let mut words = vec![0u64; 80];
        for (to, mask, flags, pd, offset, octwords, fill) in requests {
            let to = Mkc(to);
            // Mostly bits that name a field.
            let known = FIELDS.iter().fold(0, |all, &(bit, _)| all | bit);
            let mask = if fill % 16 == 0 { mask } else { mask & known };
            let flags = flags & if fill % 8 == 1 { 0xff } else { umr_flags::TRANSLATION_OFFSET_EN };
            let key = mtt::key_of(index, mkc.mkey_7_0());
            let before = shown(&mtt, key);
            let request = UmrRequest {
                pd, flags, mask, offset, octwords,
                ..change(key, mask, &to)
            };
            let accepted = acceptable(&mkc, &request, &to);
            let bytes: Vec<u8> = (0..octwords * 16).map(|at| fill.wrapping_add(at as u8)).collect();
            match mtt.umr(&request, &bytes) {
                Err(error) => {
                    prop_assert!(!accepted, "{}", error);
                    prop_assert_eq!(shown(&mtt, key), before);
                }
                Ok(()) => {
                    prop_assert!(accepted);
                    for (bit, set) in FIELDS {
                        if mask & bit != 0 {
                            set(&mut mkc, &to);
                        }
                    }
                    let start = if flags & umr_flags::TRANSLATION_OFFSET_EN != 0 { offset } else { 0 };
                    prop_assert!(octwords == 0 || start + u64::from(octwords) <= 40);
                    for (word, bytes) in words.iter_mut().skip(start as usize * 2).zip(bytes.chunks(8)) {
                        *word = u64::from_be_bytes(bytes.try_into().unwrap());
                    }
                    let (now, info, ..) = shown(&mtt, key);
                    prop_assert_eq!(now, mkc.0);
                    prop_assert_eq!(info.filled, words.iter().filter(|&&word| word != 0).count() as u64);
                }
            }
            prop_assert_eq!(mtt.live(), usize::from(!mkc.free()));
            let busy = RemoveError::Busy { id: mkc.pd(), users: 1 };
            prop_assert_eq!(mtt.dealloc_pd(mkc.pd()), Err(busy));
        }
        mtt.destroy(index).unwrap();
        prop_assert_eq!((mtt.live(), mtt.filled()), (0, 0));
        for pd in 1..4 {
            mtt.dealloc_pd(pd).unwrap();
        }
    }
}

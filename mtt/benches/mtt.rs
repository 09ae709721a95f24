//! `cargo bench -p mtt`: what the device pays for a key and for a translation, beside what the
//! machine asks for the memory accesses alone.
#![allow(missing_docs, reason = "criterion's macros make functions")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use layouts::{Mkc, mkey_mask, umr_flags};
use mtt::{ANY_QPN, Access, Limits, List, Mtt, Piece, Pieces, Place, Question, UmrRequest};

const MILLION: u32 = 1_000_000;

fn mtt() -> (Mtt, u32) {
    let mut mtt = Mtt::new(Limits { keys: 1 << 20, pds: 16, entries: 66 << 20 });
    let pd = mtt.alloc_pd(0).expect("the first domain");
    (mtt, pd)
}

/// A region of `pages` pages from 0 on.
fn region(pd: u32, pages: u32) -> Mkc<[u8; 0x40]> {
    let mut mkc = Mkc([0; 0x40]);
    mkc.set_access_mode_1_0(1);
    mkc.set_pd(pd);
    mkc.set_qpn(ANY_QPN);
    mkc.set_umr_en(true);
    mkc.set_lr(true);
    mkc.set_rw(true);
    mkc.set_log_page_size(12);
    mkc.set_len(u64::from(pages) << 12);
    mkc.set_translations_octword_size(pages.div_ceil(2));
    mkc
}

/// Entries for scattered pages.
fn list(pages: u32) -> Vec<u8> {
    (0..u64::from(pages)).flat_map(|page| ((page * 2 + 5) << 12 | 3).to_be_bytes()).collect()
}

fn create(mtt: &mut Mtt, mkc: &Mkc<[u8; 0x40]>, list: &[u8]) -> u32 {
    let octwords = list.len() as u32 / 16;
    // As in the mailboxes of a command: 0x110 bytes come before the list.
    let (first, rest) = list.split_at(list.len().min(256));
    let segments = std::iter::once(first).chain(rest.chunks(512));
    mtt.create(mkc, List { segments, octwords, pg_access: true }, 0).expect("a key")
}

fn ask(index: u32, addr: u64, len: u64, pd: u32) -> Question {
    let key = mtt::key_of(index, 0);
    Question { key, addr, len, access: Access::RemoteWrite, pd: Some(pd), qpn: Some(0x123) }
}

fn hot_key(c: &mut Criterion) {
    let mut group = c.benchmark_group("translate 64 bytes to one piece, the same key again");
    for live in [1, 1000, MILLION] {
        let (mut mtt, pd) = mtt();
        let (mkc, list) = (region(pd, 16), list(16));
        let index = (0..live).map(|_| create(&mut mtt, &mkc, &list)).nth(live as usize / 2);
        let question = ask(index.expect("a key"), 0x5040, 64, pd);
        let mut pieces = Pieces::new();
        group.bench_function(format!("{live} live"), |b| {
            b.iter(|| {
                mtt.translate(black_box(&question), &mut pieces).expect("an answer");
                black_box(&pieces);
            });
        });
    }
}

/// Numbers that lead from each index to another and through all of them (Sattolo's shuffle).
fn cycle(length: u32) -> Vec<u32> {
    let mut next: Vec<u32> = (0..length).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for at in (1..length as usize).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        next.swap(at, (state % at as u64) as usize);
    }
    next
}

fn random_keys(c: &mut Criterion) {
    let mut group = c.benchmark_group("keys at random over a million, each found through the last");
    let next = cycle(MILLION);

    // The DMA address that a key leads to says which key is next.
    let (mut mtt, pd) = mtt();
    let first = create(&mut mtt, &region(pd, 0), &[]);
    for &next in &next {
        let entry = (u64::from(first + 1 + next) << 12 | 3).to_be_bytes();
        create(&mut mtt, &region(pd, 2), &[entry, entry].concat());
    }
    let mut pieces = Pieces::new();
    let mut at = first + 1;
    group.bench_function("translate", |b| {
        b.iter(|| {
            mtt.translate(&ask(at, 0x40, 64, pd), &mut pieces).expect("an answer");
            if let Some(&Piece { place: Place::Memory(addr), .. }) = pieces.first() {
                at = (addr >> 12) as u32;
            }
            at
        });
    });
    drop(mtt);

    // Two tables of the same size: 64 bytes for a key, 32 for the allocation of two entries.
    let keys: Vec<[u64; 8]> = next.iter().map(|&next| [next.into(); 8]).collect();
    let entries: Vec<[u64; 4]> = cycle(MILLION).iter().map(|&next| [next.into(); 4]).collect();
    let mut at = 0;
    group.bench_function("two dependent reads", |b| {
        b.iter(|| {
            at = entries[keys[at][3] as usize][1] as usize;
            at
        });
    });
}

fn create_and_destroy(c: &mut Criterion) {
    let mut group = c.benchmark_group("a key of 512 entries");
    let (mut mtt, pd) = mtt();
    let (mkc, list) = (region(pd, 512), list(512));
    group.throughput(Throughput::Elements(1));
    group.bench_function("create and destroy", |b| {
        b.iter(|| {
            let index = create(&mut mtt, black_box(&mkc), black_box(&list));
            mtt.destroy(index).expect("the key");
        });
    });
    let mut copy = vec![0u8; 0x40 + 4096];
    group.bench_function("memcpy of as many bytes", |b| {
        b.iter(|| {
            copy[..0x40].copy_from_slice(black_box(&mkc.0));
            copy[0x40..].copy_from_slice(black_box(&list));
            black_box(&mut copy);
        });
    });
}

fn many_pages(c: &mut Criterion) {
    let mut group = c.benchmark_group("1 MiB in 256 scattered pages");
    let (mut mtt, pd) = mtt();
    let index = create(&mut mtt, &region(pd, 257), &list(258));
    let question = ask(index, 0x40, 1 << 20, pd);
    let mut pieces = Pieces::new();
    group.throughput(Throughput::Elements(257));
    group.bench_function("translate", |b| {
        b.iter(|| {
            mtt.translate(black_box(&question), &mut pieces).expect("an answer");
            black_box(&pieces);
        });
    });
}

fn umr(c: &mut Criterion) {
    let mut group = c.benchmark_group("UMR");
    let (mut mtt, pd) = mtt();
    let pages = 1 << 17;
    let mkc = region(pd, pages);
    let index = create(&mut mtt, &mkc, &[]);
    let list = list(pages);
    let request = UmrRequest {
        key: mtt::key_of(index, 0),
        pd: None,
        qpn: 1,
        user: false,
        flags: umr_flags::CHECK_FREE,
        mask: mkey_mask::LEN | mkey_mask::START_ADDR | mkey_mask::PD,
        mkc: Mkc(&mkc.0),
        octwords: pages / 2,
        offset: 0,
    };
    group.throughput(Throughput::Bytes(list.len() as u64));
    group.bench_function("1 MiB of entries, again", |b| {
        b.iter(|| mtt.umr(&request, black_box(&list)).expect("a change"));
    });
    group.bench_function("1 MiB of entries, first time", |b| {
        b.iter_batched(
            || {
                let (mut mtt, pd) = self::mtt();
                create(&mut mtt, &region(pd, pages), &[]);
                mtt
            },
            |mut mtt| {
                mtt.umr(&request, black_box(&list)).expect("a change");
                mtt
            },
            BatchSize::PerIteration,
        );
    });
    group.throughput(Throughput::Elements(1));
    let small = UmrRequest { octwords: 4, ..request };
    group.bench_function("eight entries", |b| {
        b.iter(|| mtt.umr(black_box(&small), black_box(&list[..64])).expect("a change"));
    });
}

fn config() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(30)
        .without_plots()
}

criterion_group! {
    name = benches;
    config = config();
    targets = hot_key, random_keys, create_and_destroy, many_pages, umr
}
criterion_main!(benches);

//! 64 Mi entries in one key, 256 GiB of 4 KiB pages, cost 8 bytes each and little else, and are
//! given back. Alone in its file: it watches the whole process.
#![allow(unsafe_code, reason = "asks the C library to give back what it keeps for itself")]

mod common;

use common::*;
use layouts::{Mkc, umr_flags};
use mtt::{Limits, Mtt, UmrRequest, index_of};

const ENTRIES: u64 = 64 << 20;
/// As much as the stock driver puts into one request.
const CHUNK: u64 = (1 << 20) / 8 - 8;

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

fn dma(entry: u64) -> u64 {
    (entry ^ 0x155_5555) << 12
}

#[test]
fn sixty_four_million_entries() {
    let mut mtt = Mtt::new(Limits { keys: 10, pds: 1, entries: ENTRIES + ENTRIES / 256 });
    let pd = mtt.alloc_pd(0).unwrap();
    let mut bytes = Vec::with_capacity(CHUNK as usize * 8);
    let before = resident();

    // The key reserves four times what it will hold.
    let mut mkc = region(MTT, pd, 0, ENTRIES << 12, (ENTRIES * 2) as u32);
    mkc.set_free(true);
    let key = create(&mut mtt, &mkc, &[]);
    mkc.set_free(false);
    assert!(resident() - before < 1 << 20, "what is only reserved takes memory");
    let mut entry = 0;
    while entry < ENTRIES {
        let count = CHUNK.min(ENTRIES - entry);
        bytes.clear();
        bytes.extend((entry..entry + count).flat_map(|entry| page(dma(entry), true, true)));
        let request = UmrRequest {
            flags: umr_flags::TRANSLATION_OFFSET_EN,
            octwords: (count / 2) as u32,
            offset: entry / 2,
            mkc: Mkc(&mkc.0),
            ..change(key, if entry + count == ENTRIES { ENABLE } else { 0 }, &mkc)
        };
        mtt.umr(&request, &bytes).unwrap();
        entry += count;
    }
    let info = mtt.info(index_of(key)).unwrap();
    assert_eq!((info.filled, info.free), (ENTRIES, false));
    for entry in (0..ENTRIES).step_by(9973).chain([ENTRIES - 1]) {
        let answer = read(&mtt, key, (entry << 12) + 7, 4089).unwrap();
        assert_eq!(answer, [at(dma(entry) + 7, 4089)]);
    }
    let per_entry = (resident() - before) as f64 / ENTRIES as f64;
    println!("{per_entry:.3} bytes for each of {ENTRIES} entries");
    assert!(per_entry < 8.2, "{per_entry} bytes an entry");

    mtt.destroy(index_of(key)).unwrap();
    assert_eq!(mtt.filled(), 0);
    // What is free is the allocator's, and it may keep it; the program asks for it when it matters.
    // SAFETY: has no preconditions.
    unsafe { libc::malloc_trim(0) };
    let left = resident().saturating_sub(before);
    println!("{left} bytes still resident after the key was destroyed");
    assert!(left < 16 << 20, "{left} bytes are not given back");
}

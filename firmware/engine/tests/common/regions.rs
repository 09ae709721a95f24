//! Keys of pages: regions, and windows over them.

use layouts::*;

use super::Bench;

/// A way to change a new key's context.
pub type Fill<'a> = &'a dyn Fn(&mut Mkc<&mut [u8]>);

/// CREATE_MKEY with a list of whole octwords.
pub fn key_with(bench: &mut Bench, list: &[u8], fill: Fill) -> u32 {
    let mut list = list.to_vec();
    list.resize(list.len().next_multiple_of(64), 0);
    let octwords = list.len() as u32 / 16;
    let out = bench.f.ok(Opcode::CREATE_MKEY, 0, 0x110 + list.len(), 0x10, |input| {
        input[0x110..].copy_from_slice(&list);
        let mut input = CreateMkeyIn(input);
        input.set_translations_octword_actual_size(octwords);
        let mut mkc = input.memory_key_mkey_entry_mut();
        mkc.set_translations_octword_size(octwords);
        mkc.set_qpn(0xff_ffff);
        mkc.set_umr_en(true);
        for set in [Mkc::set_lr, Mkc::set_lw, Mkc::set_rr, Mkc::set_rw, Mkc::set_a] {
            set(&mut mkc, true);
        }
        fill(&mut mkc);
    });
    CreateMkeyOut(&out).mkey_index() << 8
}

/// A key with all rights for `len` bytes from `start` of these pages.
pub fn region(bench: &mut Bench, pd: u32, start: u64, len: u64, pages: &[u64], fill: Fill) -> u32 {
    let list: Vec<u8> = pages.iter().flat_map(|page| page.to_be_bytes()).collect();
    key_with(bench, &list, &|mkc| {
        mkc.set_access_mode_1_0(1);
        mkc.set_log_page_size(12);
        mkc.set_pd(pd);
        mkc.set_start_addr(start);
        mkc.set_len(len);
        fill(mkc);
    })
}

/// An entry of a list of runs.
pub fn run(len: u32, key: u32, addr: u64) -> [u8; 16] {
    let mut entry = KlmEntry([0; 16]);
    entry.set_bcount(len);
    entry.set_key(key);
    entry.set_va(addr);
    entry.0
}

/// A key that leads to the same addresses of another, which a peer may invalidate.
pub fn window(bench: &mut Bench, under: u32, start: u64, len: u32, fill: Fill) -> u32 {
    let pd = bench.pd;
    key_with(bench, &run(len, under, start), &|mkc| {
        mkc.set_access_mode_1_0(2);
        mkc.set_pd(pd);
        mkc.set_en_rinval(true);
        mkc.set_start_addr(start);
        mkc.set_len(len.into());
        fill(mkc);
    })
}

pub fn destroy(bench: &mut Bench, key: u32) {
    bench.f.ok(Opcode::DESTROY_MKEY, 0, 0x10, 0x10, |i| DestroyMkeyIn(i).set_mkey_index(key >> 8));
}

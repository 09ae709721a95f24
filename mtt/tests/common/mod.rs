//! What the tests build keys and questions from.
#![allow(dead_code, reason = "each test file uses a part")]

use layouts::{
    KlmEntry, Mkc, MttEntry, STRIDE_BLOCK_OP, StrideBlock, StrideEntry, mkey_mask, umr_flags,
};
use mtt::{
    ANY_QPN, Access, Limits, List, Mtt, Piece, Pieces, Place, Question, Refusal, UmrRequest,
};

pub const MTT: u8 = 1;
pub const KLM: u8 = 2;
pub const KSM: u8 = 3;

/// A context of 64 bytes.
pub type Context = Mkc<[u8; 0x40]>;

pub fn mtt() -> Mtt {
    Mtt::new(Limits { keys: 1000, pds: 100, entries: 1 << 20 })
}

/// A key of `mode` that may be changed and, once it is not free, accessed in all ways.
pub fn context(mode: u8, pd: u32) -> Context {
    let mut mkc = Mkc([0; 0x40]);
    mkc.set_access_mode_1_0(mode & 3);
    mkc.set_access_mode_4_2(mode >> 2);
    mkc.set_pd(pd);
    mkc.set_qpn(ANY_QPN);
    mkc.set_umr_en(true);
    mkc.set_a(true);
    mkc.set_rw(true);
    mkc.set_rr(true);
    mkc.set_lw(true);
    mkc.set_lr(true);
    mkc.set_log_page_size(12);
    mkc
}

/// The same, covering `len` bytes from `start`, with room for `octwords`.
pub fn region(mode: u8, pd: u32, start: u64, len: u64, octwords: u32) -> Context {
    let mut mkc = context(mode, pd);
    mkc.set_start_addr(start);
    mkc.set_len(len);
    mkc.set_translations_octword_size(octwords);
    mkc
}

/// An MTT entry.
pub fn page(addr: u64, read: bool, write: bool) -> [u8; 8] {
    let mut entry = MttEntry(addr.to_be_bytes());
    entry.set_rd_en(read);
    entry.set_wr_en(write);
    entry.0
}

/// Entries of pages that may be read and written.
pub fn pages(addrs: &[u64]) -> Vec<u8> {
    addrs.iter().flat_map(|&addr| page(addr, true, true)).collect()
}

pub fn klm(bcount: u32, key: u32, va: u64) -> [u8; 16] {
    let mut entry = KlmEntry([0; 16]);
    entry.set_bcount(bcount);
    entry.set_key(key);
    entry.set_va(va);
    entry.0
}

/// A strided block.
pub fn stride_block(bcount_per_cycle: u32, repeat_count: u32, num_entries: u16) -> [u8; 16] {
    let mut block = StrideBlock([0; 16]);
    block.set_bcount_per_cycle(bcount_per_cycle);
    block.set_op(STRIDE_BLOCK_OP);
    block.set_repeat_count(repeat_count);
    block.set_num_entries(num_entries);
    block.0
}

/// An entry of a strided block.
pub fn stride(bcount: u16, stride: u16, key: u32, va: u64) -> [u8; 16] {
    let mut entry = StrideEntry([0; 16]);
    entry.set_stride(stride);
    entry.set_bcount(bcount);
    entry.set_key(key);
    entry.set_va(va);
    entry.0
}

/// Pads to whole units of 64 bytes, as drivers do.
pub fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    bytes
}

/// Makes a key with a list and returns its full key.
pub fn create(mtt: &mut Mtt, mkc: &Context, list: &[u8]) -> u32 {
    let list = List { segments: [list], octwords: list.len() as u32 / 16, pg_access: true };
    mtt::key_of(mtt.create(mkc, list, 0).expect("a key that can be made"), mkc.mkey_7_0())
}

pub fn question(key: u32, addr: u64, len: u64, access: Access) -> Question {
    Question { key, addr, len, access, pd: None, qpn: None }
}

pub fn ask(mtt: &Mtt, question: &Question) -> Result<Vec<Piece>, Refusal> {
    let mut pieces = Pieces::new();
    mtt.translate(question, &mut pieces).map(|()| pieces.to_vec())
}

/// What a local read reaches.
pub fn read(mtt: &Mtt, key: u32, addr: u64, len: u64) -> Result<Vec<Piece>, Refusal> {
    ask(mtt, &question(key, addr, len, Access::LocalRead))
}

/// The reason for which an access is refused.
pub fn refused(mtt: &Mtt, question: &Question) -> &'static str {
    ask(mtt, question).expect_err("a refusal").reason()
}

pub fn at(addr: u64, len: u64) -> Piece {
    Piece { place: Place::Memory(addr), len }
}

/// A request of the driver's own queue to change fields.
pub fn change(key: u32, mask: u64, mkc: &Context) -> UmrRequest<'_> {
    UmrRequest {
        key,
        pd: None,
        qpn: 1,
        user: false,
        flags: umr_flags::INLINE,
        mask,
        mkc: Mkc(&mkc.0),
        octwords: 0,
        offset: 0,
    }
}

/// What the stock driver names when it enables a key.
pub const ENABLE: u64 = mkey_mask::FREE
    | mkey_mask::KEY
    | mkey_mask::PD
    | mkey_mask::LR
    | mkey_mask::LW
    | mkey_mask::RR
    | mkey_mask::RW
    | mkey_mask::A
    | mkey_mask::LEN
    | mkey_mask::START_ADDR
    | mkey_mask::PAGE_SIZE
    | mkey_mask::PAGE_SIZE_5;

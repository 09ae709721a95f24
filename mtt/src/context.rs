//! A key's context, decoded: what CREATE_MKEY sets, QUERY_MKEY shows and a UMR changes field by
//! field.

use layouts::{Mkc, mkey_mask};
use thiserror::Error;

use crate::ANY_QPN;

/// How a key's addresses become DMA addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They are DMA addresses.
    Pa,
    /// A table of pages.
    Mtt,
    /// A list of runs of other keys' bytes.
    Klm,
    /// A table of equal pages of other keys' bytes.
    Ksm,
}

impl Mode {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pa => "PA",
            Self::Mtt => "MTT",
            Self::Klm => "KLM",
            Self::Ksm => "KSM",
        }
    }
}

/// A context that no key can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadContext {
    /// Device memory (5), crossing (6) and the like.
    #[error("access mode {0} is not one of PA, MTT, KLM and KSM")]
    Mode(u8),
    /// Signatures and encryption are not there.
    #[error("the key has signature or encryption fields (bsf)")]
    Signature,
    /// An MTT key that can be accessed needs pages of at least [`MIN_LOG_PAGE_SIZE`].
    #[error("page size 2^{log_page_size}, must be at least 2^{MIN_LOG_PAGE_SIZE}")]
    PageSize {
        /// What it would be.
        log_page_size: u8,
    },
    /// The sixth bit of the page size would change, but only the lower five are named as changing.
    #[error("page size 2^{have} to 2^{want} without naming the sixth bit (mkey_mask bit 42)")]
    PageSizeBit {
        /// The page size of the key.
        have: u8,
        /// What was asked for.
        want: u8,
    },
}

/// The smallest page of an MTT key, as a power of two; the drivers' floor too. The low bits of an
/// entry are its rights.
pub const MIN_LOG_PAGE_SIZE: u8 = 12;

/// The bits of a context that are on or off.
pub(crate) mod flag {
    pub const FREE: u16 = 1 << 0;
    pub const UMR_EN: u16 = 1 << 1;
    pub const A: u16 = 1 << 2;
    pub const RW: u16 = 1 << 3;
    pub const RR: u16 = 1 << 4;
    pub const LW: u16 = 1 << 5;
    pub const LR: u16 = 1 << 6;
    pub const SMALL_FENCE: u16 = 1 << 7;
    pub const RELAXED_ORDERING_WRITE: u16 = 1 << 8;
    pub const RELAXED_ORDERING_READ: u16 = 1 << 9;
    pub const LENGTH64: u16 = 1 << 10;
    pub const SYNC_UMR: u16 = 1 << 11;
    pub const EN_RINVAL: u16 = 1 << 12;
}

/// Calls the given macro with every flag and its field's accessors in the layout.
macro_rules! for_each_flag {
    ($each:ident!($($arg:tt)*)) => {
        $each!($($arg)*;
            FREE free set_free,
            UMR_EN umr_en set_umr_en,
            A a set_a,
            RW rw set_rw,
            RR rr set_rr,
            LW lw set_lw,
            LR lr set_lr,
            SMALL_FENCE small_fence_on_rdma_read_response set_small_fence_on_rdma_read_response,
            RELAXED_ORDERING_WRITE relaxed_ordering_write set_relaxed_ordering_write,
            RELAXED_ORDERING_READ relaxed_ordering_read set_relaxed_ordering_read,
            LENGTH64 length64 set_length64,
            SYNC_UMR sync_umr set_sync_umr,
            EN_RINVAL en_rinval set_en_rinval)
    };
}

/// Which bit of a UMR's mask lets which flags change.
const MASK_FLAGS: &[(u64, u16)] = &[
    (mkey_mask::LEN, flag::LENGTH64),
    (mkey_mask::EN_RINVAL, flag::EN_RINVAL),
    (mkey_mask::LR, flag::LR),
    (mkey_mask::LW, flag::LW),
    (mkey_mask::RR, flag::RR),
    (mkey_mask::RW, flag::RW),
    (mkey_mask::A, flag::A),
    (mkey_mask::SMALL_FENCE, flag::SMALL_FENCE),
    (mkey_mask::RELAXED_ORDERING_WRITE, flag::RELAXED_ORDERING_WRITE),
    (mkey_mask::RELAXED_ORDERING_READ, flag::RELAXED_ORDERING_READ),
    (mkey_mask::FREE, flag::FREE),
];

/// The mask bits that name no flag of ours.
const MASK_OTHERS: u64 = mkey_mask::PAGE_SIZE
    | mkey_mask::PAGE_SIZE_5
    | mkey_mask::START_ADDR
    | mkey_mask::PD
    | mkey_mask::EN_SIGERR
    | mkey_mask::BSF_EN
    | mkey_mask::KEY
    | mkey_mask::QPN;

/// A key's context. Small and in this order because a translation reads nearly all of it: with the
/// entries' address it fills 48 bytes up to `log_page_size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Context {
    pub start: u64,
    pub len: u64,
    pub pd: u32,
    pub qpn: u32,
    pub flags: u16,
    pub mode: Mode,
    pub variant: u8,
    pub log_page_size: u8,
    pub translation_mode: u8,
    /// Owner of the command that made it.
    pub uid: u16,
    /// Room for translations, in octwords.
    pub octwords: u32,
}

impl Context {
    /// What CREATE_MKEY describes.
    pub fn decode<B: AsRef<[u8]>>(mkc: &Mkc<B>, uid: u16) -> Result<Self, BadContext> {
        let mode = match mkc.access_mode_4_2() << 2 | mkc.access_mode_1_0() {
            0 => Mode::Pa,
            1 => Mode::Mtt,
            2 => Mode::Klm,
            3 => Mode::Ksm,
            other => return Err(BadContext::Mode(other)),
        };
        if mkc.bsf_en() || mkc.expected_sigerr_count() || mkc.bsf_octword_size() != 0 {
            return Err(BadContext::Signature);
        }
        Self {
            start: mkc.start_addr(),
            len: mkc.len(),
            pd: mkc.pd(),
            qpn: mkc.qpn(),
            flags: flags_of(mkc),
            mode,
            variant: mkc.mkey_7_0(),
            log_page_size: mkc.log_page_size(),
            translation_mode: mkc.ma_translation_mode(),
            uid,
            octwords: mkc.translations_octword_size(),
        }
        .checked()
    }

    /// What it is after a UMR that names the fields in `mask`.
    pub fn changed<B: AsRef<[u8]>>(self, mask: u64, mkc: &Mkc<B>) -> Result<Self, BadContext> {
        let mut new = self;
        let named = |bit| mask & bit != 0;
        for &(bit, flags) in MASK_FLAGS {
            if named(bit) {
                new.flags = new.flags & !flags | flags_of(mkc) & flags;
            }
        }
        if named(mkey_mask::LEN) {
            new.len = mkc.len();
        }
        if named(mkey_mask::START_ADDR) {
            new.start = mkc.start_addr();
        }
        if named(mkey_mask::PD) {
            new.pd = mkc.pd();
        }
        if named(mkey_mask::KEY) {
            new.variant = mkc.mkey_7_0();
        }
        if named(mkey_mask::QPN) {
            new.qpn = mkc.qpn();
        }
        if named(mkey_mask::EN_SIGERR) && mkc.expected_sigerr_count()
            || named(mkey_mask::BSF_EN) && mkc.bsf_en()
        {
            return Err(BadContext::Signature);
        }
        let (have, want) = (self.log_page_size, mkc.log_page_size());
        let lower = if named(mkey_mask::PAGE_SIZE) { !SIXTH_BIT } else { 0 };
        let sixth = if named(mkey_mask::PAGE_SIZE_5) { SIXTH_BIT } else { 0 };
        if lower != 0 && sixth == 0 && (have ^ want) & SIXTH_BIT != 0 {
            return Err(BadContext::PageSizeBit { have, want });
        }
        new.log_page_size = have & !(lower | sixth) | want & (lower | sixth);
        new.checked()
    }

    fn checked(self) -> Result<Self, BadContext> {
        let log_page_size = self.log_page_size;
        // A free key's page size may come later.
        if self.mode == Mode::Mtt && !self.is(flag::FREE) && log_page_size < MIN_LOG_PAGE_SIZE {
            return Err(BadContext::PageSize { log_page_size });
        }
        Ok(self)
    }

    /// Writes what QUERY_MKEY shows.
    pub fn encode<B: AsMut<[u8]>>(&self, mkc: &mut Mkc<B>) {
        macro_rules! set {
            ($self:ident, $mkc:ident; $($flag:ident $get:ident $set:ident),*) => {
                $( $mkc.$set($self.is(flag::$flag)); )*
            };
        }
        for_each_flag!(set!(self, mkc));
        mkc.set_access_mode_1_0(self.mode as u8 & 3);
        mkc.set_access_mode_4_2(self.mode as u8 >> 2);
        mkc.set_ma_translation_mode(self.translation_mode);
        mkc.set_qpn(self.qpn);
        mkc.set_mkey_7_0(self.variant);
        mkc.set_pd(self.pd);
        mkc.set_start_addr(self.start);
        mkc.set_len(self.len);
        mkc.set_translations_octword_size(self.octwords);
        mkc.set_log_page_size(self.log_page_size);
    }

    #[inline]
    pub fn is(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    /// Octwords that translations may take. The driver writes them 64 bytes at a time, past the end
    /// of what it reserved, so a card must reserve whole units too.
    pub fn capacity(&self) -> u64 {
        match self.mode {
            Mode::Pa => 0,
            _ => u64::from(self.octwords).next_multiple_of(4),
        }
    }

    /// Whether only one queue pair may use it.
    #[inline]
    pub fn is_bound(&self) -> bool {
        self.qpn != ANY_QPN
    }
}

const SIXTH_BIT: u8 = 1 << 5;

/// The bits of a UMR's mask that name no field known here.
pub(crate) fn unknown_fields(mask: u64) -> u64 {
    MASK_FLAGS.iter().fold(mask & !MASK_OTHERS, |mask, &(bit, _)| mask & !bit)
}

fn flags_of<B: AsRef<[u8]>>(mkc: &Mkc<B>) -> u16 {
    macro_rules! get {
        ($mkc:ident; $($flag:ident $get:ident $set:ident),*) => {
            0 $( | if $mkc.$get() { flag::$flag } else { 0 } )*
        };
    }
    for_each_flag!(get!(mkc))
}

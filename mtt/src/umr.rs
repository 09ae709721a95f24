//! Edits of keys by work requests (UMR): fields of the context that the request's mask names, and
//! translations from an offset on.
//!
//! An edit is judged wholly before anything changes. Its translations may come in pieces
//! ([`Mtt::umr_check`], [`Mtt::umr_write`] for each, [`Mtt::umr_commit`]), so that a megabyte of
//! them needs no second copy; what the pieces said stays written when a later one can't be had, as
//! the context, which tells whether they are used, changes last.

use layouts::{Mkc, mkey_mask, umr_flags};
use thiserror::Error;

use crate::context::{Context, flag, unknown_fields};
use crate::keys::Key;
use crate::{BadContext, Mode, Mtt, index_of, variant_of};

/// The fields that decide, together with the translations, what memory a key leads to.
const WHERE_TO: u64 =
    mkey_mask::LEN | mkey_mask::START_ADDR | mkey_mask::PAGE_SIZE | mkey_mask::PAGE_SIZE_5;

/// A UMR work request without its translations.
#[derive(Clone, Copy)]
pub struct UmrRequest<'a> {
    /// The full 32-bit key to change (`umr_mkey`).
    pub key: u32,
    /// Protection domain of the queue that asks; `None` for the driver's own queue (service type
    /// REG_UMR), which may change every key, and its domain too.
    pub pd: Option<u32>,
    /// The queue pair that asks.
    pub qpn: u32,
    /// It is a user's, who must not choose what memory a key leads to.
    pub user: bool,
    /// [`umr_flags`]; `INLINE` says nothing here.
    pub flags: u8,
    /// [`mkey_mask`]: the fields that change.
    pub mask: u64,
    /// Their values.
    pub mkc: Mkc<&'a [u8]>,
    /// How many octwords of translations there are.
    pub octwords: u32,
    /// The octword that they begin at: `xlt_offset` with its upper part as it stands.
    pub offset: u64,
}

/// Why a UMR fails; nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum UmrError {
    /// No key has this index.
    #[error("no key {0:#x}")]
    UnknownKey(u32),
    /// The key's variant byte is another. (A free key may be named by the key that it becomes.)
    #[error("key {key:#x} has variant {variant:#04x} now")]
    WrongVariant {
        /// That was named.
        key: u32,
        /// The variant that it has.
        variant: u8,
    },
    /// The key was made without `umr_en`.
    #[error("key {0:#x} can't be changed by UMR")]
    Disabled(u32),
    /// The key belongs to another protection domain, or would afterwards.
    #[error(
        "key {key:#x} belongs or would belong to protection domain {pd:#x}, not to the asker's"
    )]
    PdMismatch {
        /// That was named.
        key: u32,
        /// Of the key.
        pd: u32,
    },
    /// A user may not change where the key leads, only that of keys that lead to other keys.
    #[error("a user can't change where key {0:#x} leads")]
    NotForUsers(u32),
    /// The key is free and must not be.
    #[error("key {0:#x} is free")]
    Free(u32),
    /// The key must be free.
    #[error("key {0:#x} is not free")]
    NotFree(u32),
    /// The key is bound to another queue pair than the one that asks.
    #[error("key {key:#x} is bound to queue pair {qpn:#x}")]
    QpMismatch {
        /// That was named.
        key: u32,
        /// What it is bound to.
        qpn: u32,
    },
    /// Both checks at once, or the length of a signature's fields where an offset could be.
    #[error("flags {0:#04x} contradict themselves or the request")]
    BadFlags(u8),
    /// The mask names fields that are not known here.
    #[error("mkey_mask bits {0:#x} are not known")]
    UnknownFields(u64),
    /// What the key would become is none that a key can be.
    #[error(transparent)]
    BadContext(#[from] BadContext),
    /// There is no such protection domain.
    #[error("no protection domain {0:#x}")]
    UnknownPd(u32),
    /// The translations would go past the room that the key reserved.
    #[error("{octwords} octwords at {offset}, room for {capacity}")]
    OutOfBounds {
        /// Where they begin.
        offset: u64,
        /// How many there are.
        octwords: u64,
        /// How many fit.
        capacity: u64,
    },
    /// The translations given are not as many as the request announces.
    #[error("{bytes} bytes of translations for {octwords} octwords")]
    WrongLength {
        /// Given.
        bytes: usize,
        /// Announced.
        octwords: u32,
    },
    /// As many translation entries are filled as may be.
    #[error("no room for the translations (at most {limit} entries in all)")]
    NoEntryLeft {
        /// The limit.
        limit: u64,
    },
}

impl UmrRequest<'_> {
    /// The first octword of the translations, if there are any.
    fn start(&self) -> u64 {
        let moved = self.flags & umr_flags::TRANSLATION_OFFSET_EN != 0 && self.octwords != 0;
        if moved { self.offset } else { 0 }
    }
}

impl Mtt {
    /// Carries out a request whose translations are all at hand.
    pub fn umr(&mut self, request: &UmrRequest, translations: &[u8]) -> Result<(), UmrError> {
        let &UmrRequest { octwords, .. } = request;
        let bytes = translations.len();
        let new = self.judge_umr(request)?;
        self.afford_umr(request, 0, octwords)?;
        if bytes as u64 != u64::from(octwords) * 16 {
            return Err(UmrError::WrongLength { bytes, octwords });
        }
        self.put(request, 0, translations)?;
        self.commit(request, new)
    }

    /// Whether a request may be carried out.
    pub fn umr_check(&self, request: &UmrRequest) -> Result<(), UmrError> {
        self.judge_umr(request)?;
        self.afford_umr(request, 0, request.octwords)
    }

    /// Writes some of a request's translations, whole octwords, `at` octwords after its first.
    pub fn umr_write(
        &mut self,
        request: &UmrRequest,
        at: u32,
        translations: &[u8],
    ) -> Result<(), UmrError> {
        // The device may have done other work since the last piece.
        self.judge_umr(request)?;
        let &UmrRequest { octwords, .. } = request;
        let bytes = translations.len();
        let fits = bytes as u64 / 16 + u64::from(at) <= u64::from(octwords);
        if !fits || !bytes.is_multiple_of(16) {
            return Err(UmrError::WrongLength { bytes, octwords });
        }
        self.afford_umr(request, at, (bytes / 16) as u32)?;
        self.put(request, at, translations)
    }

    /// Changes the context: the end of a request whose translations have been written.
    pub fn umr_commit(&mut self, request: &UmrRequest) -> Result<(), UmrError> {
        let new = self.judge_umr(request)?;
        self.commit(request, new)
    }

    /// The context that the key will have.
    fn judge_umr(&self, request: &UmrRequest) -> Result<Context, UmrError> {
        let &UmrRequest { key: name, pd, qpn, user, flags, mask, ref mkc, octwords, offset } =
            request;
        let key = self.keys.get(index_of(name)).ok_or(UmrError::UnknownKey(name))?;
        let context = &key.context;
        let free = context.is(flag::FREE);
        // Fast registration names the key by the variant that it is about to get.
        if context.variant != variant_of(name) && !(free && mask & mkey_mask::KEY != 0) {
            return Err(UmrError::WrongVariant { key: name, variant: context.variant });
        }
        if !context.is(flag::UMR_EN) {
            return Err(UmrError::Disabled(name));
        }
        let own = |pd_of_key| pd.is_none_or(|pd| pd == pd_of_key);
        if !own(context.pd) {
            return Err(UmrError::PdMismatch { key: name, pd: context.pd });
        }
        let leads_to_memory = matches!(context.mode, Mode::Pa | Mode::Mtt);
        if user && leads_to_memory && (octwords != 0 || mask & WHERE_TO != 0) {
            return Err(UmrError::NotForUsers(name));
        }
        let (check_free, check_not_free) =
            (flags & umr_flags::CHECK_FREE != 0, flags & umr_flags::CHECK_NOT_FREE != 0);
        if check_free && check_not_free {
            return Err(UmrError::BadFlags(flags));
        }
        if check_free && free {
            return Err(UmrError::Free(name));
        }
        if check_not_free && !free {
            return Err(UmrError::NotFree(name));
        }
        // Who invalidates a key locally sets this for keys that are bound to no queue pair too.
        let bound_elsewhere = context.is_bound() && context.qpn != qpn;
        if flags & umr_flags::CHECK_QPN != 0 && bound_elsewhere {
            return Err(UmrError::QpMismatch { key: name, qpn: context.qpn });
        }
        // Without an offset the field says how long the signature's part is, and there is none.
        if flags & umr_flags::TRANSLATION_OFFSET_EN == 0 && offset != 0 {
            return Err(UmrError::BadFlags(flags));
        }
        let unknown = unknown_fields(mask);
        if unknown != 0 {
            return Err(UmrError::UnknownFields(unknown));
        }
        let new = context.changed(mask, mkc)?;
        if !own(new.pd) {
            return Err(UmrError::PdMismatch { key: name, pd: new.pd });
        }
        if self.pds.get(new.pd).is_none() {
            return Err(UmrError::UnknownPd(new.pd));
        }
        let (from, octwords) = (request.start(), u64::from(octwords));
        let capacity = context.capacity();
        match from.checked_add(octwords) {
            Some(to) if to <= capacity => Ok(new),
            _ => Err(UmrError::OutOfBounds { offset: from, octwords, capacity }),
        }
    }

    /// Whether there is room for some of the translations of a request that is in bounds.
    fn afford_umr(&self, request: &UmrRequest, at: u32, octwords: u32) -> Result<(), UmrError> {
        let name = request.key;
        let Key { store, .. } = self.keys.get(index_of(name)).ok_or(UmrError::UnknownKey(name))?;
        let from = request.start() + u64::from(at);
        let cost = store.cost_with(from * 2, (from + u64::from(octwords)) * 2);
        if !self.affords(store.cost(), cost) {
            return Err(UmrError::NoEntryLeft { limit: self.limits.entries });
        }
        Ok(())
    }

    fn put(&mut self, request: &UmrRequest, at: u32, translations: &[u8]) -> Result<(), UmrError> {
        let Key { store, .. } =
            self.keys.get_mut(index_of(request.key)).ok_or(UmrError::UnknownKey(request.key))?;
        let old = store.cost();
        store.write((request.start() + u64::from(at)) * 2, translations);
        self.filled = self.filled - old + store.cost();
        Ok(())
    }

    fn commit(&mut self, request: &UmrRequest, new: Context) -> Result<(), UmrError> {
        let Key { context, .. } =
            self.keys.get_mut(index_of(request.key)).ok_or(UmrError::UnknownKey(request.key))?;
        if new.pd != context.pd {
            if !self.pds.hold(new.pd) {
                return Err(UmrError::UnknownPd(new.pd));
            }
            self.pds.release(context.pd);
        }
        self.live += usize::from(!new.is(flag::FREE));
        self.live -= usize::from(!context.is(flag::FREE));
        *context = new;
        Ok(())
    }
}

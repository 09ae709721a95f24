//! Keys come into being, are shown, invalidated and destroyed.

use dma::{RemoveError, TableFull};
use layouts::{Mkc, MttEntry};
use thiserror::Error;

use crate::context::{Context, flag};
use crate::store::Store;
use crate::{Access, BadContext, Cause, Mode, Mtt, index_of, key_of, variant_of};

/// A key: what a translation looks at first, within 48 bytes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Key {
    pub store: Store,
    pub context: Context,
}

// One slot of the table, with its count of references, is 64 bytes.
const _: () = assert!(size_of::<Key>() == 56 && size_of::<Option<Key>>() == 56);

/// Why CREATE_MKEY fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CreateError {
    /// The context is none that a key can have.
    #[error(transparent)]
    BadContext(#[from] BadContext),
    /// There is no such protection domain.
    #[error("no protection domain {0:#x}")]
    UnknownPd(u32),
    /// The list of translations is longer than the room that the key reserves for it.
    #[error("{octwords} octwords of translations, room for {capacity}")]
    ListTooLong {
        /// Octwords in the list.
        octwords: u32,
        /// Octwords reserved.
        capacity: u32,
    },
    /// The input is shorter than the list that it announces.
    #[error("the input ends within its list of {octwords} octwords of translations")]
    ListTooShort {
        /// Octwords announced.
        octwords: u32,
    },
    /// As many keys exist as may.
    #[error(transparent)]
    NoKeyLeft(#[from] TableFull),
    /// As many translation entries are filled as may be.
    #[error("no room for the translations (at most {limit} entries in all)")]
    NoEntryLeft {
        /// The limit.
        limit: u64,
    },
}

/// There is no key with this index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no key has index {0:#x}")]
pub struct UnknownKey(pub u32);

/// The translations that come with CREATE_MKEY.
#[derive(Debug, Clone, Copy)]
pub struct List<I> {
    /// The bytes as they sit in the mailbox, in runs of whole entries.
    pub segments: I,
    /// How many octwords of them count (`translations_octword_actual_size`).
    pub octwords: u32,
    /// Entries of an MTT say what of their page is there and permitted; else all of it is.
    pub pg_access: bool,
}

impl List<[&[u8]; 0]> {
    /// No translations.
    pub const NONE: Self = Self { segments: [], octwords: 0, pg_access: false };
}

/// What a key looks like from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyInfo {
    /// The full 32-bit key.
    pub key: u32,
    /// It can't be used until a UMR enables it.
    pub free: bool,
    /// How it translates.
    pub mode: Mode,
    /// Its protection domain.
    pub pd: u32,
    /// The only queue pair that may use it, or [`crate::ANY_QPN`].
    pub qpn: u32,
    /// First address in its address space.
    pub start: u64,
    /// Its length in bytes, unless `length64`.
    pub len: u64,
    /// The length is 2^64.
    pub length64: bool,
    /// Page size as a power of two.
    pub log_page_size: u8,
    /// How many 8-byte entries it may hold.
    pub capacity: u64,
    /// How many of them are not zero.
    pub filled: u64,
    /// The user context that made it.
    pub uid: u16,
    flags: u16,
}

impl KeyInfo {
    /// Whether accesses of this kind are permitted.
    pub fn permits(&self, access: Access) -> bool {
        self.flags & access.flags() != 0
    }

    /// Whether a UMR may change it.
    pub fn umr_en(&self) -> bool {
        self.flags & flag::UMR_EN != 0
    }

    fn new(index: u32, Key { store, context }: &Key) -> Self {
        Self {
            key: key_of(index, context.variant),
            free: context.is(flag::FREE),
            mode: context.mode,
            pd: context.pd,
            qpn: context.qpn,
            start: context.start,
            len: context.len,
            length64: context.is(flag::LENGTH64),
            log_page_size: context.log_page_size,
            capacity: u64::from(context.octwords) * 2,
            filled: store.present(),
            uid: context.uid,
            flags: context.flags,
        }
    }
}

/// The rights of a page as the low bits of its entry.
#[inline]
pub(crate) fn page_rights(reads: bool, writes: bool) -> u64 {
    let mut entry = MttEntry([0; 8]);
    entry.set_rd_en(reads);
    entry.set_wr_en(writes);
    u64::from_be_bytes(entry.0)
}

impl Mtt {
    /// Makes a key for the user context `uid` and returns its index; the variant is the caller's.
    pub fn create<'a, B: AsRef<[u8]>>(
        &mut self,
        mkc: &Mkc<B>,
        list: List<impl IntoIterator<Item = &'a [u8]>>,
        uid: u16,
    ) -> Result<u32, CreateError> {
        let context = Context::decode(mkc, uid)?;
        let List { segments, octwords, pg_access } = list;
        if u64::from(octwords) > context.capacity() {
            let capacity = context.octwords;
            return Err(CreateError::ListTooLong { octwords, capacity });
        }
        if self.keys.len() >= self.limits.keys as usize {
            return Err(TableFull { limit: self.limits.keys }.into());
        }
        let words = u64::from(octwords) * 2;
        if !self.affords(0, Store::new().cost_with(0, words)) {
            return Err(CreateError::NoEntryLeft { limit: self.limits.entries });
        }
        // Without rights of their own, entries permit what the key permits.
        let rights = match context.mode {
            Mode::Mtt if !pg_access => page_rights(true, true),
            _ => 0,
        };
        let store = Store::from_segments(segments, words as usize, rights)
            .ok_or(CreateError::ListTooShort { octwords })?;
        if !self.pds.hold(context.pd) {
            return Err(CreateError::UnknownPd(context.pd));
        }
        let cost = store.cost();
        match self.keys.insert(Key { store, context }) {
            Ok(index) => {
                self.filled += cost;
                self.live += usize::from(!context.is(flag::FREE));
                Ok(index)
            }
            Err(full) => {
                self.pds.release(context.pd);
                Err(full.into())
            }
        }
    }

    /// Whether a store may come to cost `new` words instead of `old`.
    pub(crate) fn affords(&self, old: u64, new: u64) -> bool {
        (self.filled - old).saturating_add(new) <= self.limits.entries
    }

    /// Removes a key.
    pub fn destroy(&mut self, index: u32) -> Result<(), RemoveError> {
        let Key { store, context } = self.keys.remove(index)?;
        self.filled -= store.cost();
        self.live -= usize::from(!context.is(flag::FREE));
        self.pds.release(context.pd);
        Ok(())
    }

    /// Writes a key's context as QUERY_MKEY shows it.
    pub fn query<B: AsMut<[u8]>>(&self, index: u32, mkc: &mut Mkc<B>) -> Result<(), UnknownKey> {
        let key = self.keys.get(index).ok_or(UnknownKey(index))?;
        key.context.encode(mkc);
        Ok(())
    }

    /// What a key looks like.
    pub fn info(&self, index: u32) -> Option<KeyInfo> {
        self.keys.get(index).map(|key| KeyInfo::new(index, key))
    }

    /// All keys by rising index.
    pub fn infos(&self) -> impl Iterator<Item = KeyInfo> {
        self.keys.iter().map(|(index, key)| KeyInfo::new(index, key))
    }

    /// Makes a key free because a peer's send asks for it (remote invalidation). `pd` and `qpn`
    /// are those of the queue pair that received the request.
    pub fn invalidate(&mut self, key: u32, pd: u32, qpn: u32) -> Result<(), Cause> {
        let Key { context, .. } = self.keys.get_mut(index_of(key)).ok_or(Cause::NoSuchKey)?;
        if context.variant != variant_of(key) {
            return Err(Cause::WrongVariant { variant: context.variant });
        }
        if context.is(flag::FREE) {
            return Err(Cause::Free);
        }
        if context.pd != pd {
            return Err(Cause::PdMismatch { key: context.pd, asker: pd });
        }
        if context.is_bound() && context.qpn != qpn {
            return Err(Cause::QpMismatch { key: context.qpn, asker: qpn });
        }
        if !context.is(flag::EN_RINVAL) {
            return Err(Cause::InvalidationForbidden);
        }
        context.flags |= flag::FREE;
        self.live -= 1;
        Ok(())
    }
}

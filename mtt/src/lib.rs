//! Memory keys and their translations: everything about keys and protection domains (PDs), and the
//! one question that the rest of the device asks, [`Mtt::translate`]: key, address, length, access
//! and PD give pieces of guest memory or a typed refusal.
//!
//! - `context`: a key's context, decoded from the layout; which fields a UMR may change.
//! - `store`: where translation entries are kept.
//! - `keys`: keys are made, shown, invalidated and destroyed. `umr`: they are edited.
//! - `translate` asks keys that lead to memory, `indirect` those that lead to other keys.
//! - `access`: the question, the pieces and the refusals.
//!
//! Commands and work requests are decoded elsewhere; here is no queue, no packet and no guest
//! memory.
//!
//! # Rules that are ours
//!
//! Where no public source says what a card does:
//!
//! - A key may be destroyed while other keys, windows included, lead to it; what goes through them
//!   is refused from then on. (No mlx5 status says that windows are bound to a region, and the
//!   stock driver revokes regions by UMR without looking.)
//! - A user's queue pair edits keys of its domain, but neither the translations nor the bounds of
//!   one that leads straight to memory: it would reach what the driver did not give it.
//! - A KLM of length 0 covers nothing; the driver pads lists with zeros.
//! - The bits of an MTT entry's address below the page size are not used.
//! - The null key, as `ibv_alloc_null_mr(3)` has it, drops what is written and reads as zeros, has
//!   the maximum length and belongs to no PD; a peer can't name it, but an indirect key may lead a
//!   peer to it.
//!
//! # What it doesn't implement
//!
//! Device memory, crossing and ICM keys; signatures and encryption (BSF). Each is refused where it
//! would be set up.
#![forbid(unsafe_code)]

mod access;
mod context;
mod indirect;
mod keys;
mod store;
mod translate;
mod umr;

use dma::{RemoveError, Table, TableFull};

pub use access::{Access, Cause, Piece, Pieces, Place, Question, Refusal};
pub use context::{BadContext, MIN_LOG_PAGE_SIZE, Mode};
pub use indirect::{MAX_DEPTH, MAX_ENTRIES};
pub use keys::{CreateError, KeyInfo, List, UnknownKey};
pub use umr::{UmrError, UmrRequest};

use keys::Key;

/// `qpn` of a key that is not bound to a queue pair.
pub const ANY_QPN: u32 = 0xff_ffff;

/// First index that a key gets. Below it are the keys that mean something else: 0x100 ends a
/// scatter list, 0x400 stands for a strided block in a list of KLMs, and [`NULL_KEY`].
pub const FIRST_INDEX: u32 = 0x10;

/// The key through which reads give zeros and writes are dropped, for QUERY_SPECIAL_CONTEXTS.
pub const NULL_KEY: u32 = 0x200;

/// The index part of a key.
#[inline]
pub fn index_of(key: u32) -> u32 {
    key >> 8
}

/// The variant byte of a key.
#[inline]
pub fn variant_of(key: u32) -> u8 {
    key as u8
}

/// The key with this index and variant.
pub fn key_of(index: u32, variant: u8) -> u32 {
    index << 8 | u32::from(variant)
}

/// When the device answers as a card out of resources does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Keys.
    pub keys: u32,
    /// Protection domains.
    pub pds: u32,
    /// Translation entries that are filled, over all keys, 8 bytes each (a KLM or KSM is two). Long
    /// lists are counted in blocks of 512, plus one for each block.
    pub entries: u64,
}

/// A protection domain.
#[derive(Debug)]
struct Pd {
    uid: u16,
}

/// All keys and protection domains of one function.
#[derive(Debug)]
pub struct Mtt {
    limits: Limits,
    keys: Table<Key>,
    pds: Table<Pd>,
    /// Keys that are not free.
    live: usize,
    /// Words that the keys' stores take.
    filled: u64,
}

impl Mtt {
    /// No keys and no domains.
    pub fn new(limits: Limits) -> Self {
        // Indices and PD numbers are 24 bits wide.
        let room = 1 << 24;
        Self {
            limits,
            keys: Table::new(FIRST_INDEX, limits.keys.min(room - FIRST_INDEX)),
            pds: Table::new(1, limits.pds.min(room - 1)),
            live: 0,
            filled: 0,
        }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many keys are not free.
    pub fn live(&self) -> usize {
        self.live
    }

    /// How many 8-byte entries the keys' translations take, as [`Limits::entries`] counts them.
    pub fn filled(&self) -> u64 {
        self.filled
    }

    /// Makes a protection domain for the user context `uid`.
    pub fn alloc_pd(&mut self, uid: u16) -> Result<u32, TableFull> {
        self.pds.insert(Pd { uid })
    }

    /// Removes a protection domain that no key and no other object refers to.
    pub fn dealloc_pd(&mut self, pd: u32) -> Result<(), RemoveError> {
        self.pds.remove(pd).map(drop)
    }

    /// Notes that an object refers to `pd`; false if there is no such domain.
    #[must_use]
    pub fn hold_pd(&mut self, pd: u32) -> bool {
        self.pds.hold(pd)
    }

    /// Takes one reference to `pd` back.
    pub fn release_pd(&mut self, pd: u32) {
        self.pds.release(pd);
    }

    /// The user context that a domain belongs to; `None` if there is no such domain.
    pub fn pd_uid(&self, pd: u32) -> Option<u16> {
        self.pds.get(pd).map(|pd| pd.uid)
    }

    /// How many domains there are.
    pub fn pds(&self) -> usize {
        self.pds.len()
    }

    /// Forgets everything and gives the memory back.
    pub fn reset(&mut self) {
        let Self { limits: _, keys, pds, live, filled } = self;
        keys.clear();
        pds.clear();
        *live = 0;
        *filled = 0;
    }
}

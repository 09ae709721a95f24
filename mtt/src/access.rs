//! The question that everything here is for, and its answers.

use std::fmt;

use thiserror::Error;

use crate::context::flag;

/// A right that an access needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The device reads on behalf of its own guest's work request.
    LocalRead,
    /// The device writes on behalf of its own guest's work request.
    LocalWrite,
    /// A remote peer reads.
    RemoteRead,
    /// A remote peer writes.
    RemoteWrite,
    /// A remote peer's atomic operation.
    RemoteAtomic,
}

impl Access {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::LocalRead,
        Self::LocalWrite,
        Self::RemoteRead,
        Self::RemoteWrite,
        Self::RemoteAtomic,
    ];

    /// Whether a peer asks.
    pub fn is_remote(self) -> bool {
        matches!(self, Self::RemoteRead | Self::RemoteWrite | Self::RemoteAtomic)
    }

    /// Whether memory may change.
    pub fn writes(self) -> bool {
        matches!(self, Self::LocalWrite | Self::RemoteWrite | Self::RemoteAtomic)
    }

    /// Whether memory is read.
    pub fn reads(self) -> bool {
        matches!(self, Self::LocalRead | Self::RemoteRead | Self::RemoteAtomic)
    }

    /// The flag that lets a key be accessed so.
    #[inline]
    pub(crate) fn flags(self) -> u16 {
        match self {
            Self::LocalRead => flag::LR,
            Self::LocalWrite => flag::LW,
            Self::RemoteRead => flag::RR,
            Self::RemoteWrite => flag::RW,
            Self::RemoteAtomic => flag::A,
        }
    }

    /// The flags that the keys behind an indirect key need. A peer's rights are those of the key
    /// it names; what lies behind is reached with its owner's local rights, so that a window can
    /// open what the region under it does not.
    #[inline]
    pub(crate) fn flags_behind(self) -> u16 {
        let read = if self.reads() { flag::LR } else { 0 };
        let write = if self.writes() { flag::LW } else { 0 };
        read | write
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LocalRead => "local read",
            Self::LocalWrite => "local write",
            Self::RemoteRead => "remote read",
            Self::RemoteWrite => "remote write",
            Self::RemoteAtomic => "remote atomic",
        })
    }
}

/// The one question: what does this access reach?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The full 32-bit key.
    pub key: u32,
    /// First address, in the key's own address space.
    pub addr: u64,
    /// Length in bytes. For 0 the key is judged, and nothing is reached.
    pub len: u64,
    /// The right that is needed.
    pub access: Access,
    /// The protection domain of the queue that asks; `None`: not compared.
    pub pd: Option<u32>,
    /// The queue pair that asks, which windows of type 2 are bound to; `None`: not compared.
    pub qpn: Option<u32>,
}

/// Where a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Guest memory, by DMA address.
    Memory(u64),
    /// Nowhere (the null key): reads give zeros, and what is written is dropped.
    Null,
}

/// A run of bytes that an access reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub place: Place,
    /// Its length in bytes, never 0.
    pub len: u64,
}

/// The pieces of an answer, in the order of the key's addresses. Keep one and use it again, so that
/// an answer finds room and allocates nothing.
pub type Pieces = Vec<Piece>;

/// Why a key can't be used so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Cause {
    /// No key has this index.
    #[error("no key has this index")]
    NoSuchKey,
    /// The key's variant byte is another.
    #[error("the key's variant is {variant:#04x} now")]
    WrongVariant {
        /// The variant that it has.
        variant: u8,
    },
    /// The key can't be used until a UMR enables it.
    #[error("the key is free")]
    Free,
    /// The key belongs to another protection domain.
    #[error("the key's protection domain is {key:#x}, the asker's {asker:#x}")]
    PdMismatch {
        /// Of the key.
        key: u32,
        /// Of the queue or key that leads to it.
        asker: u32,
    },
    /// The key is bound to another queue pair.
    #[error("the key is bound to queue pair {key:#x}, not {asker:#x}")]
    QpMismatch {
        /// That the key is bound to.
        key: u32,
        /// That asks.
        asker: u32,
    },
    /// The key does not have the right.
    #[error("the key does not permit it")]
    RightMissing,
    /// Some byte is before the key's first or after its last.
    #[error(
        "the key covers {len} bytes from {start:#x}",
        len = len.map_or("2^64".into(), |len| format!("{len:#x}"))
    )]
    OutOfBounds {
        /// First address of the key.
        start: u64,
        /// Its length; `None` for 2^64.
        len: Option<u64>,
    },
    /// The translation entry was never filled, or says that its page is not there.
    #[error("translation entry {index} is not present")]
    EntryNotPresent {
        /// Which entry.
        index: u64,
    },
    /// The translation entry's page may only be read, or only be written.
    #[error("translation entry {index} does not permit it")]
    EntryRightMissing {
        /// Which entry.
        index: u64,
    },
    /// A strided block's entries do not make up the length of a cycle, or go on past its end.
    #[error("the strided block at entry {index} contradicts itself")]
    BadStrideBlock {
        /// The block's first entry.
        index: u64,
    },
    /// Keys behind keys behind keys.
    #[error("more than {} keys lead to one another", crate::MAX_DEPTH)]
    TooDeep,
    /// More entries of indirect keys than one access may walk.
    #[error("more than {} entries of indirect keys to walk", crate::MAX_ENTRIES)]
    TooMuchWork,
    /// Remote peers may not invalidate the key.
    #[error("the key does not permit remote invalidation")]
    InvalidationForbidden,
}

impl Cause {
    /// Its name for programs, which does not change.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoSuchKey => "no_such_key",
            Self::WrongVariant { .. } => "wrong_variant",
            Self::Free => "free_key",
            Self::PdMismatch { .. } => "pd_mismatch",
            Self::QpMismatch { .. } => "qp_mismatch",
            Self::RightMissing => "right_missing",
            Self::OutOfBounds { .. } => "out_of_bounds",
            Self::EntryNotPresent { .. } => "entry_not_present",
            Self::EntryRightMissing { .. } => "entry_right_missing",
            Self::BadStrideBlock { .. } => "bad_stride_block",
            Self::TooDeep => "too_deep",
            Self::TooMuchWork => "too_much_work",
            Self::InvalidationForbidden => "invalidation_forbidden",
        }
    }
}

/// An access that is refused, and the key that refused it: the one that was asked about, or one
/// that it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{access} of {len:#x} bytes at {addr:#x} through key {key:#x}: {cause}")]
pub struct Refusal {
    /// The full 32-bit key.
    pub key: u32,
    /// First address of the access, in that key's address space.
    pub addr: u64,
    /// Its length there.
    pub len: u64,
    /// The right that the asker needed.
    pub access: Access,
    /// Why.
    pub cause: Cause,
}

impl Refusal {
    /// The cause's name for programs.
    pub fn reason(&self) -> &'static str {
        self.cause.name()
    }
}

//! What the guest program and the judge say to each other: a line of JSON from the guest, a word back.
//! `guest/dialog.c` is the other end.

use control::Hex;
use serde::{Deserialize, Serialize};

/// Version of this talk.
pub(crate) const PROTOCOL: u32 = 1;

/// Longest line that a guest may send: 512 MiB in scattered frames fit.
pub(crate) const MAX_LINE: u64 = 16 << 20;

/// What the guest says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case", deny_unknown_fields)]
pub enum Message {
    /// The first line.
    Hello {
        /// Version of this talk.
        protocol: u32,
        /// The kernel's release.
        kernel: String,
        /// The RDMA device.
        device: String,
    },
    /// The driver has made what it keeps; the program holds nothing.
    Warm {},
    /// A new case begins.
    Case {
        /// Its name.
        name: String,
    },
    /// These registrations exist now. An id that was there before has changed, or is shown again.
    Registered {
        /// The registrations.
        regions: Vec<Region>,
        /// Tell people about it.
        #[serde(default)]
        story: bool,
    },
    /// These registrations are gone.
    Deregistered {
        /// Which.
        ids: Vec<u32>,
    },
    /// A call comes that must fail before the card hears of it.
    Mark {},
    /// It is over.
    Refused {
        /// What was called.
        call: String,
        /// What it failed with; 0 when it worked.
        errno: i32,
        /// What it may fail with.
        expected: Vec<i32>,
    },
    /// Something failed that must work.
    Failed {
        /// What was called.
        call: String,
        /// What it failed with.
        errno: i32,
    },
    /// For people.
    Note {
        /// The text.
        text: String,
    },
    /// The cases are over; the program holds nothing again.
    Rest {},
    /// The driver has been removed.
    Unloaded {
        /// By which means.
        how: String,
    },
    /// The last line.
    End {},
}

/// One registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// The guest's own number for it.
    pub id: u32,
    /// First byte in the program's memory.
    pub address: Hex,
    /// Length in bytes.
    pub length: u64,
    /// First address in the key's address space.
    pub iova: Hex,
    /// `ibv_access_flags` that it was registered with.
    pub access: u32,
    /// The local key.
    pub lkey: Hex,
    /// The remote key.
    pub rkey: Hex,
    /// The size of the pages behind it.
    pub page: u64,
    /// The number of its protection domain, if the provider tells.
    #[serde(default)]
    pub domain: Option<u32>,
    /// The page frames behind it, in order: first frame and count. Frame 0 stands for none.
    pub frames: Vec<(u64, u64)>,
}

/// What the guest is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Go on.
    Go,
    /// Try that again: the card was busy with something else meanwhile.
    Again,
    /// It is no use.
    Stop,
}

impl Word {
    /// As a line.
    pub fn line(self) -> &'static [u8] {
        match self {
            Self::Go => b"go\n",
            Self::Again => b"again\n",
            Self::Stop => b"stop\n",
        }
    }
}

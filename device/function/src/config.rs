//! What can be chosen about a card before it is powered on. Data only: the same configuration and the
//! same inputs give the same outputs, so a recording that holds both can be replayed.

use faults::Rule;
use serde::{Deserialize, Serialize};

/// One card's configuration.
///
/// What an older recording does not say is at its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Which card it is.
    pub profile: Profile,
    /// What its port is connected to.
    pub link: Link,
    /// Names that must differ between cards.
    pub identity: Identity,
    /// When it answers as a card out of resources does.
    pub limits: Limits,
    /// Keys can be changed by work requests (UMR). Without it drivers register memory with
    /// CREATE_MKEY alone.
    pub umr: bool,
    /// Drivers are told to wait seconds where they would wait minutes.
    pub fast_timeouts: bool,
    /// What goes wrong. Rules are checked when they are read: what is none is left out.
    pub faults: Vec<Rule>,
}

/// The cards that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Profile {
    /// ConnectX-6, PCI device 15b3:101b.
    #[serde(rename = "connectx-6")]
    ConnectX6,
}

/// The kinds of link that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Link {
    /// InfiniBand.
    #[serde(rename = "ib")]
    InfiniBand,
}

/// Names that must differ between cards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Of the node.
    pub node_guid: u64,
    /// Of the port.
    pub port_guid: u64,
    /// Of everything that belongs together.
    pub system_image_guid: u64,
    /// Local identifier that the port has from the start, 1 to 0xbfff.
    pub lid: u16,
    /// PCI device serial number.
    pub serial: u64,
}

/// Most of each kind that may exist at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Memory keys.
    pub mkeys: u32,
    /// Translation entries that hold something (8 bytes each); what keys merely reserve is free.
    pub translation_entries: u64,
    /// CQs, QPs and SRQs, each.
    pub queues: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            profile: Profile::ConnectX6,
            link: Link::InfiniBand,
            identity: Identity::derived("mlx5emu"),
            limits: Limits::default(),
            umr: true,
            fast_timeouts: false,
            faults: Vec::new(),
        }
    }
}

impl Config {
    /// The bounds in the firmware's terms.
    pub(crate) fn limits(&self) -> firmware::Limits {
        let Limits { mkeys, translation_entries, queues } = self.limits;
        let base = firmware::Limits::default();
        firmware::Limits {
            mkeys,
            translations: translation_entries,
            // Event queues have a bound of their own: their numbers are 8 bits wide.
            eqs: queues.min(base.eqs),
            cqs: queues,
            qps: queues,
            srqs: queues,
            ..base
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        // 70 Mi entries are 560 MiB: 256 GiB in pages of 4 KiB and a million small keys beside it.
        Self { mkeys: 1 << 20, translation_entries: 70 << 20, queues: 1 << 16 }
    }
}

impl Limits {
    /// Bytes that the card's tables need when all of it is used, roughly.
    pub fn worst_case(&self) -> u64 {
        const MKEY: u64 = 128;
        const ENTRY: u64 = 8;
        // A queue pair with all that its two ends may remember is the most of it.
        const QUEUE: u64 = 4096;
        u64::from(self.mkeys) * MKEY
            + u64::from(self.queues) * QUEUE
            + self.translation_entries.saturating_mul(ENTRY).min(u64::MAX >> 1)
    }
}

impl Identity {
    /// Names that follow from `seed`: the same from the same seed, others from another.
    pub fn derived(seed: &str) -> Self {
        let hash = mix(seed.as_bytes());
        // The second-lowest bit of the first byte marks a GUID as given locally: it can't collide
        // with that of a real card.
        let guid = 0x0200_0000_0000_0000 | (hash >> 8);
        let lid = (hash & 0xffff) % u64::from(Self::LAST_LID) + 1;
        // A card with one port uses one number for all of them.
        Self {
            node_guid: guid,
            port_guid: guid,
            system_image_guid: guid,
            lid: lid as u16,
            serial: guid,
        }
    }

    /// Last LID that can belong to one port.
    pub const LAST_LID: u16 = 0xbfff;
}

/// FNV-1a, then a multiplication that lets every input bit reach the upper half.
fn mix(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (fnv ^ (fnv >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_keep_a_card_below_a_gibibyte() {
        assert!(Limits::default().worst_case() < 1 << 30);
        let most = Limits { mkeys: u32::MAX, translation_entries: u64::MAX, queues: u32::MAX };
        assert!(most.worst_case() > u64::MAX >> 1);
    }

    #[test]
    fn seeds_give_distinct_and_legal_names() {
        let all: Vec<_> = (0..1000).map(|n| Identity::derived(&format!("/run/card-{n}"))).collect();
        let mut guids: Vec<_> = all.iter().map(|i| i.node_guid).collect();
        guids.sort_unstable();
        guids.dedup();
        assert_eq!(guids.len(), all.len());
        for identity in &all {
            assert!((1..=Identity::LAST_LID).contains(&identity.lid));
            assert_eq!(identity.node_guid >> 56, 0x02);
        }
        assert_eq!(Identity::derived("a"), Identity::derived("a"));
    }
}

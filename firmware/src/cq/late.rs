//! Entries that faults keep back, and owner bits that come after their entries.

use dma::Bus;
use layouts::Cqe64;
use probe::{Held, Probe, Until};

use super::post::{ENTRY, put};
use crate::Firmware;

/// Most of them; what comes on top is not kept back.
const MOST: usize = 4096;

/// What faults keep back.
#[derive(Debug)]
pub struct Late(Held<Item>);

#[derive(Debug)]
enum Item {
    /// An entry, its queue, and the data that it carries.
    Entry(u32, [u8; ENTRY], Vec<u8>),
    /// The last byte of an entry, and where it is.
    Owner(u64, u8),
}

impl Default for Late {
    fn default() -> Self {
        Self(Held::new(MOST))
    }
}

impl Late {
    /// Keeps an entry back; false if there is no room.
    pub(super) fn entry(
        &mut self,
        until: Until,
        cqn: u32,
        entry: &Cqe64<[u8; ENTRY]>,
        data: &[u8],
    ) -> bool {
        self.0.push(until, Item::Entry(cqn, entry.0, data.to_vec())).is_ok()
    }

    /// The owner bit of an entry is put right. Without room for it that never happens.
    pub(super) fn owner(&mut self, until: Until, at: u64, byte: u8) {
        let _ = self.0.push(until, Item::Owner(at, byte));
    }

    /// When the next is due, in ns.
    pub fn next(&self) -> Option<u64> {
        self.0.next()
    }

    /// What a fault rule keeps back goes on. Returns how much that is.
    pub fn release(&mut self, rule: u32, now: u64) -> u64 {
        self.0.release(rule, now)
    }

    /// Forgets all of it.
    pub fn reset(&mut self) {
        self.0.clear();
    }
}

/// Writes what is due next. Returns the queue, and when the driver is to be told of it if not now:
/// then [`super::event_due`] wants to be called. `None`: nothing is due.
pub fn go_on(fw: &mut Firmware, cx: (&dyn Bus, &Probe)) -> Option<(u32, Option<u64>)> {
    match fw.late_completions.0.due(fw.now)? {
        // The queue may be gone meanwhile, or broken.
        Item::Entry(cqn, entry, data) => {
            Some((cqn, put(fw, cx, cqn, Cqe64(entry), &data).unwrap_or(None)))
        }
        Item::Owner(at, byte) => {
            let _ = cx.0.write(at, &[byte]);
            Some((0, None))
        }
    }
}

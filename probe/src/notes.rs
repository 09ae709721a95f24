//! What is logged once and counted from then on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Display;

/// A guest that touches everything makes at most this many entries, and log lines.
const MAX_MISSING: usize = 1024;
/// Where the rest is counted.
const REST: &str = "other things that are not modelled";

#[derive(Debug)]
struct Touched {
    name: String,
    count: u64,
}

/// The burn-down list.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    entries: RefCell<BTreeMap<(&'static str, u64), Touched>>,
    rest: Cell<u64>,
}

impl Missing {
    pub(crate) fn note(&self, kind: &'static str, id: u64, name: &dyn Display) {
        let mut entries = self.entries.borrow_mut();
        if let Some(entry) = entries.get_mut(&(kind, id)) {
            entry.count += 1;
        } else if entries.len() < MAX_MISSING {
            let name = name.to_string();
            log::warn!("not modelled: {kind} {id:#x} {name}");
            entries.insert((kind, id), Touched { name, count: 1 });
        } else {
            if self.rest.get() == 0 {
                log::warn!(
                    "not modelled: more than {MAX_MISSING} different things; no more are named"
                );
            }
            self.rest.set(self.rest.get() + 1);
        }
    }

    pub(crate) fn list(&self) -> BTreeMap<String, u64> {
        let entries = self.entries.borrow();
        let mut list: BTreeMap<_, _> = entries
            .iter()
            .map(|((kind, id), entry)| {
                (format!("{kind} {id:#x} {}", entry.name).trim_end().to_string(), entry.count)
            })
            .collect();
        let rest = self.rest.get();
        if rest > 0 {
            list.insert(REST.into(), rest);
        }
        list
    }
}

/// Mistakes by kind.
#[derive(Debug, Default)]
pub(crate) struct Mistakes(RefCell<BTreeMap<&'static str, u64>>);

impl Mistakes {
    pub(crate) fn note(&self, kind: &'static str, message: impl FnOnce() -> String) {
        // The message is made with nothing borrowed: it may look at anything, this included.
        let first = !self.0.borrow().contains_key(kind);
        if first {
            let message = message();
            log::warn!("guest mistake: {kind}: {message} (further ones are only counted)");
        }
        *self.0.borrow_mut().entry(kind).or_default() += 1;
    }

    pub(crate) fn list(&self) -> BTreeMap<&'static str, u64> {
        self.0.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_thing_is_one_entry() {
        let missing = Missing::default();
        missing.note("opcode", 0x826, &"QUERY_CONG_STATISTICS");
        missing.note("opcode", 0x826, &"QUERY_CONG_STATISTICS");
        missing.note("register", 0x826, &"");
        let list = missing.list();
        assert_eq!(list["opcode 0x826 QUERY_CONG_STATISTICS"], 2);
        assert_eq!(list["register 0x826"], 1);
        assert_eq!(list.len(), 2);
    }

    #[test]
    fn a_guest_that_touches_everything_is_bounded() {
        let missing = Missing::default();
        for id in 0..5000 {
            missing.note("register", id, &"");
        }
        let list = missing.list();
        assert_eq!(list.len(), MAX_MISSING + 1);
        assert_eq!(list[REST], 5000 - MAX_MISSING as u64);
        assert_eq!(list.values().sum::<u64>(), 5000);
    }

    #[test]
    fn a_message_is_made_once_a_kind() {
        let mistakes = Mistakes::default();
        let mut made = 0;
        for _ in 0..3 {
            mistakes.note("bad doorbell", || {
                made += 1;
                String::new()
            });
        }
        mistakes.note("other", String::new);
        assert_eq!(made, 1);
        assert_eq!(mistakes.list(), BTreeMap::from([("bad doorbell", 3), ("other", 1)]));
    }
}

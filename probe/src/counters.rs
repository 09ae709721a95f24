//! Running counters: a cell each, found by index.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Display;

macro_rules! counters {
    ($( $(#[$meta:meta])* $variant:ident = $name:literal, )*) => {
        /// What is counted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Counter { $( $(#[$meta])* $variant, )* }

        impl Counter {
            /// Every counter.
            pub const ALL: &[Self] = &[$( Self::$variant ),*];

            /// Its name for the control socket.
            pub fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }
        }
    };
}

counters! {
    /// Interrupts sent.
    Interrupt = "interrupts",
    /// Event queue entries written.
    Eqe = "eqes",
    /// Completion queue entries written.
    Cqe = "cqes",
    /// Work queue entries executed, of all kinds.
    Wqe = "wqes",
    /// UMR work requests executed.
    Umr = "umr",
}

/// Opcodes below this are counted one by one; the highest that kernels know is 0xcff.
const OPCODES: usize = 0x1000;

#[derive(Debug)]
pub(crate) struct Counters {
    named: [Cell<u64>; Counter::ALL.len()],
    commands: Cell<u64>,
    opcodes: Box<[Cell<u64>]>,
    other_opcodes: Cell<u64>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            named: Default::default(),
            commands: Cell::default(),
            opcodes: vec![Cell::default(); OPCODES].into(),
            other_opcodes: Cell::default(),
        }
    }
}

impl Counters {
    #[inline]
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        if let Some(cell) = self.named.get(counter as usize) {
            cell.set(cell.get().wrapping_add(n));
        }
    }

    pub(crate) fn get(&self, counter: Counter) -> u64 {
        self.named.get(counter as usize).map_or(0, Cell::get)
    }

    #[inline]
    pub(crate) fn command(&self, opcode: u16) {
        let cell = self.opcodes.get(usize::from(opcode)).unwrap_or(&self.other_opcodes);
        cell.set(cell.get().wrapping_add(1));
        self.commands.set(self.commands.get().wrapping_add(1));
    }

    pub(crate) fn commands(&self) -> u64 {
        self.commands.get()
    }

    pub(crate) fn list<N: Display>(&self, name: impl Fn(u16) -> N) -> BTreeMap<String, u64> {
        let named = Counter::ALL.iter().map(|&c| (c.name().to_string(), self.get(c)));
        let seen = self.opcodes.iter().map(Cell::get).enumerate().filter(|&(_, count)| count != 0);
        let commands = seen.map(|(op, count)| (format!("command:{}", name(op as u16)), count));
        let mut all: BTreeMap<_, _> = named.chain(commands).collect();
        all.insert("commands".into(), self.commands.get());
        if self.other_opcodes.get() != 0 {
            all.insert("command:other".into(), self.other_opcodes.get());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_listed_by_name_and_in_sum() {
        let counters = Counters::default();
        counters.command(0x200);
        counters.command(0x200);
        counters.command(0xffff);
        counters.add(Counter::Umr, 3);
        let list = counters.list(|op| format!("{op:#x}"));
        assert_eq!(list["command:0x200"], 2);
        assert_eq!(list["command:other"], 1);
        assert_eq!(list["commands"], 3);
        assert_eq!(list["umr"], 3);
        assert_eq!(list["interrupts"], 0, "counters that never counted are listed too");
    }

    #[test]
    fn every_counter_has_its_own_cell_and_name() {
        let counters = Counters::default();
        for (n, &counter) in (1..).zip(Counter::ALL) {
            counters.add(counter, n);
        }
        for (n, &counter) in (1..).zip(Counter::ALL) {
            assert_eq!(counters.get(counter), n, "{}", counter.name());
        }
        assert_eq!(counters.list(|op| op).len(), Counter::ALL.len() + 1);
    }
}

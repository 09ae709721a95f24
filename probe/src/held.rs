//! Things that happen later: at a time, or when they are released.

use std::collections::VecDeque;

use crate::Action;

/// How long something is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Until this time, in ns.
    Time(u64),
    /// Until what the rule with this number holds is released.
    Release(u32),
}

impl Until {
    /// What an action asks for, if it asks that something be held.
    pub fn asked(action: &Action, now: u64) -> Option<Self> {
        match action {
            Action::Delay(ns) => Some(Self::Time(now.saturating_add(*ns))),
            Action::Hold(rule) | Action::HoldDelivery(rule, _) => Some(Self::Release(*rule)),
            _ => None,
        }
    }
}

/// What is held, at most so many things.
#[derive(Debug)]
pub struct Held<T> {
    items: VecDeque<(Until, T)>,
    room: usize,
}

impl<T> Held<T> {
    /// Holds nothing yet, and never more than `room` things.
    pub fn new(room: usize) -> Self {
        Self { items: VecDeque::new(), room }
    }

    /// Holds one more, or gives it back if there is no room.
    pub fn push(&mut self, until: Until, item: T) -> Result<(), T> {
        if self.items.len() >= self.room {
            return Err(item);
        }
        self.items.push_back((until, item));
        Ok(())
    }

    /// Takes the thing whose time came first; of several, the one that was held first.
    pub fn due(&mut self, now: u64) -> Option<T> {
        let at = self.next().filter(|at| *at <= now)?;
        let index = self.items.iter().position(|(until, _)| *until == Until::Time(at))?;
        self.items.remove(index).map(|(_, item)| item)
    }

    /// When the next is due.
    pub fn next(&self) -> Option<u64> {
        let times = self.items.iter().filter_map(|(until, _)| match until {
            Until::Time(at) => Some(*at),
            Until::Release(_) => None,
        });
        times.min()
    }

    /// What a rule holds is due now. Returns how many things that are.
    pub fn release(&mut self, rule: u32, now: u64) -> u64 {
        let mut released = 0;
        for (until, _) in self.items.iter_mut().filter(|item| item.0 == Until::Release(rule)) {
            *until = Until::Time(now);
            released += 1;
        }
        released
    }

    /// What is held.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map(|(_, item)| item)
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        self.items = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_order_of_time_then_of_holding() {
        let mut held = Held::new(4);
        held.push(Until::Time(20), 'c').unwrap();
        held.push(Until::Time(10), 'a').unwrap();
        held.push(Until::Time(10), 'b').unwrap();
        held.push(Until::Release(7), 'd').unwrap();
        assert_eq!(held.push(Until::Time(0), 'e'), Err('e'), "no room");
        assert_eq!(held.next(), Some(10));
        assert_eq!(held.due(9), None);
        assert_eq!((held.due(15), held.due(15), held.due(15)), (Some('a'), Some('b'), None));
        assert_eq!(held.release(8, 15), 0);
        assert_eq!(held.release(7, 15), 1);
        assert_eq!((held.due(30), held.due(30), held.due(30)), (Some('d'), Some('c'), None));
        assert_eq!(held.next(), None);
    }
}

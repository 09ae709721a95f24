//! Levels: how much is traced.

use std::fmt;
use std::str::FromStr;

use probe::{Point, Points};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How much is traced; each level holds those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing.
    Off,
    /// Commands, pages, events, interrupts, objects, health.
    Commands,
    /// Doorbells, work requests, translations and completions too.
    #[default]
    Work,
    /// Packets, and every access to guest memory too.
    Dma,
    /// Register accesses and mailboxes too.
    All,
}

/// There is no such level.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no level \"{0}\": off, commands, work, dma or all")]
pub struct NoSuchLevel(String);

impl Level {
    /// Every level.
    pub const ALL: [Self; 5] = [Self::Off, Self::Commands, Self::Work, Self::Dma, Self::All];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Commands => "commands",
            Self::Work => "work",
            Self::Dma => "dma",
            Self::All => "all",
        }
    }

    /// The lowest level that has this point.
    fn of(point: Point) -> Self {
        match point {
            Point::Command
            | Point::Reply
            | Point::Pages
            | Point::Event
            | Point::Interrupt
            | Point::Create
            | Point::Modify
            | Point::Destroy
            | Point::Health
            | Point::Port
            | Point::Reset
            | Point::Fault => Self::Commands,
            Point::Doorbell | Point::WorkRequest | Point::Completion | Point::Translation => {
                Self::Work
            }
            Point::PacketSent
            | Point::PacketReceived
            | Point::DmaRead
            | Point::DmaWrite
            | Point::DmaCopy
            | Point::DmaExchange => Self::Dma,
            Point::RegisterRead | Point::RegisterWrite | Point::Mailbox => Self::All,
        }
    }

    /// The points that it has.
    pub fn points(self) -> Points {
        let held = Point::ALL.iter().filter(|&&point| Self::of(point) <= self);
        held.fold(Points::NONE, |set, &point| set.plus(Points::of(&[point])))
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Level {
    type Err = NoSuchLevel;

    fn from_str(text: &str) -> Result<Self, NoSuchLevel> {
        let found = Self::ALL.into_iter().find(|level| level.name() == text);
        found.ok_or_else(|| NoSuchLevel(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_hold_those_before_them() {
        assert!(Level::Off.points().is_empty());
        assert_eq!(Level::All.points(), Points::ALL);
        for pair in Level::ALL.windows(2) {
            let (less, more) = (pair[0].points(), pair[1].points());
            assert_eq!(less.plus(more), more);
            assert_ne!(less, more);
            assert_eq!(pair[0].name().parse(), Ok(pair[0]));
        }
        assert!("everything".parse::<Level>().is_err());
    }
}

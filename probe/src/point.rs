//! The points, and sets of them.

use std::fmt;

macro_rules! points {
    ($( $(#[$meta:meta])* $variant:ident = $number:literal $name:literal, )*) => {
        /// A point at which something happens. Its number stands in files: one is never given
        /// another meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Point { $( $(#[$meta])* $variant = $number, )* }

        impl Point {
            /// Every point.
            pub const ALL: &[Self] = &[$( Self::$variant ),*];

            /// Its name in filters, files and fault rules.
            pub fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }
        }
    };
}

points! {
    /// A register of BAR0 was read.
    RegisterRead = 1 "register_read",
    /// A register of BAR0 was written.
    RegisterWrite = 2 "register_write",
    /// A whole command has come: its input.
    Command = 3 "command",
    /// A command is answered: its output.
    Reply = 4 "reply",
    /// A mailbox of a command was read or is written.
    Mailbox = 5 "mailbox",
    /// Pages were given, are given back or are asked for.
    Pages = 6 "pages",
    /// An event queue entry is written.
    Event = 7 "event",
    /// An interrupt is sent.
    Interrupt = 8 "interrupt",
    /// A doorbell of a UAR page rang.
    Doorbell = 9 "doorbell",
    /// A work request begins.
    WorkRequest = 10 "work_request",
    /// A completion queue entry is written.
    Completion = 11 "completion",
    /// A key was asked what an access reaches.
    Translation = 12 "translation",
    /// Guest memory was read.
    DmaRead = 13 "dma_read",
    /// Guest memory was written.
    DmaWrite = 14 "dma_write",
    /// Guest memory was copied.
    DmaCopy = 15 "dma_copy",
    /// Guest memory was compared and exchanged.
    DmaExchange = 16 "dma_exchange",
    /// A packet is sent.
    PacketSent = 17 "packet_sent",
    /// A packet has come.
    PacketReceived = 18 "packet_received",
    /// An object was made.
    Create = 19 "create",
    /// An object was changed, its state for example.
    Modify = 20 "modify",
    /// An object is gone.
    Destroy = 21 "destroy",
    /// The device's health changed.
    Health = 22 "health",
    /// The port changed.
    Port = 23 "port",
    /// The function was reset.
    Reset = 24 "reset",
    /// A fault rule fired.
    Fault = 25 "fault",
}

impl Point {
    /// The point of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|point| point.name() == name)
    }

    /// The point of this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|&point| point as u8 == number)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Points(u64);

impl Points {
    /// No point.
    pub const NONE: Self = Self(0);
    /// Every point.
    pub const ALL: Self = Self::of(Point::ALL);

    /// These points.
    pub const fn of(points: &[Point]) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < points.len() {
            set |= 1 << points[at] as u8;
            at += 1;
        }
        Self(set)
    }

    /// The points of both.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it has this one.
    #[inline(always)]
    pub const fn has(self, point: Point) -> bool {
        self.0 >> point as u8 & 1 == 1
    }

    /// Whether it has any of these.
    #[inline(always)]
    pub const fn has_any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Whether it has none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_have_different_names_and_numbers() {
        for &point in Point::ALL {
            assert_eq!(Point::from_name(point.name()), Some(point));
            assert_eq!(Point::from_number(point as u8), Some(point));
            assert!((point as u8) < 64, "a set has 64 bits");
        }
        assert_eq!(Point::from_name("nothing"), None);
        assert_eq!(Point::from_number(0), None);
    }

    #[test]
    fn sets_hold_what_they_were_made_of() {
        let set = Points::of(&[Point::Command, Point::Reply]).plus(Points::of(&[Point::Fault]));
        let held: Vec<_> = Point::ALL.iter().filter(|&&point| set.has(point)).collect();
        assert_eq!(held, [&Point::Command, &Point::Reply, &Point::Fault]);
        assert!(Points::NONE.is_empty() && !set.is_empty());
        assert!(Point::ALL.iter().all(|&point| Points::ALL.has(point)));
    }
}

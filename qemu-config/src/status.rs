//! The exit status of a run. `docs/exit-status.md` is what users rely on.

/// A signal ended COMMAND.
pub const SIGNALLED: u8 = 118;
/// The guest was damaged.
pub const DAMAGED: u8 = 120;
/// The emulator died or lost its client without being asked to.
pub const CARD_LOST: u8 = 121;
/// COMMAND succeeded, but a fault rule that must fire never did.
pub const FAULT_MISSED: u8 = 122;
/// COMMAND's own status was 120 or more.
pub const HIGH_STATUS: u8 = 123;
/// The time limit passed.
pub const TIMED_OUT: u8 = 124;
/// The launcher could not start.
pub const CANNOT_START: u8 = 125;

/// The status with which a card says that a fault rule that must fire never did.
pub const FAULT_MISSED_BY_CARD: u8 = 3;

/// How COMMAND ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this exit status.
    Exited(u8),
    /// By this signal.
    Killed(u8),
}

/// What a run's exit status follows from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    /// The launcher, QEMU or the guest never got as far as COMMAND.
    pub not_started: bool,
    /// The emulator ended before it was asked to, or QEMU did.
    pub card_lost: bool,
    /// The guest's console shows damage, or the guest went away before COMMAND ended.
    pub damaged: bool,
    /// The time limit passed.
    pub timed_out: bool,
    /// Somebody asked for an early end.
    pub interrupted: bool,
    /// A fault rule that must fire never did.
    pub fault_missed: bool,
    /// How COMMAND ended, if it did.
    pub ending: Option<Ending>,
}

impl Facts {
    /// The exit status. Where several things went wrong the first in this order counts. That COMMAND was
    /// never started counts only when nothing else says why.
    pub fn status(&self) -> u8 {
        let Self { not_started, card_lost, damaged, timed_out, interrupted, fault_missed, ending } =
            *self;
        if not_started && !card_lost && !damaged && !timed_out {
            return CANNOT_START;
        }
        if card_lost {
            return CARD_LOST;
        }
        if damaged {
            return DAMAGED;
        }
        if timed_out {
            return TIMED_OUT;
        }
        match ending {
            Some(Ending::Exited(0)) if fault_missed => FAULT_MISSED,
            Some(Ending::Exited(status)) if status >= DAMAGED => HIGH_STATUS,
            Some(Ending::Exited(status)) => status,
            Some(Ending::Killed(_)) => SIGNALLED,
            // It was ended from outside, as by a signal.
            None if interrupted => SIGNALLED,
            // A guest that is gone without a word.
            None => DAMAGED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_and_their_order() {
        let none = Facts::default();
        let ended = |ending| Facts { ending: Some(ending), ..none };
        let fine = ended(Ending::Exited(0));
        let cases = [
            (fine, 0),
            (ended(Ending::Exited(1)), 1),
            (ended(Ending::Exited(118)), 118),
            (ended(Ending::Exited(119)), 119),
            (ended(Ending::Exited(120)), 123),
            (ended(Ending::Exited(255)), 123),
            (ended(Ending::Killed(9)), 118),
            (none, 120),
            (Facts { interrupted: true, ..none }, 118),
            (Facts { interrupted: true, ..fine }, 0),
            (Facts { interrupted: true, damaged: true, ..none }, 120),
            (Facts { damaged: true, ..fine }, 120),
            (Facts { timed_out: true, ..fine }, 124),
            (Facts { card_lost: true, ..fine }, 121),
            (Facts { not_started: true, ..none }, 125),
            (Facts { fault_missed: true, ..fine }, 122),
            (Facts { fault_missed: true, ..ended(Ending::Exited(1)) }, 1),
            (Facts { fault_missed: true, ..ended(Ending::Exited(255)) }, 123),
            (Facts { fault_missed: true, ..ended(Ending::Killed(9)) }, 118),
            (Facts { fault_missed: true, timed_out: true, ..fine }, 124),
            (Facts { fault_missed: true, damaged: true, ..fine }, 120),
            // several at once
            (Facts { damaged: true, timed_out: true, ..none }, 120),
            (Facts { damaged: true, card_lost: true, ..none }, 121),
            (Facts { timed_out: true, card_lost: true, ..none }, 121),
            (Facts { not_started: true, damaged: true, ..none }, 120),
            (Facts { not_started: true, card_lost: true, ..none }, 121),
            (Facts { not_started: true, timed_out: true, ..none }, 124),
            (Facts { damaged: true, ..ended(Ending::Killed(9)) }, 120),
        ];
        for (facts, status) in cases {
            assert_eq!(facts.status(), status, "{facts:?}");
        }
    }
}

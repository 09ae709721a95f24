//! What the guest program must show; `guest/mrproof.c` has the same names in the same order.

/// A case and the least that it must show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub name: &'static str,
    /// Registrations, each time that one is shown.
    pub registrations: u64,
    /// Calls that fail as they must.
    pub refused: u64,
    /// What is one or the other, as the guest's kernel decides: the program knows which.
    pub either: u64,
}

const fn case(name: &'static str, registrations: u64, refused: u64) -> Case {
    Case { name, registrations, refused, either: 0 }
}

impl Case {
    /// Whether a case that came to this has shown what it must.
    pub(crate) fn is_shown_by(&self, registrations: u64, refused: u64) -> bool {
        let all = self.registrations + self.refused + self.either;
        registrations >= self.registrations
            && refused >= self.refused
            && registrations.saturating_add(refused) >= all
    }
}

pub(crate) const CASES: &[Case] = &[
    case("unaligned head and tail", 5, 0),
    case("one byte", 5, 0),
    case("one page", 3, 0),
    case("across pages", 8, 0),
    case("1 MiB", 2, 0),
    case("256 MiB", 3, 0),
    case("2 MiB huge pages", 12, 0),
    case("transparent huge pages", 6, 0),
    // Two of them before Linux 6.2.
    Case { either: 2, ..case("read-only memory", 2, 8) },
    case("shared memory", 3, 0),
    case("memory file", 3, 0),
    case("fork", 8, 0),
    case("the same buffer many times", 96, 0),
    case("10 000 small ones", 10_000, 0),
    case("8 threads at once", 32, 0),
    // Three since Linux 6.2.
    case("reregistration", 14, 2),
    case("deregistration and reuse", 16, 0),
    // A device that offers on-demand paging is not asked to refuse it.
    case("access flags", 83, 55),
    case("zero-based and other addresses", 10, 2),
    case("protection domains", 8, 4),
    case("unmapped memory", 1, 14),
    case("locked memory beyond the limit", 2, 3),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_out() {
        let plain = case("", 3, 2);
        for (shown, enough) in
            [((3, 2), true), ((4, 9), true), ((2, 3), false), ((3, 1), false), ((9, 0), false)]
        {
            assert_eq!(plain.is_shown_by(shown.0, shown.1), enough, "{shown:?}");
        }
        let either = Case { either: 2, ..plain };
        for (shown, enough) in [
            ((5, 2), true),
            ((3, 4), true),
            ((4, 3), true),
            ((3, 2), false),
            ((2, 5), false),
            ((9, 1), false),
        ] {
            assert_eq!(either.is_shown_by(shown.0, shown.1), enough, "{shown:?}");
        }
    }
}

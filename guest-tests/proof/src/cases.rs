//! What the guest program must show; `guest/mrproof.c` has the same names in the same order.

/// A case and the least that it must show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub name: &'static str,
    /// Registrations, each time that one is shown.
    pub registrations: u64,
    /// Calls that fail as they must.
    pub refused: u64,
}

const fn case(name: &'static str, registrations: u64, refused: u64) -> Case {
    Case { name, registrations, refused }
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
    case("read-only memory", 4, 8),
    case("shared memory", 3, 0),
    case("memory file", 3, 0),
    case("fork", 8, 0),
    case("the same buffer many times", 96, 0),
    case("10 000 small ones", 10_000, 0),
    case("8 threads at once", 32, 0),
    case("reregistration", 14, 2),
    case("deregistration and reuse", 16, 0),
    // A device that offers on-demand paging is not asked to refuse it.
    case("access flags", 83, 55),
    case("zero-based and other addresses", 10, 2),
    case("protection domains", 8, 4),
    case("unmapped memory", 1, 14),
    case("locked memory beyond the limit", 2, 3),
];

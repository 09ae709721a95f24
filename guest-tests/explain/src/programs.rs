//! The programs for the guest.

/// Where the image puts the program that traces: `explain-trace FILE COMMAND…`.
pub const TRACER: &str = "/usr/lib/mlx5emu/explain-trace";

/// What is explained when nothing else is asked for.
pub const DEFAULT: &str = "/usr/lib/mlx5emu/explain-registration";

/// A program: its name, and its files with their text.
pub type Program = (&'static str, &'static [(&'static str, &'static str)]);

/// The programs (C, gnu17, libibverbs).
pub const GUEST_PROGRAMS: &[Program] = &[
    (
        "explain-trace",
        &[
            ("explain.h", include_str!("../guest/explain.h")),
            ("clock.c", include_str!("../guest/clock.c")),
            ("functions.c", include_str!("../guest/functions.c")),
            ("library.c", include_str!("../guest/library.c")),
            ("probes.c", include_str!("../guest/probes.c")),
            ("tracefs.c", include_str!("../guest/tracefs.c")),
            ("tracer.c", include_str!("../guest/tracer.c")),
        ],
    ),
    ("explain-registration", &[("registration.c", include_str!("../guest/registration.c"))]),
];

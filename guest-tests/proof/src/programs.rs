//! The programs for the guest, each one text.

/// Joins files and tells the compiler where each line comes from.
macro_rules! joined {
    ($($file:literal),* $(,)?) => {
        concat!($("#line 1 \"", $file, "\"\n", include_str!(concat!("../guest/", $file))),*)
    };
}

/// Where the image puts the program that registers memory.
pub const PROGRAM: &str = "/usr/lib/mlx5emu/mrproof";

/// Where the image puts the benchmark: `mrbench DEVICE`.
pub const BENCHMARK: &str = "/usr/lib/mlx5emu/mrbench";

/// A program: its name, and its files with their text.
pub type Program = (&'static str, &'static [(&'static str, &'static str)]);

/// The programs (C, gnu17, libibverbs).
pub const GUEST_PROGRAMS: &[Program] = &[
    (
        "mrproof",
        &[(
            "mrproof.c",
            joined!(
                "base.h",
                "dialog.c",
                "frames.c",
                "regions.c",
                "cases_memory.c",
                "cases_rights.c",
                "cases_life.c",
                "cases_processes.c",
                "mrproof.c",
            ),
        )],
    ),
    ("mrbench", &[("mrbench.c", joined!("base.h", "mrbench.c"))]),
];

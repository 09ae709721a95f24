//! The program for the guest that moves data and compares every byte.

use qemu_config::GuestProgram;

macro_rules! files {
    ($($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("../guest/", $file)))),*]
    };
}

/// The programs (C, gnu17, libibverbs).
pub const GUEST_PROGRAMS: &[GuestProgram] = &[GuestProgram {
    name: "verbsproof",
    files: files![
        "verbsproof.h",
        "random.c",
        "memory.c",
        "ends.c",
        "batch.c",
        "refusals.c",
        "verbsproof.c",
    ],
}];

/// The scripts that the guest gets in a shared directory.
pub(crate) const SCRIPTS: &[(&str, &str)] =
    files!["main.py", "say.py", "suite.py", "tools.py", "upper.sh"];

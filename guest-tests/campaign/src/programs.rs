//! The programs for the guest.

use qemu_config::GuestProgram;

/// What runs one program after the other in the guest.
pub(crate) const AGENT: &str = "/usr/lib/mlx5emu/agent";

/// The programs (C, gnu17, libibverbs).
pub(crate) const GUEST_PROGRAMS: [GuestProgram; 2] = [
    GuestProgram { name: "agent", files: &[("agent.c", include_str!("../guest/agent.c"))] },
    GuestProgram { name: "regmr", files: &[("regmr.c", include_str!("../guest/regmr.c"))] },
];

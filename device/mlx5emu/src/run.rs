//! `mlx5emu run`: boots a guest with the card and runs a command in it.

use std::process::ExitCode;

/// Options of `run`.
#[derive(Debug, clap::Args)]
pub struct Run {}

impl Run {
    /// Runs it; the exit status is described in `docs/exit-status.md`.
    pub fn run(self) -> ExitCode {
        eprintln!("mlx5emu: run does not exist yet");
        ExitCode::from(125)
    }
}

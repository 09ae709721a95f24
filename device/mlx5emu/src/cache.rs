//! `mlx5emu cache`: what `run` keeps between runs.

use std::process::ExitCode;

/// Options of `cache`.
#[derive(Debug, clap::Args)]
pub struct Cache {}

impl Cache {
    /// Runs it.
    pub fn run(self) -> ExitCode {
        eprintln!("mlx5emu: cache does not exist yet");
        ExitCode::from(2)
    }
}

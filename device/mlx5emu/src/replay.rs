//! `mlx5emu replay`: plays a recording to a new card. `docs/recording.md` describes both.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;

use device::record::{self, Outcome};

use crate::output::{fail, finish};
use crate::{NO, USAGE};

/// Options of `replay`.
#[derive(Debug, clap::Args)]
pub struct Replay {
    /// What `serve --record` wrote
    file: PathBuf,
}

impl Replay {
    /// Runs it.
    pub fn run(self) -> ExitCode {
        let path = self.file.display();
        let input = match File::open(&self.file) {
            Ok(file) => BufReader::new(file),
            Err(error) => return fail(USAGE, format_args!("cannot read {path}: {error}")),
        };
        match record::replay(input) {
            Ok(Outcome::Same { calls, torn }) => {
                let torn = if torn { "; the recording was cut off there" } else { "" };
                finish(&format!("{calls} calls, every output the same{torn}\n"), 0)
            }
            Ok(Outcome::Different(difference)) => finish(&format!("{difference}\n"), NO),
            Err(error) => fail(USAGE, format_args!("{path}: {error}")),
        }
    }
}

//! `mlx5emu cache`: what `run` keeps between runs.

use std::process::ExitCode;

use qemu_config::{Cache as Kept, Listed};

use crate::USAGE;

/// Options of `cache`.
#[derive(Debug, clap::Args)]
pub struct Cache {
    /// Remove everything that no run is using
    #[arg(long)]
    clear: bool,
}

impl Cache {
    /// Runs it.
    pub fn run(self) -> ExitCode {
        match self.carry_out() {
            Ok(text) => {
                print!("{text}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("mlx5emu: {error}");
                ExitCode::from(USAGE)
            }
        }
    }

    fn carry_out(&self) -> qemu_config::Result<String> {
        let cache = Kept::open()?;
        if self.clear {
            let busy = cache.clear()?;
            return Ok(busy.iter().map(|name| format!("{name}: in use, kept\n")).collect());
        }
        let list = cache.list()?;
        let mut text = format!("{}\n", cache.root().display());
        for entry in &list {
            text.push_str(&describe(entry));
        }
        let sum = list.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.bytes));
        text.push_str(&format!("{} in {} entries\n", size(sum), list.len()));
        Ok(text)
    }
}

fn describe(Listed { name, about, bytes }: &Listed) -> String {
    let mut text = format!("{:>9}  {}  ({name})\n", size(*bytes), about.what);
    for (what, version) in &about.versions {
        text.push_str(&format!("{:>9}    {what} {version}\n", ""));
    }
    text
}

fn size(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    if bytes < MIB {
        return format!("{} KiB", bytes.div_ceil(1024));
    }
    format!("{} MiB", bytes.div_ceil(MIB))
}

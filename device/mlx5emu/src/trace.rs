//! `mlx5emu trace`: shows a trace. `docs/trace.md` describes both.

mod options;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, IsTerminal as _, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use trace::{End, Entry, Filter, Perfetto, Text, TraceReader, json};

use crate::USAGE;
use crate::output::fail;

pub use options::TraceArguments;

/// Options of `trace`.
#[derive(Debug, clap::Args)]
pub struct Trace {
    /// What `serve --trace` or `run --trace` wrote
    file: PathBuf,
    /// Show only events that match, as command.opcode=CREATE_MKEY
    #[arg(long = "match", value_name = "EXPR")]
    filter: Option<Filter>,
    /// Show every field, a line each
    #[arg(long)]
    full: bool,
    /// Print JSON, an object a line, for programs
    #[arg(long, conflicts_with = "full")]
    json: bool,
    /// Write it to a new file that ui.perfetto.dev and chrome://tracing open
    #[arg(long, value_name = "OUT", conflicts_with_all = ["full", "json", "follow"])]
    perfetto: Option<PathBuf>,
    /// Wait for more at the end
    #[arg(long)]
    follow: bool,
}

/// How often a file that is followed is looked at.
const LOOK: Duration = Duration::from_millis(100);

impl Trace {
    /// Runs it.
    pub fn run(self) -> ExitCode {
        match self.show() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(USAGE, error),
        }
    }

    fn show(&self) -> Result<(), String> {
        let path = self.file.display();
        let file =
            File::open(&self.file).map_err(|error| format!("cannot read {path}: {error}"))?;
        let input = BufReader::new(Followed { file, follow: self.follow });
        let mut reader = TraceReader::new(input).map_err(|error| format!("{path}: {error}"))?;
        if let Some(out) = &self.perfetto {
            return self.export(reader, out);
        }
        let stdout = io::stdout().lock();
        let text = Text { full: self.full, colour: stdout.is_terminal() };
        let mut out = BufWriter::new(stdout);
        while let Some(entry) = self.next(&mut reader)? {
            let shown = if self.json { format!("{}\n", json(&entry)) } else { text.entry(&entry) };
            let written = out.write_all(shown.as_bytes());
            let written = written.and_then(|()| if self.follow { out.flush() } else { Ok(()) });
            if is_over(written)? {
                return Ok(());
            }
        }
        is_over(out.flush())?;
        if let Some(End::Torn(_)) = reader.end() {
            log::warn!("{path} was cut off there");
        }
        Ok(())
    }

    /// Writes everything for Perfetto.
    fn export(&self, mut reader: TraceReader<impl Read>, out: &Path) -> Result<(), String> {
        let failed = |error: io::Error| format!("cannot write {}: {error}", out.display());
        let file = File::create_new(out).map_err(failed)?;
        let header = reader.header().clone();
        let mut perfetto = Perfetto::new(BufWriter::new(file), &header).map_err(failed)?;
        while let Some(entry) = self.next(&mut reader)? {
            perfetto.entry(&entry).map_err(failed)?;
        }
        perfetto.finish().map_err(failed)?;
        Ok(())
    }

    /// The next entry that is wanted.
    fn next(&self, reader: &mut TraceReader<impl Read>) -> Result<Option<Entry>, String> {
        loop {
            let entry = reader.next_entry();
            let entry = entry.map_err(|error| format!("{}: {error}", self.file.display()))?;
            match entry {
                Some(entry) if !self.wants(&entry) => {}
                other => return Ok(other),
            }
        }
    }

    fn wants(&self, entry: &Entry) -> bool {
        match (&self.filter, entry) {
            (Some(filter), Entry::Event(event)) => filter.matches(event),
            _ => true,
        }
    }
}

/// Whether whoever reads the output has had enough.
fn is_over(written: io::Result<()>) -> Result<bool, String> {
    match written {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(true),
        Err(error) => Err(format!("standard output: {error}")),
    }
}

/// A file that may still be written: its end is not the end.
struct Followed {
    file: File,
    follow: bool,
}

impl Read for Followed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read(buf)? {
                0 if self.follow && !buf.is_empty() => std::thread::sleep(LOOK),
                n => return Ok(n),
            }
        }
    }
}

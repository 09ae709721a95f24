//! `mlx5emu explain`: runs a command in a guest and tells what its verbs calls did.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, BufWriter, IsTerminal as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use explain::{Show, Story};
use qemu_config::{Error, GuestProgram, Job, Session, Stop, Streams};

use crate::USAGE;
use crate::output::fail;
use crate::run::{Run, report};

/// Options of `explain`: those of `run`, and how the story is shown.
#[derive(Debug, clap::Args)]
pub struct Explain {
    /// Write the story as one HTML page, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Show every function, and calls that only prepare in full
    #[arg(long)]
    all: bool,
    /// Keep what guest and card traced in this new directory
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    keep: Option<PathBuf>,
    /// Tell again what was kept, without a guest
    #[arg(long, value_name = "DIR", conflicts_with_all = ["command", "shell", "file"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    run: Run,
}

/// What the guest's program writes, and the directory that is shared with it for that.
const SHARE: &str = "share";
const GUEST: &str = "guest";
/// What the card writes, where the guest can't see it.
const CARD: &str = "card.trace";

impl Explain {
    /// Runs it; the exit status is described in `docs/exit-status.md`.
    pub fn run(self) -> ExitCode {
        if let Some(kept) = &self.from {
            return match self.tell(kept) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => fail(USAGE, error),
            };
        }
        self.run.supervised(|stop| self.explain(stop))
    }

    fn explain(&self, stop: &Stop) -> Result<u8, Error> {
        if !self.run.can_be_explained() {
            let why = "explain runs a command and traces it by itself: no --shell, no --trace";
            return Err(Error::Option(why.to_owned()));
        }
        let io = |doing: &str| {
            let doing = doing.to_owned();
            move |source| Error::Io { doing, source }
        };
        let place = tempfile::tempdir().map_err(io("make a temporary directory"))?;
        let place = place.path();
        let share = place.join(SHARE);
        fs::create_dir(&share).map_err(io("make the directory that the guest writes to"))?;

        let number = self.run.shares() + 1;
        let seen = if number == 1 { "/mnt/share".into() } else { format!("/mnt/share{number}") };
        let mut command: Vec<OsString> =
            vec![explain::TRACER.into(), format!("{seen}/{GUEST}").into()];
        match self.run.command() {
            [] => command.push(explain::DEFAULT.into()),
            given => command.extend_from_slice(given),
        }
        let mut options = self.run.options(Job::Command(command))?;
        options.shares.push(share);
        options.programs.extend(
            explain::GUEST_PROGRAMS.iter().map(|&(name, files)| GuestProgram { name, files }),
        );
        if let Some(card) = &mut options.card {
            let file = place.join(CARD).into_os_string();
            card.arguments.extend(["--trace".into(), file, "--trace-level".into(), "all".into()]);
        }
        let outcome = Session::start(options, Streams::default(), stop)?.wait();
        report(&outcome);
        let guest = place.join(SHARE).join(GUEST);
        let told = match &self.keep {
            Some(kept) => keep(&guest, &place.join(CARD), kept).and_then(|()| self.tell(kept)),
            None => self.tell_of(&guest, &place.join(CARD)),
        };
        if let Err(error) = told {
            eprintln!("mlx5emu: {error}");
        }
        Ok(outcome.status())
    }

    /// Tells what a directory holds.
    fn tell(&self, kept: &Path) -> Result<(), String> {
        self.tell_of(&kept.join(GUEST), &kept.join(CARD))
    }

    fn tell_of(&self, guest: &Path, trace: &Path) -> Result<(), String> {
        let guest = fs::read(guest).map_err(|error| format!("{}: {error}", guest.display()))?;
        let trace = File::open(trace).ok().map(BufReader::new);
        let story = Story::new(&guest, trace).map_err(|error| error.to_string())?;
        if let Some(file) = &self.html {
            write_private(file, &explain::page(&story))
                .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        }
        let mut out = std::io::stdout().lock();
        let show = Show { colour: out.is_terminal(), everything: self.all };
        match explain::tree(&story, show, &mut out).and_then(|()| out.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(format!("standard output: {error}"))
            }
            _ => Ok(()),
        }
    }
}

/// Keeps what was traced, of the card only the time of the command.
fn keep(guest: &Path, trace: &Path, kept: &Path) -> Result<(), String> {
    let keep = || -> Result<(), Box<dyn std::error::Error>> {
        fs::DirBuilder::new().mode(0o700).create(kept)?;
        fs::copy(guest, kept.join(GUEST))?;
        let to = BufWriter::new(File::create_new(kept.join(CARD))?);
        let trace = BufReader::new(File::open(trace)?);
        Ok(explain::trim(&fs::read(guest)?, trace, to)?)
    };
    keep().map_err(|error| format!("cannot keep the traces in {}: {error}", kept.display()))
}

/// The page holds memory of the guest.
fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(file)?.write_all(text.as_bytes())
}

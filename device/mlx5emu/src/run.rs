//! `mlx5emu run`: boots a guest with the card and runs a command in it.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use qemu_config::{Error, Facts, GuestProgram, Job, Options, Outcome, Session, Stop, Streams};

use crate::guest::Guest;
use crate::serve::metrics_address;
use crate::trace::TraceArguments;

/// Lines of a log that are shown when something failed.
const TAIL: usize = 30;

/// Options of `run`.
#[derive(Debug, clap::Args)]
pub struct Run {
    #[command(flatten)]
    guest: Guest,
    /// Answer `mlx5emu ctl` on this socket; without it, on one in $XDG_RUNTIME_DIR/mlx5emu/
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Record everything that the card is told and answers, for `mlx5emu replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Let the card answer Prometheus on this address; a port alone is one of this machine's own
    #[arg(long, value_name = "ADDRESS|PORT", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    trace: TraceArguments,
    /// Stop the guest so many seconds after it was started
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Open a root shell in the guest
    #[arg(long, conflicts_with_all = ["gdb", "command"])]
    shell: bool,
    /// Wait for gdb on port 1234 before the guest's first instruction
    #[arg(long)]
    gdb: bool,
    /// What to run in the guest, as root; without it, the demonstration that registrations are true
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Run {
    /// Runs it; the exit status is described in `docs/exit-status.md`.
    pub fn run(self) -> ExitCode {
        let job = match (self.shell, self.command.is_empty()) {
            (true, _) => Some(Job::Shell),
            (false, false) => Some(Job::Command(self.command.clone())),
            (false, true) => None,
        };
        self.supervised(|stop| match job {
            Some(job) => self.options(job).and_then(|options| guest(options, stop)),
            None => self.demonstration(stop),
        })
    }

    /// Checks the card's options, catches signals and does `what`, which says the exit status.
    pub fn supervised(&self, what: impl FnOnce(&Stop) -> Result<u8, Error>) -> ExitCode {
        self.guest.supervised(what)
    }

    /// Whether `explain` can run it: a command whose card is not traced already.
    pub fn can_be_explained(&self) -> bool {
        !self.shell && !self.trace.is_given()
    }

    /// How many directories are shared with the guest.
    pub fn shares(&self) -> usize {
        self.guest.shares()
    }

    /// What to run in the guest, if anything was given.
    pub fn command(&self) -> &[OsString] {
        &self.command
    }

    /// The demonstration: without a command.
    fn demonstration(&self, stop: &Stop) -> Result<u8, Error> {
        let options = self.options(Job::Command(vec![proof::PROGRAM.into()]))?;
        let (outcome, status) = crate::demonstration::run(options, stop)?;
        report(&outcome);
        Ok(status)
    }

    /// What the launcher is told, for this job.
    pub fn options(&self, job: Job) -> Result<Options, Error> {
        let mut options = self.guest.options(job)?;
        options.timeout = self.timeout.map(Duration::from_secs);
        options.gdb = self.gdb;
        options.programs.extend(
            proof::GUEST_PROGRAMS.iter().map(|&(name, files)| GuestProgram { name, files }),
        );
        if let Some(card) = &mut options.card {
            card.control.clone_from(&self.control);
            let given = [
                ("--record", self.record.as_ref().map(OsString::from)),
                ("--metrics", self.metrics.map(|address| address.to_string().into())),
            ];
            for (name, value) in given {
                let words = value.into_iter().flat_map(|value| [name.into(), value]);
                card.arguments.extend(words);
            }
            card.arguments.extend(self.trace.arguments());
        }
        Ok(options)
    }
}

/// Runs a command or a shell on our own streams.
fn guest(options: Options, stop: &Stop) -> Result<u8, Error> {
    let outcome = Session::start(options, Streams::default(), stop)?.wait();
    report(&outcome);
    Ok(outcome.status())
}

/// Says what went wrong, on standard error.
pub fn report(outcome: &Outcome) {
    for problem in &outcome.problems {
        eprintln!("mlx5emu: {problem}");
    }
    let status = outcome.status();
    log::debug!(
        "kernel {}, {:?}, {:?}, status {status}",
        outcome.kernel,
        outcome.accelerator,
        outcome.times
    );
    // What COMMAND did is its own affair.
    let commands_own = outcome.facts
        == Facts {
            ending: outcome.ending(),
            fault_missed: outcome.facts.fault_missed,
            ..Facts::default()
        };
    if (commands_own && outcome.ending().is_some()) || outcome.facts.interrupted {
        return;
    }
    show_tail("the guest's console", &outcome.console);
    show_tail("the card's log", &outcome.card_log);
}

fn show_tail(what: &str, text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return;
    }
    eprintln!("mlx5emu: the end of {what}:");
    for line in lines.iter().skip(lines.len().saturating_sub(TAIL)) {
        eprintln!("  | {}", line.trim_end());
    }
}

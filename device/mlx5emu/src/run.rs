//! `mlx5emu run`: boots a guest with the card and runs a command in it.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use qemu_config::{
    Card, Error, Facts, GuestProgram, Job, Kernel, Mebibytes, Options, Outcome, Session, Stop,
    Streams,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::CANNOT_START;
use crate::config::CardOptions;
use crate::output::fail;
use crate::serve::metrics_address;
use crate::trace::TraceArguments;

/// Lines of a log that are shown when something failed.
const TAIL: usize = 30;

/// Options of `run`.
#[derive(Debug, clap::Args)]
pub struct Run {
    /// The guest's kernel: Debian's 6.1, 6.12 or latest, or a bzImage or vmlinux of your own
    #[arg(long, default_value = "6.12", value_name = "VERSION|PATH")]
    kernel: Kernel,
    /// Modules for it: a lib/modules/VERSION tree, or what INSTALL_MOD_PATH was
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,
    #[command(flatten)]
    card: CardOptions,
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
    /// The guest's processors
    #[arg(long, default_value = "2", value_name = "N")]
    smp: u32,
    /// The guest's memory
    #[arg(long, default_value = "2G", value_name = "SIZE")]
    mem: Mebibytes,
    /// Install a Debian package in the guest: a name or a .deb file (repeatable)
    #[arg(long = "package", value_name = "DEB")]
    packages: Vec<String>,
    /// Share a directory with the guest: /mnt/share, the next /mnt/share2, … (repeatable)
    #[arg(long = "share", value_name = "HOSTDIR")]
    shares: Vec<PathBuf>,
    /// Stop the guest so many seconds after it was started
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Kernel parameters to add
    #[arg(long, value_name = "KERNEL-ARGS", allow_hyphen_values = true)]
    append: Option<String>,
    /// An argument for QEMU (repeatable)
    #[arg(long = "qemu-arg", value_name = "ARG", allow_hyphen_values = true)]
    qemu_arguments: Vec<String>,
    /// Open a root shell in the guest
    #[arg(long, conflicts_with_all = ["gdb", "command"])]
    shell: bool,
    /// Wait for gdb on port 1234 before the guest's first instruction
    #[arg(long)]
    gdb: bool,
    /// Let the guest panic when its kernel warns
    #[arg(long)]
    panic_on_warn: bool,
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
        // The card would refuse it too, but only after everything has been fetched.
        if let Err(error) = self.card.load("") {
            return fail(CANNOT_START, error);
        }
        let (stop, caught) = match stop_on_signals() {
            Ok(pair) => pair,
            Err(error) => return fail(CANNOT_START, error),
        };
        let status = what(&stop).unwrap_or_else(|error| {
            if !matches!(error, Error::Interrupted) {
                eprintln!("mlx5emu: {error}");
            }
            CANNOT_START
        });
        // Everything is cleaned up: end as the signal would have ended us.
        let signal = caught.load(Ordering::Relaxed);
        if signal != 0 {
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
        ExitCode::from(status)
    }

    /// Whether `explain` can run it: a command whose card is not traced already.
    pub fn can_be_explained(&self) -> bool {
        !self.shell && !self.trace.is_given()
    }

    /// How many directories are shared with the guest.
    pub fn shares(&self) -> usize {
        self.shares.len()
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
        Ok(Options {
            kernel: self.kernel.clone(),
            modules: self.modules.clone(),
            card: Some(self.serve()?),
            smp: self.smp,
            memory: self.mem,
            packages: self.packages.clone(),
            shares: self.shares.clone(),
            timeout: self.timeout.map(Duration::from_secs),
            append: self.append.clone().into_iter().collect(),
            qemu_arguments: self.qemu_arguments.clone(),
            gdb: self.gdb,
            panic_on_warn: self.panic_on_warn,
            programs: proof::GUEST_PROGRAMS
                .iter()
                .map(|&(name, files)| GuestProgram { name, files })
                .collect(),
            job,
        })
    }

    /// The card: this same program, as `serve`.
    fn serve(&self) -> Result<Card, Error> {
        let program = std::env::current_exe().map_err(|source| Error::Io {
            doing: "find this program's own file".to_owned(),
            source,
        })?;
        let talks = log::log_enabled!(log::Level::Debug);
        let mut arguments: Vec<OsString> = vec!["serve".into()];
        if talks {
            arguments.push("-v".into());
        }
        let CardOptions { profile, link, config, faults, fast_timeouts } = &self.card;
        let given = [
            ("--profile", profile.as_ref().map(OsString::from)),
            ("--link", link.as_ref().map(OsString::from)),
            ("--config", config.as_ref().map(OsString::from)),
            ("--faults", faults.as_ref().map(OsString::from)),
            ("--record", self.record.as_ref().map(OsString::from)),
            ("--metrics", self.metrics.map(|address| address.to_string().into())),
        ];
        for (name, value) in given {
            arguments.extend(value.into_iter().flat_map(|value| [name.into(), value]));
        }
        if *fast_timeouts {
            arguments.push("--fast-timeouts".into());
        }
        arguments.extend(self.trace.arguments());
        Ok(Card { program, arguments, control: self.control.clone(), talks })
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

/// A stop that Ctrl-C and its like request, and the signal that was caught.
fn stop_on_signals() -> Result<(Stop, Arc<AtomicI32>), Error> {
    let stop = Stop::new()?;
    let caught = Arc::new(AtomicI32::new(0));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|source| Error::Io { doing: "catch signals".to_owned(), source })?;
    let (request, store) = (stop.clone(), caught.clone());
    std::thread::spawn(move || {
        for signal in &mut signals {
            store.store(signal, Ordering::Relaxed);
            request.request();
        }
    });
    Ok((stop, caught))
}

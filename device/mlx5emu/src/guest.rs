//! The guest that `run`, `explain` and `campaign` start, and its card.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use qemu_config::{Card, Error, Job, Kernel, Mebibytes, Options, Stop};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::CANNOT_START;
use crate::config::CardOptions;
use crate::output::fail;

/// Options of a guest.
#[derive(Debug, clap::Args)]
pub struct Guest {
    /// The guest's kernel: Debian's 6.1, 6.12 or latest, or a bzImage or vmlinux of your own
    #[arg(long, default_value = "6.12", value_name = "VERSION|PATH")]
    kernel: Kernel,
    /// Modules for it: a lib/modules/VERSION tree, or what INSTALL_MOD_PATH was
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,
    #[command(flatten)]
    card: CardOptions,
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
    /// Kernel parameters to add
    #[arg(long, value_name = "KERNEL-ARGS", allow_hyphen_values = true)]
    append: Option<String>,
    /// An argument for QEMU (repeatable)
    #[arg(long = "qemu-arg", value_name = "ARG", allow_hyphen_values = true)]
    qemu_arguments: Vec<String>,
    /// Let the guest panic when its kernel warns
    #[arg(long)]
    panic_on_warn: bool,
}

impl Guest {
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

    /// How many directories are shared with the guest.
    pub fn shares(&self) -> usize {
        self.shares.len()
    }

    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Whether the card has fault rules of its own.
    pub fn has_faults(&self) -> bool {
        self.card.faults.is_some()
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
            append: self.append.clone().into_iter().collect(),
            qemu_arguments: self.qemu_arguments.clone(),
            panic_on_warn: self.panic_on_warn,
            ..Options::new(job)
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
        ];
        for (name, value) in given {
            arguments.extend(value.into_iter().flat_map(|value| [name.into(), value]));
        }
        if *fast_timeouts {
            arguments.push("--fast-timeouts".into());
        }
        Ok(Card { program, arguments, control: None, talks })
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

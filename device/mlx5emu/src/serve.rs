//! `mlx5emu serve`: one card for one QEMU after another.

use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{FromRawFd as _, RawFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use device::server::{Ended, Options, Server, Stopper};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::config::CardOptions;
use crate::output::{fail, finish};
use crate::qemu_args::qemu_args;
use crate::trace::TraceArguments;
use crate::{FAILED, FAULT_MISSED, USAGE};

/// Options of `serve`.
#[derive(Debug, clap::Args)]
pub struct Serve {
    /// Wait for QEMU on this socket
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    #[command(flatten)]
    card: CardOptions,
    /// Answer `mlx5emu ctl` on this socket; without it, on one in $XDG_RUNTIME_DIR/mlx5emu/
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Record everything that the card is told and answers, for `mlx5emu replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Answer Prometheus on this address; a port alone is one of this machine's own
    #[arg(long, value_name = "ADDRESS|PORT", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    trace: TraceArguments,
    /// Write a line to this file descriptor when QEMU can connect, and close it
    #[arg(long, value_name = "N")]
    ready_fd: Option<RawFd>,
    /// Write a line to this file descriptor when the card is to be unplugged or plugged in again
    #[arg(long, value_name = "N")]
    slot_fd: Option<RawFd>,
    /// Print QEMU's arguments for this card, one a line, and do nothing else
    #[arg(long)]
    print_qemu_args: bool,
}

impl Serve {
    /// Runs it.
    pub fn run(self) -> ExitCode {
        // First of all: later the number could be that of a file of our own.
        let ready = match self.ready_fd.map(take_descriptor).transpose() {
            Ok(ready) => ready,
            Err(error) => return fail(USAGE, format_args!("--ready-fd: {error}")),
        };
        let slot = match self.slot_fd.map(take_descriptor).transpose() {
            _ if self.slot_fd.is_some() && self.slot_fd == self.ready_fd => {
                return fail(USAGE, "--slot-fd: it is that of --ready-fd");
            }
            Ok(slot) => slot,
            Err(error) => return fail(USAGE, format_args!("--slot-fd: {error}")),
        };
        let mut server = match self.start() {
            Ok(Some(server)) => server,
            Ok(None) => return self.print_qemu_args(),
            Err(error) => return fail(USAGE, error),
        };
        if let Err(error) = stop_on_signals(server.stopper()) {
            return fail(USAGE, format_args!("signals: {error}"));
        }
        if let Some(slot) = slot {
            server.set_slot(slot);
        }
        log::info!("serving {}", self.socket.display());
        if let Some(mut ready) = ready
            && let Err(error) = ready.write_all(b"ready\n")
        {
            log::warn!("--ready-fd: {error}");
        }
        match server.run() {
            Ok(Ended { fault_missed: false }) => ExitCode::SUCCESS,
            Ok(Ended { fault_missed: true }) => ExitCode::from(FAULT_MISSED),
            Err(error) => fail(FAILED, error),
        }
    }

    /// A server that listens, or none when only arguments are to be printed. The error is one line for people.
    fn start(&self) -> Result<Option<Server>, String> {
        // The socket's place is what tells cards apart that are otherwise configured alike.
        let socket = std::path::absolute(&self.socket)
            .map_err(|error| format!("--socket {}: {error}", self.socket.display()))?;
        let config = self.card.load(&socket.to_string_lossy())?;
        if self.print_qemu_args {
            return Ok(None);
        }
        let control = match &self.control {
            Some(path) => Some(path.clone()),
            None => default_control().map_err(|error| {
                format!("control socket in $XDG_RUNTIME_DIR: {error}; choose one with --control")
            })?,
        };
        if let Some(path) = &control {
            log::debug!("control socket {}", path.display());
        }
        let options = Options {
            socket: self.socket.clone(),
            control,
            record: self.record.clone(),
            metrics: self.metrics,
            trace: self.trace.options(self.card.trace()?)?,
            config,
        };
        Server::bind(options).map(Some).map_err(|error| error.to_string())
    }

    fn print_qemu_args(&self) -> ExitCode {
        let Some(socket) = self.socket.to_str() else {
            return fail(
                USAGE,
                "the socket's path is not UTF-8, which QEMU's arguments have to be",
            );
        };
        finish(&(qemu_args(socket).join("\n") + "\n"), 0)
    }
}

/// An address with a port, or a port of the loopback address.
pub fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    match text.parse() {
        Ok(port) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        Err(_) => text.parse().map_err(|_| "neither an address with a port nor a port".into()),
    }
}

/// Where `ctl` looks: a socket in a directory of our own, when there is a place for it.
fn default_control() -> io::Result<Option<PathBuf>> {
    let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) else {
        return Ok(None);
    };
    let dir = Path::new(&runtime).join("mlx5emu");
    DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
    Ok(Some(dir.join(format!("{}.control", std::process::id()))))
}

/// The file behind a descriptor that whoever started us has left open for us.
fn take_descriptor(number: RawFd) -> io::Result<File> {
    if number <= 2 {
        return Err(io::Error::other("0, 1 and 2 are the standard ones"));
    }
    if !Path::new(&format!("/proc/self/fd/{number}")).exists() {
        return Err(io::Error::other(format!("descriptor {number} is not open")));
    }
    // SAFETY: it is open, and nothing in this process has opened anything yet that it could belong to.
    #[expect(unsafe_code, reason = "the standard library has no other way to take it")]
    Ok(unsafe { File::from_raw_fd(number) })
}

/// Lets SIGTERM and SIGINT end the server in order.
fn stop_on_signals(stopper: Stopper) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in &mut signals {
            stopper.stop();
        }
    })?;
    Ok(())
}

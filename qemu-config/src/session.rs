//! One run: the card, QEMU and the job in the guest.

use std::fs::{self, File};
use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::Signal;

use crate::damage::Damage;
use crate::error::{Error, Result};
use crate::kvm::Accelerator;
use crate::options::{Card, Job, Options};
use crate::prepare::{self, Ready};
use crate::process::{self, Process};
use crate::qemu::{Disk, Machine, parameters};
use crate::scratch::Scratch;
use crate::slot;
use crate::status::{Ending, Facts};
use crate::stop::{Stop, poll};
use crate::streams::{self, Handed, Streams};
use crate::supervise::Supervisor;

/// How long the card's process may take until its socket can be connected.
const CARD_START: Duration = Duration::from_secs(60);

/// A guest that runs. Dropping it ends everything.
#[derive(Debug)]
pub struct Session {
    handed: Handed,
    supervisor: Option<JoinHandle<Outcome>>,
    stop: Stop,
    control: Option<PathBuf>,
    qmp: PathBuf,
}

/// How long things took, from QEMU's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Until the root file system was there.
    pub booted: Option<Duration>,
    /// Until the job began: the RDMA device is there.
    pub ready: Option<Duration>,
    /// Until the job ended.
    pub job_ended: Option<Duration>,
    /// Until QEMU ended.
    pub ended: Duration,
}

/// How a run went.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What decides the exit status.
    pub facts: Facts,
    /// What went wrong, a line each.
    pub problems: Vec<String>,
    /// Damage that the guest's console shows.
    pub damage: Vec<Damage>,
    /// Everything that the guest's console showed.
    pub console: String,
    /// What the card's process said, unless it spoke for itself.
    pub card_log: String,
    /// Exactly which kernel it was.
    pub kernel: String,
    /// How the guest's processors were run.
    pub accelerator: Accelerator,
    /// How long things took.
    pub times: Times,
}

impl Outcome {
    /// The exit status of the run.
    pub fn status(&self) -> u8 {
        self.facts.status()
    }

    /// How the job ended, if it did.
    pub fn ending(&self) -> Option<Ending> {
        self.facts.ending
    }
}

impl Session {
    /// Makes ready what is missing and starts the guest. Once it returns, the card's control socket can
    /// be connected. `stop` ends it early, here and later.
    pub fn start(options: Options, streams: Streams, stop: &Stop) -> Result<Self> {
        let shares = prepare::check(&options)?;
        let scratch = Scratch::new()?;
        let control = match &options.card {
            Some(card) => Some(control_path(card, &scratch)?),
            None => None,
        };
        let ready = prepare::prepare(&options, &scratch, stop)?;
        let qmp = scratch.join("qmp.sock");
        let (handed, carried) = streams.open()?;
        let plan = Plan {
            options: Options { shares, ..options },
            scratch,
            ready,
            control: control.clone(),
            qmp: qmp.clone(),
            stop: stop.clone(),
        };
        let (give, take) = sync_channel(1);
        let supervisor = std::thread::Builder::new()
            .name("supervisor".to_owned())
            .spawn(move || {
                // The kernel ends the children with the thread that started them: it must be this one.
                match plan.start(carried) {
                    Ok(supervisor) => {
                        let _ = give.send(Ok(()));
                        Some(supervisor.run())
                    }
                    Err(error) => {
                        let _ = give.send(Err(error));
                        None
                    }
                }
                .unwrap_or_else(Outcome::nothing)
            })
            .map_err(Error::io("start a thread"))?;
        take.recv().map_err(|_| Error::Option("the supervisor is gone".to_owned()))??;
        Ok(Self { handed, supervisor: Some(supervisor), stop: stop.clone(), control, qmp })
    }

    /// The job's standard input, if it was to be piped; dropping it ends the input.
    pub fn take_stdin(&mut self) -> Option<PipeWriter> {
        self.handed.stdin.take()
    }

    /// The job's standard output, if it was to be piped.
    pub fn take_stdout(&mut self) -> Option<PipeReader> {
        self.handed.stdout.take()
    }

    /// The job's standard error, if it was to be piped.
    pub fn take_stderr(&mut self) -> Option<PipeReader> {
        self.handed.stderr.take()
    }

    /// The card's control socket.
    pub fn control(&self) -> Option<&Path> {
        self.control.as_deref()
    }

    /// QEMU's monitor: a socket that speaks QMP. The card's id there is [`crate::CARD_ID`].
    pub fn qmp(&self) -> &Path {
        &self.qmp
    }

    /// Waits until everything has ended and been cleaned up.
    pub fn wait(mut self) -> Outcome {
        // The job would wait for more of what nobody will write.
        self.handed = Handed::default();
        let outcome = self.supervisor.take().map(JoinHandle::join);
        outcome.and_then(std::result::Result::ok).unwrap_or_else(Outcome::nothing)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(supervisor) = self.supervisor.take() {
            self.stop.request();
            let _ = supervisor.join();
        }
    }
}

impl Outcome {
    /// Of a run whose supervisor broke.
    fn nothing() -> Self {
        Self {
            facts: Facts { not_started: true, ..Facts::default() },
            problems: vec!["the supervisor did not finish".to_owned()],
            damage: Vec::new(),
            console: String::new(),
            card_log: String::new(),
            kernel: String::new(),
            accelerator: Accelerator::Tcg,
            times: Times::default(),
        }
    }
}

/// Where the card's control socket shall be: where it was asked to be, or where `mlx5emu ctl` looks.
fn control_path(card: &Card, scratch: &Scratch) -> Result<PathBuf> {
    if let Some(path) = &card.control {
        return Ok(path.clone());
    }
    let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) else {
        return Ok(scratch.join("control.sock"));
    };
    let dir = runtime.join("mlx5emu");
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .map_err(Error::path("make", &dir))?;
    Ok(dir.join(format!("run-{}.control", std::process::id())))
}

/// Everything needed to start.
pub(crate) struct Plan {
    pub(crate) options: Options,
    pub(crate) scratch: Scratch,
    pub(crate) ready: Ready,
    control: Option<PathBuf>,
    qmp: PathBuf,
    pub(crate) stop: Stop,
}

impl Plan {
    fn start(self, carried: streams::Carried) -> Result<Supervisor> {
        let initramfs = self.scratch.join("initramfs");
        fs::write(&initramfs, prepare::initramfs(&self.options, &self.ready)?)
            .map_err(Error::path("write", &initramfs))?;
        let socket = self.scratch.join("card.sock");
        let (card, slot) = match (&self.options.card, &self.control) {
            (Some(card), Some(control)) => {
                let (card, slot) = self.start_card(card, &socket, control)?;
                (Some(card), Some(slot))
            }
            _ => (None, None),
        };
        let (ours, theirs) = UnixStream::pair().map_err(Error::io("make a socket pair"))?;
        let console = self.console();
        let mut disks = vec![Disk { serial: "root", image: self.ready.image.file.clone() }];
        if let Some(modules) = &self.ready.kernel.modules {
            disks.push(Disk { serial: "modules", image: modules.image.clone() });
        }
        let options = &self.options;
        let accelerator = self.ready.accelerator;
        let machine = Machine {
            accelerator,
            smp: options.smp,
            mebibytes: options.memory.0,
            kernel: &self.ready.kernel.image,
            initramfs: &initramfs,
            parameters: parameters(
                accelerator,
                options.gdb,
                options.panic_on_warn,
                &options.append,
            ),
            disks,
            shares: &options.shares,
            card: card.is_some().then_some(socket.as_path()),
            job: Some(theirs.as_raw_fd()),
            console: &console,
            qmp: Some(&self.qmp),
            gdb: options.gdb,
            more: &options.qemu_arguments,
        };
        let mut command = self.ready.tools.qemu().command();
        command.args(machine.arguments());
        log::debug!("{command:?}");
        self.log_to(&mut command, &self.qemu_log())?;
        self.stop.check()?;
        let qemu = Process::spawn(command, &[theirs.as_fd()], Signal::KILL)?;
        drop(theirs);
        let terminal = (options.job == Job::Shell).then(|| self.stop.clone());
        let (notices, port) = streams::carry(ours, carried, terminal)?;
        if let Some(asked) = slot {
            slot::watch(asked, port.clone())?;
        }
        if options.gdb {
            log::info!(
                "QEMU waits for gdb: gdb -ex 'target remote 127.0.0.1:1234' VMLINUX, then continue"
            );
        }
        Ok(Supervisor::new(self, card, qemu, notices, port))
    }

    /// Starts the card's process and waits until it listens. Returns where it asks to be unplugged, too.
    fn start_card(
        &self,
        card: &Card,
        socket: &Path,
        control: &Path,
    ) -> Result<(Process, PipeReader)> {
        let pipe = || std::io::pipe().map_err(Error::io("make a pipe"));
        let (read, write) = pipe()?;
        let (asked, ask) = pipe()?;
        let mut command = Command::new(&card.program);
        command.args(&card.arguments);
        command.arg("--socket").arg(socket).arg("--control").arg(control);
        command.arg("--ready-fd").arg(write.as_raw_fd().to_string());
        command.arg("--slot-fd").arg(ask.as_raw_fd().to_string());
        if card.talks {
            command.stdin(Stdio::null()).stdout(Stdio::null());
        } else {
            self.log_to(&mut command, &self.card_log())?;
        }
        log::debug!("{command:?}");
        let mut process = Process::spawn(command, &[write.as_fd(), ask.as_fd()], Signal::KILL)?;
        drop((write, ask));
        let limit = u64::try_from(CARD_START.as_millis()).unwrap_or(u64::MAX);
        let ready = poll(&[read.as_fd(), self.stop.as_fd()], Some(limit))?;
        self.stop.check()?;
        let mut byte = [0];
        let listening =
            ready.first() == Some(&true) && rustix::io::read(&read, &mut byte).is_ok_and(|n| n > 0);
        if listening {
            return Ok((process, asked));
        }
        let status =
            process.stop(Duration::from_secs(1)).map_or_else(String::new, process::describe);
        let said = fs::read_to_string(self.card_log()).unwrap_or_default();
        Err(Error::Failed {
            program: "the card".to_owned(),
            status,
            said: process::last_words(&said).trim_start_matches("mlx5emu: ").to_owned(),
        })
    }

    fn log_to(&self, command: &mut Command, log: &Path) -> Result<()> {
        let file = File::create(log).map_err(Error::path("make", log))?;
        let other = file.try_clone().map_err(Error::path("make", log))?;
        command.stdin(Stdio::null()).stdout(file).stderr(other);
        Ok(())
    }

    pub(crate) fn console(&self) -> PathBuf {
        self.scratch.join("console.log")
    }

    pub(crate) fn qemu_log(&self) -> PathBuf {
        self.scratch.join("qemu.log")
    }

    pub(crate) fn card_log(&self) -> PathBuf {
        self.scratch.join("card.log")
    }
}

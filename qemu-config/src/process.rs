//! Child processes that never outlive us.
//!
//! Each is the leader of a process group of its own, so that Ctrl-C reaches only the launcher, which
//! then ends the groups in the right order; and the kernel ends it when the launcher dies of what can't
//! be caught.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::error::{Error, Result};
use crate::stop::{Stop, poll};

/// A running child.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    pidfd: OwnedFd,
    status: Option<ExitStatus>,
    /// Its group has been ended, and the number may be another's by now.
    group_ended: bool,
}

impl Process {
    /// Starts it. It inherits the descriptors in `kept` beside its standard streams, and gets `farewell`
    /// when the thread that called this ends.
    #[allow(unsafe_code)]
    pub(crate) fn spawn(
        mut command: Command,
        kept: &[BorrowedFd<'_>],
        farewell: Signal,
    ) -> Result<Self> {
        let name = name_of(command.get_program());
        let kept: Vec<std::os::fd::RawFd> =
            kept.iter().map(std::os::fd::AsRawFd::as_raw_fd).collect();
        let parent = rustix::process::getpid();
        command.process_group(0);
        // SAFETY: between fork and exec only async-signal-safe system calls are made, nothing is
        // allocated, and the raw descriptors stay open for the call: the caller holds them borrowed.
        unsafe {
            command.pre_exec(move || {
                rustix::process::set_parent_process_death_signal(Some(farewell))?;
                if rustix::process::getppid() != Some(parent) {
                    return Err(std::io::Error::from(rustix::io::Errno::CHILD));
                }
                for fd in &kept {
                    let fd = BorrowedFd::borrow_raw(*fd);
                    rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
                }
                Ok(())
            });
        }
        let child = command.spawn().map_err(Error::io(format!("start {name}")))?;
        let pidfd = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .map_err(|error| Error::io(format!("watch {name}"))(error.into()))?;
        Ok(Self { name, child, pidfd, status: None, group_ended: false })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// Waits at most so long for its end.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            poll(&[self.pidfd.as_fd()], Some(milliseconds(left))).ok()?;
        }
    }

    /// Asks it to end, and makes it after `grace`. Nothing of its group is left.
    pub(crate) fn stop(&mut self, grace: Duration) -> Option<ExitStatus> {
        if self.ended().is_none() {
            let _ = rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM);
            self.wait(grace);
        }
        self.kill()
    }

    /// Ends it and its group at once.
    pub(crate) fn kill(&mut self) -> Option<ExitStatus> {
        // The group may have members although its leader is gone.
        if !self.group_ended {
            self.group_ended = true;
            let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        if self.status.is_none() {
            self.status = self.child.wait().ok();
        }
        self.status
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn name_of(program: &OsStr) -> String {
    std::path::Path::new(program)
        .file_name()
        .map_or_else(|| program.to_string_lossy(), OsStr::to_string_lossy)
        .into_owned()
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

/// How it ended, in words.
pub(crate) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (_, Some(number)) => format!("killed by {}", signal_name(number)),
        _ => "unknown status".to_owned(),
    }
}

/// A signal's name.
pub(crate) fn signal_name(number: i32) -> String {
    const NAMES: &[(i32, &str)] = &[
        (1, "HUP"),
        (2, "INT"),
        (3, "QUIT"),
        (4, "ILL"),
        (5, "TRAP"),
        (6, "ABRT"),
        (7, "BUS"),
        (8, "FPE"),
        (9, "KILL"),
        (11, "SEGV"),
        (13, "PIPE"),
        (14, "ALRM"),
        (15, "TERM"),
        (24, "XCPU"),
        (25, "XFSZ"),
        (31, "SYS"),
    ];
    NAMES
        .iter()
        .find(|(n, _)| *n == number)
        .map_or_else(|| format!("signal {number}"), |(_, name)| format!("SIG{name}"))
}

/// Runs a program to its end and returns what it printed, both streams in one. Each line is shown to
/// `watch` as it comes. A request to stop ends it at once, with all that it started.
pub(crate) fn run(
    name: &str,
    command: Command,
    stop: &Stop,
    watch: impl FnMut(&str),
) -> Result<String> {
    run_to_end(name, command, Stdio::null(), Signal::KILL, stop, watch)
}

/// The same with something on its standard input.
pub(crate) fn run_from(name: &str, command: Command, input: Stdio, stop: &Stop) -> Result<String> {
    run_to_end(name, command, input, Signal::KILL, stop, |_| {})
}

/// The same, but a request to stop only asks it to end, and waits for that: it changes this machine.
pub(crate) fn run_gently(name: &str, command: Command, stop: &Stop) -> Result<String> {
    run_to_end(name, command, Stdio::null(), Signal::TERM, stop, |_| {})
}

fn run_to_end(
    name: &str,
    mut command: Command,
    input: Stdio,
    farewell: Signal,
    stop: &Stop,
    mut watch: impl FnMut(&str),
) -> Result<String> {
    log::debug!("{command:?}");
    stop.check()?;
    let (mut read, write) = std::io::pipe().map_err(Error::io("make a pipe"))?;
    let errors = write.try_clone().map_err(Error::io("make a pipe"))?;
    command.stdin(input).stdout(write).stderr(errors);
    let mut process = Process::spawn(command, &[], farewell)?;
    let mut said = Vec::new();
    let mut shown = 0;
    let mut piece = [0; 4096];
    let mut open = true;
    loop {
        let mut watched = vec![stop.as_fd(), process.as_fd()];
        if open {
            watched.push(read.as_fd());
        }
        let ready = poll(&watched, None)?;
        if ready.first() == Some(&true) {
            if farewell != Signal::KILL {
                process.stop(Duration::from_secs(300));
            }
            return Err(Error::Interrupted);
        }
        if ready.get(2) == Some(&true) {
            let n = read.read(&mut piece).map_err(Error::io(format!("read from {name}")))?;
            open = n > 0;
            said.extend_from_slice(piece.get(..n).unwrap_or_default());
            while let Some(rest) = said.get(shown..)
                && let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'))
            {
                watch(&String::from_utf8_lossy(rest.get(..end).unwrap_or_default()));
                shown += end + 1;
            }
        } else if ready.get(1) == Some(&true) {
            // Whoever it left behind holding the pipe is not waited for.
            break;
        }
    }
    let status = process.ended().or_else(|| process.kill());
    let said = String::from_utf8_lossy(&said).into_owned();
    match status {
        Some(status) if status.success() => Ok(said),
        _ if stop.requested() => Err(Error::Interrupted),
        status => Err(Error::Failed {
            program: name.to_owned(),
            status: status.map_or_else(|| "no status".to_owned(), describe),
            said: last_words(&said),
        }),
    }
}

/// The line that most likely says why: the first that is an error, else the last.
pub(crate) fn last_words(said: &str) -> String {
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.clone().next_back();
    lines
        .find(|line| line.starts_with("E:") || line.to_lowercase().contains("error"))
        .or(last)
        .unwrap_or("it said nothing")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_comes_line_by_line_and_whole() {
        let mut lines = Vec::new();
        let stop = Stop::new().unwrap();
        let said = run("sh", shell("echo one; echo two >&2"), &stop, |line| {
            lines.push(line.to_owned());
        });
        assert_eq!(said.unwrap(), "one\ntwo\n");
        assert_eq!(lines, ["one", "two"]);
    }

    #[test]
    fn failure_carries_the_reason() {
        let stop = Stop::new().unwrap();
        let error = run("sh", shell("echo 'E: no such thing'; echo bye; exit 3"), &stop, |_| {})
            .unwrap_err();
        assert_eq!(error.to_string(), "sh failed (exit status 3): E: no such thing");
    }

    #[test]
    fn a_stop_ends_the_whole_group() {
        let stop = Stop::new().unwrap();
        stop.request();
        assert!(matches!(run("sh", shell("sleep 1000"), &stop, |_| {}), Err(Error::Interrupted)));

        let mut process =
            Process::spawn(shell("sleep 1000 & echo; wait"), &[], Signal::KILL).unwrap();
        assert!(process.wait(Duration::from_millis(20)).is_none());
        assert_eq!(describe(process.kill().unwrap()), "killed by SIGKILL");
        let group = Pid::from_child(&process.child);
        // The sleeper is init's child now; the kernel may need a moment to end it.
        let deadline = Instant::now() + Duration::from_secs(30);
        while rustix::process::test_kill_process_group(group).is_ok() {
            assert!(Instant::now() < deadline, "a member of the group lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

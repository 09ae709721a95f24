//! Talks to the program in the guest that runs others (`guest/agent.c`).

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use qemu_config::Stop;
use serde::{Deserialize, Serialize};

/// Beyond a program's own limit: to kill it, and for a busy machine.
const GRACE: Duration = Duration::from_secs(60);
/// How often a request to stop is looked at.
const TICK: Duration = Duration::from_millis(100);

/// How a program in the guest ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {
    /// How long it took, in ms of the guest.
    pub ms: u64,
    /// It was killed because its time was over.
    pub late: bool,
    /// Its exit status, if it exited.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The end of what it printed.
    pub output: String,
    /// Processes that could not be killed.
    pub stuck: Vec<Stuck>,
    /// What the kernel said since the last request.
    pub log: Vec<String>,
}

/// A process that can't be killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stuck {
    /// Its program.
    pub name: String,
    /// Its state, as `ps` has it.
    pub state: char,
    /// Where in the kernel it is.
    pub stack: String,
}

impl Done {
    /// It ended by itself, with status 0.
    pub fn well(&self) -> bool {
        self.status == Some(0) && !self.late
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The guest is gone, or says nothing any more.
    Dead(String),
    /// Somebody wants everything to stop.
    Stopped,
}

/// The program in the guest.
#[derive(Debug)]
pub(crate) struct Agent {
    to: PipeWriter,
    lines: Receiver<String>,
    stop: Stop,
}

impl Agent {
    pub(crate) fn new(to: PipeWriter, from: PipeReader, stop: Stop) -> Self {
        let (give, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                if give.send(line).is_err() {
                    return;
                }
            }
        });
        Self { to, lines, stop }
    }

    /// Runs a program, at most so long.
    pub(crate) fn run(&mut self, limit: Duration, argv: &[&str]) -> Result<Done, Silence> {
        self.ask(limit, &format!("run {}\t{}", limit.as_millis(), argv.join("\t")))
    }

    /// Runs a line of shell, at most so long.
    pub(crate) fn shell(&mut self, limit: Duration, line: &str) -> Result<Done, Silence> {
        // A request is one line, and its words are between tabs.
        let line = line.trim().replace('\n', "\x1e").replace('\t', "\x1f");
        self.run(limit, &["sh", "-c", &line])
    }

    /// Kills what programs have left.
    pub(crate) fn clean(&mut self, limit: Duration) -> Result<Done, Silence> {
        self.ask(limit, &format!("clean {}", limit.as_millis()))
    }

    fn ask(&mut self, limit: Duration, line: &str) -> Result<Done, Silence> {
        if let Err(error) = writeln!(self.to, "{line}").and_then(|()| self.to.flush()) {
            return Err(Silence::Dead(format!("the guest takes no more: {error}")));
        }
        let deadline = Instant::now() + limit + GRACE;
        loop {
            match self.lines.recv_timeout(TICK) {
                Ok(line) => {
                    return serde_json::from_str(&line)
                        .map_err(|error| Silence::Dead(format!("{error} in {line:?}")));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Silence::Dead("the guest went away".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.stop.requested() {
                return Err(Silence::Stopped);
            }
            if Instant::now() > deadline {
                let limit = (limit + GRACE).as_secs();
                return Err(Silence::Dead(format!("the guest said nothing for {limit} s")));
            }
        }
    }
}

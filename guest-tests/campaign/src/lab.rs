//! One guest with the card, and what is done to it: bind, unbind, run, break.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::{Client, ClientError, Faults, Request, Status, TraceStatus};
use qemu_config::{Job, Options, Outcome, Session, Stop, Stream, Streams};
use serde_json::Value;
use tempfile::TempDir;

use crate::Error;
use crate::agent::{Agent, Done, Silence};
use crate::programs::{AGENT, GUEST_PROGRAMS};

/// How long binding and unbinding may take. With several lost commands it is 8 s each.
const DRIVER_LIMIT: Duration = Duration::from_secs(60);
/// How long what programs leave behind may take to be killed.
const KILL_LIMIT: Duration = Duration::from_secs(10);
/// The card in the guest.
const FIND_CARD: &str = "basename $(ls -d /sys/bus/pci/drivers/mlx5_core/0000:* | head -n 1)";
/// A task that hangs is told of soon: the longest that the driver waits for one thing is 8 s.
const SET_UP: &str = "cd /proc/sys/kernel; echo 9 > hung_task_timeout_secs && \
    echo 1 > hung_task_check_interval_secs; echo 100000 > hung_task_warnings; true";
/// What WARN_ONCE has told is told again.
const TELL_AGAIN: &str = "echo 1 > /sys/kernel/debug/clear_warn_once; ";

/// A guest that runs, with its driver unbound.
#[derive(Debug)]
pub(crate) struct Lab {
    session: Session,
    agent: Agent,
    client: Client,
    stop: Stop,
    /// Holds the control socket.
    _place: TempDir,
    card: String,
    /// The kernel's release.
    pub(crate) release: String,
}

/// What the card's tables hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tables {
    pub(crate) objects: Vec<(String, u64)>,
    pub(crate) pages: u64,
}

/// Why the lab is of no use any more.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The guest is gone or hangs.
    Guest(String),
    /// The card is gone.
    Card(String),
    /// Somebody wants everything to stop.
    Stopped,
}

impl From<Silence> for Broken {
    fn from(silence: Silence) -> Self {
        match silence {
            Silence::Dead(why) => Self::Guest(why),
            Silence::Stopped => Self::Stopped,
        }
    }
}

impl From<ClientError> for Broken {
    fn from(error: ClientError) -> Self {
        Self::Card(error.to_string())
    }
}

impl From<Broken> for Error {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Guest(why) => Self::Clean(why),
            Broken::Card(why) => Self::Card(why),
            Broken::Stopped => Self::Stopped,
        }
    }
}

impl Lab {
    /// Boots a guest. `options` are those of the run, without a job; `trace` is where the card's trace
    /// goes, if one is wanted.
    pub(crate) fn boot(
        options: &Options,
        trace: Option<&Path>,
        stop: &Stop,
    ) -> Result<Self, Error> {
        let mut options = options.clone();
        options.job = Job::Command(vec![AGENT.into()]);
        options.programs.extend(GUEST_PROGRAMS);
        options.goes_on_damaged = true;
        // Others may run at the same time: `ctl` is not to find this one.
        let place = tempfile::tempdir()
            .map_err(|source| Error::File { path: std::env::temp_dir(), source })?;
        if let Some(card) = &mut options.card {
            card.control = Some(place.path().join("control"));
            if let Some(trace) = trace {
                let arguments: [OsString; 4] =
                    ["--trace".into(), trace.into(), "--trace-level".into(), "off".into()];
                card.arguments.extend(arguments);
            }
        }
        let streams =
            Streams { stdin: Stream::Piped, stdout: Stream::Piped, stderr: Stream::Inherit };
        // It ends with the guest, and the campaign goes on.
        let own = Stop::new()?;
        let mut session = Session::start(options, streams, &own)?;
        let (Some(to), Some(from)) = (session.take_stdin(), session.take_stdout()) else {
            return Err(Error::Clean("the session has no pipes".to_owned()));
        };
        let control = session.control().map(PathBuf::from).unwrap_or_default();
        let client = Client::connect(&control).map_err(|error| Error::Card(error.to_string()))?;
        let agent = Agent::new(to, from, stop.clone());
        let (card, release) = (String::new(), String::new());
        let mut lab = Self { session, agent, client, stop: own, _place: place, card, release };
        lab.release = lab.words("uname -r", Duration::from_secs(600))?;
        lab.card = lab.words(FIND_CARD, DRIVER_LIMIT)?;
        lab.agent.shell(DRIVER_LIMIT, SET_UP).map_err(Broken::from)?;
        if !lab.unbind().map_err(Error::from)?.well() {
            return Err(Error::Clean("the driver can't be unbound".to_owned()));
        }
        Ok(lab)
    }

    /// What a line of shell prints.
    fn words(&mut self, line: &str, limit: Duration) -> Result<String, Error> {
        let done = self.agent.shell(limit, line).map_err(Broken::from)?;
        if !done.well() || done.output.trim().is_empty() {
            return Err(Error::Clean(format!("{line}: {}", done.output)));
        }
        Ok(done.output.trim().to_owned())
    }

    /// Binds the driver. It goes well only if there is an RDMA device in the end.
    pub(crate) fn bind(&mut self) -> Result<Done, Broken> {
        let line = format!(
            "{TELL_AGAIN}echo {} > /sys/bus/pci/drivers/mlx5_core/bind && ls /dev/infiniband | grep uverbs",
            self.card
        );
        Ok(self.agent.shell(DRIVER_LIMIT, &line)?)
    }

    /// Unbinds the driver, if it is bound.
    pub(crate) fn unbind(&mut self) -> Result<Done, Broken> {
        let line = format!(
            "cd /sys/bus/pci/drivers/mlx5_core; [ ! -e {card} ] || echo {card} > unbind",
            card = self.card
        );
        Ok(self.agent.shell(DRIVER_LIMIT, &line)?)
    }

    /// Resets the function, as a person would who wants a card back.
    pub(crate) fn reset(&mut self) -> Result<Done, Broken> {
        let line = format!("echo 1 > /sys/bus/pci/devices/{}/reset", self.card);
        Ok(self.agent.shell(DRIVER_LIMIT, &line)?)
    }

    /// Runs a line of the workload.
    pub(crate) fn work(&mut self, limit: Duration, line: &str) -> Result<Done, Broken> {
        Ok(self.agent.shell(limit, line)?)
    }

    /// Kills what the workload has left.
    pub(crate) fn clean(&mut self) -> Result<Done, Broken> {
        Ok(self.agent.clean(KILL_LIMIT)?)
    }

    /// Adds a fault rule.
    pub(crate) fn arm(&mut self, rule: Value) -> Result<(), Broken> {
        self.client.ask::<Faults>(Request::FaultAdd { rule })?;
        Ok(())
    }

    /// How often the rules have fired.
    pub(crate) fn fired(&mut self) -> Result<u64, Broken> {
        let faults: Faults = self.client.ask(Request::FaultList {})?;
        Ok(faults.rules.iter().map(|rule| rule.fired).sum())
    }

    /// Forgets all fault rules; what they keep back goes on.
    pub(crate) fn disarm(&mut self) -> Result<(), Broken> {
        self.client.ask::<Faults>(Request::FaultClear { name: None })?;
        Ok(())
    }

    /// What is traced from now on; says how many events there were before.
    pub(crate) fn trace(&mut self, level: Option<&str>) -> Result<TraceStatus, Broken> {
        let level = level.map(str::to_owned);
        Ok(self.client.ask(Request::Trace { level, filter: None })?)
    }

    /// What the card's tables hold.
    pub(crate) fn tables(&mut self) -> Result<Tables, Broken> {
        let status: Status = self.client.ask(Request::Status {})?;
        Ok(Tables { objects: status.objects.into_iter().collect(), pages: status.pages })
    }

    /// Ends the guest and says what it was like.
    pub(crate) fn end(self) -> Outcome {
        self.stop.request();
        self.session.wait()
    }
}

impl Tables {
    /// What there is beyond a clean run's, in words; none if there is nothing.
    pub(crate) fn beyond(&self, clean: &Self) -> Vec<String> {
        let before = |kind: &str| {
            clean.objects.iter().find(|(known, _)| known == kind).map_or(0, |(_, count)| *count)
        };
        let objects =
            self.objects.iter().map(|(kind, count)| (kind.as_str(), *count, before(kind)));
        let pages = ("page", self.pages, clean.pages);
        objects
            // A key that lives is a key as well.
            .filter(|(kind, ..)| *kind != "mkey_live")
            .chain([pages])
            .filter(|(_, count, before)| count > before)
            .map(|(kind, count, before)| match count - before {
                1 => format!("1 {kind}"),
                many => format!("{many} {kind}s"),
            })
            .collect()
    }
}

//! Watches one run to its end: QEMU, the card, what the job says, the console, limits and requests to
//! stop.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use crate::damage::{Scanner, Severity};
use crate::error::Result;
use crate::options::Job;
use crate::process::{self, Process};
use crate::session::{Outcome, Plan, Times};
use crate::status::{Ending, FAULT_MISSED_BY_CARD, Facts};
use crate::stop::poll;
use crate::streams::{Notice, Notices, Port};
use crate::terminal::{self, Raw};

/// From power-on to the job, on a slow and busy machine.
const BOOT_LIMIT: Duration = Duration::from_secs(600);
/// From the job's end until the guest is off. The drivers of 6.1 and 6.12 give some thousand keys back
/// first, which took 12 s on a busy machine.
const OFF_LIMIT: Duration = Duration::from_secs(300);
/// From damage that may hang the guest to giving up on COMMAND.
const DAMAGED_LIMIT: Duration = Duration::from_secs(60);
/// How often the console and the terminal's size are looked at.
const TICK: Duration = Duration::from_millis(250);
/// What the card says of a fault rule that never fired.
const MISSED_FAULT: &str = "must fire and never did";
/// What init prints when it can't reach the launcher otherwise.
const GUEST_SAYS: &str = "mlx5emu-guest: ";

/// The state of a run.
pub(crate) struct Supervisor {
    plan: Plan,
    card: Option<Process>,
    qemu: Process,
    notices: Notices,
    port: Port,
    began: Instant,
    release: String,
    console: Vec<u8>,
    scanner: Scanner,
    fatal: Option<Instant>,
    job_ended: Option<Instant>,
    closed: bool,
    terminal: Option<Raw>,
    size: (u16, u16),
    facts: Facts,
    problems: Vec<String>,
    times: Times,
}

impl Supervisor {
    pub(crate) fn new(
        plan: Plan,
        card: Option<Process>,
        qemu: Process,
        notices: Notices,
        port: Port,
    ) -> Self {
        Self {
            release: plan.ready.kernel.release.clone(),
            plan,
            card,
            qemu,
            notices,
            port,
            began: Instant::now(),
            console: Vec::new(),
            scanner: Scanner::default(),
            fatal: None,
            job_ended: None,
            closed: false,
            terminal: None,
            size: terminal::size(),
            facts: Facts::default(),
            problems: Vec::new(),
            times: Times::default(),
        }
    }

    /// Until everything has ended.
    pub(crate) fn run(mut self) -> Outcome {
        while self.step() {}
        self.qemu.kill();
        self.times.ended = self.began.elapsed();
        self.hear_the_rest();
        self.judge_qemu();
        self.stop_card();
        self.read_console();
        self.facts.damaged |= !self.scanner.found.is_empty();
        self.terminal = None;
        let card_log = fs::read_to_string(self.plan.card_log()).unwrap_or_default();
        Outcome {
            facts: self.facts,
            problems: self.problems,
            damage: self.scanner.found,
            console: String::from_utf8_lossy(&self.console).into_owned(),
            card_log,
            kernel: self.plan.ready.kernel.identity.clone(),
            accelerator: self.plan.ready.accelerator,
            times: self.times,
        }
    }

    fn problem(&mut self, text: impl Into<String>) {
        self.problems.push(text.into());
    }

    /// Waits for the next event and acts on it. False when QEMU has ended or must end.
    fn step(&mut self) -> bool {
        if self.wait().is_err() {
            self.problem("waiting for events failed");
            self.facts.not_started = true;
            return false;
        }
        for notice in self.notices.take() {
            self.hear(notice);
        }
        self.read_console();
        self.resize();
        if self.qemu.ended().is_some() {
            return false;
        }
        if self.card.as_mut().is_some_and(|card| card.ended().is_some()) {
            return false;
        }
        if self.plan.stop.requested() {
            self.facts.interrupted = true;
            return false;
        }
        self.within_limits()
    }

    fn wait(&self) -> Result<()> {
        let mut fds = vec![self.qemu.as_fd(), self.plan.stop.as_fd()];
        fds.extend(self.card.as_ref().map(Process::as_fd));
        if !self.closed {
            fds.push(self.notices.bell());
        }
        let tick = u64::try_from(TICK.as_millis()).unwrap_or(u64::MAX);
        poll(&fds, Some(tick)).map(drop)
    }

    fn hear(&mut self, notice: Notice) {
        let now = self.began.elapsed();
        match notice {
            Notice::Hello(release) => {
                log::debug!("the guest runs {release} after {:.1} s", now.as_secs_f32());
                self.times.booted = Some(now);
                self.release = release;
            }
            Notice::Ready => {
                log::debug!("the command starts after {:.1} s", now.as_secs_f32());
                self.times.ready = Some(now);
                if self.plan.options.job == Job::Shell {
                    log::info!("a root shell in the guest; Ctrl-] ends the guest");
                    self.terminal = Raw::enter().ok();
                }
            }
            Notice::Exited(status) => self.job_has_ended(Ending::Exited(status)),
            Notice::Killed(signal) => self.job_has_ended(Ending::Killed(signal)),
            Notice::Failed(why) => {
                self.job_ended = Some(Instant::now());
                self.facts.not_started = true;
                self.problem(why);
            }
            Notice::Closed(why) => {
                self.closed = true;
                if let Some(why) = why {
                    self.facts.damaged = true;
                    self.problem(why);
                }
            }
        }
    }

    fn job_has_ended(&mut self, ending: Ending) {
        self.terminal = None;
        self.job_ended = Some(Instant::now());
        self.times.job_ended = Some(self.began.elapsed());
        self.facts.ending = Some(ending);
        match ending {
            Ending::Killed(signal) => {
                let name = process::signal_name(signal.into());
                self.problem(format!("the command was killed by {name}"));
            }
            Ending::Exited(status) if status >= crate::status::DAMAGED => {
                self.problem(format!("the command's exit status was {status}"));
            }
            Ending::Exited(_) => {}
        }
    }

    /// Takes what is new in the console's log.
    fn read_console(&mut self) {
        let Ok(mut file) = File::open(self.plan.console()) else { return };
        let mut new = Vec::new();
        let known = u64::try_from(self.console.len()).unwrap_or(u64::MAX);
        if file.seek(SeekFrom::Start(known)).is_err() || file.read_to_end(&mut new).is_err() {
            return;
        }
        self.console.extend_from_slice(&new);
        for damage in self.scanner.take(&new, &self.release) {
            if damage.severity == Severity::Fatal && self.fatal.is_none() {
                self.fatal = Some(Instant::now());
            }
            self.problem(format!("the guest was damaged: {}", damage.message));
        }
    }

    fn resize(&mut self) {
        if self.terminal.is_some() {
            let size = terminal::size();
            if size != self.size {
                self.size = size;
                self.port.resize(size);
            }
        }
    }

    fn within_limits(&mut self) -> bool {
        let since = |moment: Option<Instant>| moment.map_or(Duration::ZERO, |m| m.elapsed());
        let options = &self.plan.options;
        if options.timeout.is_some_and(|limit| self.began.elapsed() > limit)
            && self.job_ended.is_none()
        {
            self.facts.timed_out = true;
            let limit = options.timeout.unwrap_or_default().as_secs();
            self.problem(format!("the guest was stopped after the time limit of {limit} s"));
            return false;
        }
        if options.gdb {
            return true;
        }
        if self.times.ready.is_none()
            && self.job_ended.is_none()
            && self.began.elapsed() > BOOT_LIMIT
        {
            self.facts.not_started = true;
            let limit = BOOT_LIMIT.as_secs();
            self.problem(format!("the guest did not get to the command within {limit} s"));
            return false;
        }
        if since(self.job_ended) > OFF_LIMIT {
            self.facts.damaged = true;
            let limit = OFF_LIMIT.as_secs();
            self.problem(format!("the guest did not power off within {limit} s"));
            return false;
        }
        if self.job_ended.is_none() && !options.goes_on_damaged && since(self.fatal) > DAMAGED_LIMIT
        {
            let limit = DAMAGED_LIMIT.as_secs();
            self.problem(format!("the command did not end within {limit} s of the damage"));
            return false;
        }
        true
    }

    /// QEMU is gone: what it passed on before is still on its way. Whoever reads our output may be slow,
    /// but not for ever.
    fn hear_the_rest(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.closed && Instant::now() < deadline {
            for notice in self.notices.take() {
                self.hear(notice);
            }
            let _ = poll(&[self.notices.bell()], Some(20));
        }
    }

    /// Why QEMU ended, when that was not the job's doing.
    fn judge_qemu(&mut self) {
        self.read_console();
        let given_up = self.facts.timed_out
            || self.facts.interrupted
            || self.facts.not_started
            || self.job_ended.is_some()
            || self.card.as_mut().is_some_and(|card| card.ended().is_some());
        let Some(status) = self.qemu.ended() else { return };
        if given_up || self.fatal.is_some_and(|at| at.elapsed() > DAMAGED_LIMIT) {
            return;
        }
        let said = fs::read_to_string(self.plan.qemu_log()).unwrap_or_default();
        let guest_said = String::from_utf8_lossy(&self.console)
            .lines()
            .find_map(|line| line.split_once(GUEST_SAYS).map(|(_, why)| why.trim().to_owned()));
        if !status.success() && status.code().is_some() && self.console.is_empty() {
            self.facts.not_started = true;
            let why = process::last_words(&said);
            self.problem(format!("QEMU could not start: {why}"));
        } else if !status.success() {
            self.facts.card_lost = true;
            let (how, why) = (process::describe(status), process::last_words(&said));
            self.problem(format!("QEMU died ({how}): {why}"));
        } else if let Some(why) = guest_said {
            self.facts.not_started = true;
            self.problem(why);
        } else if self.scanner.found.is_empty() {
            self.facts.damaged = true;
            self.problem("the guest went away before the command ended");
        }
    }

    /// Which fault rules that must fire never did: the card's last words.
    fn tell_missed_faults(&mut self) {
        let said = fs::read_to_string(self.plan.card_log()).unwrap_or_default();
        let before = self.problems.len();
        for line in said.lines().filter(|line| line.contains(MISSED_FAULT)) {
            self.problem(line.trim_start_matches("mlx5emu: ").trim_start_matches("warn: "));
        }
        // A card that talks has said it on our standard error.
        if self.problems.len() == before {
            self.problem("a fault rule that must fire never did");
        }
    }

    fn stop_card(&mut self) {
        let Some(mut card) = self.card.take() else { return };
        let lost = card.ended();
        let status = lost.or_else(|| card.stop(Duration::from_secs(30)));
        match status {
            Some(status) if lost.is_none() && status.success() => {}
            Some(status)
                if lost.is_none() && status.code() == Some(FAULT_MISSED_BY_CARD.into()) =>
            {
                self.facts.fault_missed = true;
                self.tell_missed_faults();
            }
            status => {
                self.facts.card_lost = true;
                let how = status.map_or_else(String::new, process::describe);
                let when =
                    if lost.is_some() { "while the guest ran" } else { "when asked to stop" };
                self.problem(format!("{} failed {when} ({how})", card.name()));
            }
        }
    }
}

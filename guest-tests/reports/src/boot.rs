//! Guests: as few as the reports' needs allow, and another one when a report has spoilt its own.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use qemu_config::{Card, Job, Kernel, Mebibytes, Options, Outcome, Session, Stop, Stream, Streams};
use serde_json::json;

use crate::catalogue::{Machine, Report};
use crate::judge::{Judgement, Seen, damage, judge};
use crate::relay::Relay;
use crate::talk::{Message, Reply};

/// Where the first shared directory is in the guest.
const SHARE: &str = "/mnt/share";
/// Seconds for power-on and the scripts' own start, beside those of the reports.
const START_LIMIT: u64 = 300;
/// Longest line of a script.
const LONGEST: u64 = 1 << 20;

/// What the reports' scripts share.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guest");

/// What shall be run.
#[derive(Debug, Clone)]
pub struct Request {
    /// The kernel.
    pub kernel: Kernel,
    /// The program that is the card.
    pub card: PathBuf,
    /// Show the card's messages.
    pub talks: bool,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// The kernel's release.
    pub kernel: String,
    /// Each report's, in the order in which they ran.
    pub judgements: Vec<Judgement>,
    /// What is wrong with the runs themselves.
    pub problems: Vec<String>,
    /// The end of the console and of the card's log of a boot that went wrong.
    pub logs: String,
}

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The guest could not be started.
    #[error(transparent)]
    Guest(#[from] qemu_config::Error),
    /// A file could not be made.
    #[error("the shared directory: {0}")]
    Share(#[from] io::Error),
    /// The card does not answer.
    #[error(transparent)]
    Card(#[from] control::ClientError),
}

/// Runs all reports and tells `on` each result as it comes.
pub fn run(
    request: &Request,
    reports: &[Report],
    mut on: impl FnMut(&Judgement, &Seen),
) -> Result<Results, Failure> {
    let mut results = Results::default();
    for mut waiting in groups(reports) {
        while !waiting.is_empty() {
            let boot = one(request, &waiting, &mut results, &mut on)?;
            waiting.retain(|report| !boot.contains(&report.name));
            if boot.is_empty() {
                let names: Vec<&str> = waiting.iter().map(|report| report.id.as_str()).collect();
                results.problems.push(format!("never ran: {}", names.join(", ")));
                break;
            }
        }
    }
    Ok(results)
}

/// Reports that can share a boot.
fn groups(reports: &[Report]) -> Vec<Vec<&Report>> {
    let mut groups: Vec<Vec<&Report>> = Vec::new();
    for report in reports {
        let machine = &report.about.machine;
        let same = groups.iter_mut().find(|group| {
            !machine.alone && group.first().is_some_and(|one| one.about.machine == *machine)
        });
        match same {
            Some(group) => group.push(report),
            None => groups.push(vec![report]),
        }
    }
    groups
}

/// One boot. The names of the reports that are over with it.
fn one(
    request: &Request,
    reports: &[&Report],
    results: &mut Results,
    on: &mut dyn FnMut(&Judgement, &Seen),
) -> Result<Vec<String>, Failure> {
    let share = tempfile::tempdir()?;
    fill(share.path(), reports)?;
    let streams = Streams { stdin: Stream::Piped, stdout: Stream::Piped, stderr: Stream::Inherit };
    let options = request.options(share.path(), reports)?;
    let stop = Stop::new()?;
    let mut session = Session::start(options, streams, &stop)?;
    let control = session.control().map(Path::to_owned).unwrap_or_default();
    let mut relay = Relay::new(reports.to_vec(), &control)?;
    let mut told = 0;
    if let (Some(stdin), Some(stdout)) = (session.take_stdin(), session.take_stdout()) {
        let listened = listen(&mut relay, stdin, BufReader::new(stdout), |relay| {
            for (report, seen) in relay.over.iter().skip(told) {
                on(&judge(report, seen, &relay.kernel), seen);
            }
            told = relay.over.len();
        });
        relay.problems.extend(listened.err());
    }
    if relay.spoiled {
        stop.request();
    }
    let outcome = session.wait();
    bury(&mut relay, &outcome);
    for (report, seen) in relay.over.iter().skip(told) {
        on(&judge(report, seen, &relay.kernel), seen);
    }
    problems(&mut relay, &outcome);
    results
        .judgements
        .extend(relay.over.iter().map(|(report, seen)| judge(report, seen, &relay.kernel)));
    if !relay.problems.is_empty() {
        results.logs = format!("{}\n{}", outcome.console, outcome.card_log);
    }
    results.problems.append(&mut relay.problems);
    if !relay.kernel.is_empty() {
        results.kernel = relay.kernel;
    }
    Ok(relay.over.iter().map(|(report, _)| report.name.clone()).collect())
}

/// Hears the scripts until they end.
fn listen(
    relay: &mut Relay<'_>,
    mut stdin: impl io::Write,
    mut stdout: BufReader<impl io::Read>,
    mut after: impl FnMut(&Relay<'_>),
) -> Result<(), String> {
    loop {
        let mut line = String::new();
        let read = (&mut stdout).take(LONGEST).read_line(&mut line);
        if read.map_err(|error| error.to_string())? == 0 {
            return Ok(());
        }
        let reply = match serde_json::from_str::<Message>(&line) {
            Ok(message) => relay.hear(message),
            Err(error) => {
                let start: String = line.trim_end().chars().take(200).collect();
                Reply::Error(format!("{error} in {start}"))
            }
        };
        if let Reply::Error(why) = &reply {
            log::debug!("to the guest: {why}");
        }
        after(relay);
        let mut text = serde_json::to_string(&reply).map_err(|error| error.to_string())?;
        text.push('\n');
        // A guest that is gone says so at its output.
        let _ = stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush());
    }
}

/// A report in which the guest itself ended.
fn bury(relay: &mut Relay<'_>, outcome: &Outcome) {
    let Some((report, mut seen)) = relay.running.take() else { return };
    let why = outcome.problems.join("; ");
    seen.trouble = Some(format!("the guest ended with it: {why}"));
    seen.log.clone_from(&outcome.console);
    relay.over.push((report, seen));
    relay.ended = true;
}

/// What is wrong with the boot beyond what its reports say themselves.
fn problems(relay: &mut Relay<'_>, outcome: &Outcome) {
    let release = &relay.kernel;
    for found in &outcome.damage {
        // What a report has seen, or is known to come with its card, is the report's.
        let known = relay.over.iter().any(|(report, seen)| {
            damage(&seen.log, release).contains(found)
                || report.excuses(release).any(|log| found.message.contains(log))
        });
        if !known {
            relay.problems.push(format!("between reports: {}", found.message));
        }
    }
    if outcome.facts.card_lost || outcome.facts.not_started {
        relay.problems.extend(outcome.problems.iter().cloned());
    }
    if !relay.ended {
        relay.problems.push("the guest's scripts ended early".to_owned());
        relay.problems.extend(outcome.problems.iter().cloned());
    }
}

fn fill(share: &Path, reports: &[&Report]) -> io::Result<()> {
    for file in fs::read_dir(SCRIPTS)? {
        let file = file?;
        fs::copy(file.path(), share.join(file.file_name()))?;
    }
    let mut list = Vec::new();
    for report in reports {
        let script = format!("{}.py", report.name);
        fs::copy(report.dir.join("guest.py"), share.join(&script))?;
        list.push(json!({ "name": report.name, "limit": report.about.limit }));
    }
    fs::write(share.join("reports.json"), json!(list).to_string())
}

impl Request {
    fn options(&self, share: &Path, reports: &[&Report]) -> Result<Options, Failure> {
        let none = Machine::default();
        let machine = reports.first().map_or(&none, |report| &report.about.machine);
        let config = share.join("card.toml");
        fs::write(&config, card_config(&machine.card))?;
        let arguments = vec!["serve".into(), "--config".into(), config.into_os_string()];
        let program = self.card.clone();
        let command = ["python3", "-B", &format!("{SHARE}/main.py")].map(Into::into).to_vec();
        let limits: u64 = reports.iter().map(|report| report.about.limit).sum();
        let memory = machine.memory.as_deref().unwrap_or("2G").parse::<Mebibytes>()?;
        Ok(Options {
            kernel: self.kernel.clone(),
            card: Some(Card { program, arguments, control: None, talks: self.talks }),
            shares: vec![share.to_owned()],
            timeout: Some(Duration::from_secs(START_LIMIT + limits)),
            memory,
            append: machine.append.clone(),
            ..Options::new(Job::Command(command))
        })
    }
}

/// Timeouts are short unless a report wants the driver's own.
fn card_config(given: &toml::Table) -> String {
    let mut card = given.clone();
    card.entry("timeouts").or_insert_with(|| toml::toml! { fast = true }.into());
    card.to_string()
}

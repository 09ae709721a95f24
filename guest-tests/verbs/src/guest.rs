//! One guest: gives it the scripts and the plan, and listens to it.

use std::fs;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use qemu_config::{Card, Job, Kernel, Options, Session, Stop, Stream, Streams};
use serde::Serialize;

use crate::programs::{GUEST_PROGRAMS, SCRIPTS};
use crate::talk::{Message, SuiteResult, ToolResult};
use crate::tools::{Order, Tool};

/// Seconds that one of rdma-core's tests may take.
const TEST_LIMIT: u32 = 90;
/// Tests of rdma-core that run side by side.
const JOBS: u32 = 2;
/// Where the first shared directory is in the guest.
const SHARE: &str = "/mnt/share";

/// What shall be run.
#[derive(Debug, Clone)]
pub struct Request {
    /// The kernel.
    pub kernel: Kernel,
    /// The program that is the card.
    pub card: PathBuf,
    /// The RDMA device that is tested; with soft-RoCE there is another beside the card's.
    pub device: String,
    /// Make soft-RoCE's device `rxe0`.
    pub soft_roce: bool,
    /// The tools.
    pub tools: Vec<Tool>,
    /// Run rdma-core's own tests: those with one of these texts in their names, or all.
    pub suite: Option<Vec<String>>,
    /// How long the guest may run.
    pub timeout: Duration,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// The kernel's release.
    pub kernel: String,
    /// Each tool's.
    pub tools: Vec<ToolResult>,
    /// Each test's of rdma-core.
    pub suite: Vec<SuiteResult>,
    /// What is wrong with the run itself.
    pub problems: Vec<String>,
    /// What the guest's console showed.
    pub console: String,
    /// What the card said.
    pub card_log: String,
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
}

#[derive(Debug, Serialize)]
struct Plan<'a> {
    soft_roce: bool,
    tools: Vec<Order<'a>>,
    suite: Option<SuitePlan<'a>>,
}

#[derive(Debug, Serialize)]
struct SuitePlan<'a> {
    arguments: [&'a str; 2],
    only: &'a [String],
    limit: u32,
    jobs: u32,
}

impl Request {
    fn plan(&self) -> Plan<'_> {
        let Self { device, soft_roce, tools, suite, .. } = self;
        let suite = suite.as_ref().map(|only| SuitePlan {
            arguments: ["--dev", device],
            only,
            limit: TEST_LIMIT,
            jobs: JOBS,
        });
        let tools = tools.iter().filter_map(|tool| tool.order(device)).collect();
        Plan { soft_roce: *soft_roce, tools, suite }
    }

    fn fill(&self, share: &Path) -> io::Result<()> {
        for (name, text) in SCRIPTS {
            fs::write(share.join(name), text)?;
        }
        fs::write(share.join("plan.json"), serde_json::to_string_pretty(&self.plan())?)
    }

    fn options(&self, share: &Path) -> Options {
        let arguments = vec!["serve".into()];
        let program = self.card.clone();
        let command = ["python3", "-B", &format!("{SHARE}/main.py")].map(Into::into).to_vec();
        Options {
            kernel: self.kernel.clone(),
            card: Some(Card { program, arguments, control: None, talks: false }),
            shares: vec![share.to_owned()],
            timeout: Some(self.timeout),
            programs: GUEST_PROGRAMS.to_vec(),
            ..Options::new(Job::Command(command))
        }
    }
}

/// Boots a guest, runs everything and tells `on` each result as it comes.
pub fn run(
    request: &Request,
    stop: &Stop,
    mut on: impl FnMut(&Message),
) -> Result<Results, Failure> {
    let share = tempfile::tempdir()?;
    request.fill(share.path())?;
    let streams = Streams { stdin: Stream::Null, stdout: Stream::Piped, stderr: Stream::Inherit };
    let mut session = Session::start(request.options(share.path()), streams, stop)?;
    let mut results = Results::default();
    if let Some(output) = session.take_stdout() {
        results.listen(BufReader::new(output), &mut on);
    }
    let outcome = session.wait();
    results.problems.extend(outcome.problems.iter().cloned());
    if outcome.status() != 0 {
        results.problems.push(format!("the guest ended with status {}", outcome.status()));
    }
    results.console = outcome.console;
    results.card_log = outcome.card_log;
    Ok(results)
}

impl Results {
    fn listen(&mut self, lines: impl io::BufRead, on: &mut dyn FnMut(&Message)) {
        let mut ended = false;
        for line in lines.lines() {
            let message = line.map_err(|error| error.to_string()).and_then(|line| {
                serde_json::from_str(&line).map_err(|error| format!("{error} in {line:?}"))
            });
            let message = match message {
                Ok(message) => message,
                Err(error) => return self.problems.push(format!("the guest's scripts: {error}")),
            };
            on(&message);
            match message {
                Message::Hello { kernel, .. } => self.kernel = kernel,
                Message::Tool(result) => self.tools.push(result),
                Message::Pyverbs(result) => self.suite.push(result),
                Message::End {} => ended = true,
            }
        }
        if !ended {
            self.problems.push("the guest's scripts ended early".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(lines: &str) -> Results {
        let mut results = Results::default();
        results.listen(lines.as_bytes(), &mut |_| {});
        results
    }

    const HELLO: &str = r#"{"say":"hello","kernel":"6.12","devices":["mlx5_0"]}"#;
    const TEST: &str =
        r#"{"say":"pyverbs","name":"a.B.c","seconds":0.5,"result":"died","reason":"why"}"#;
    const END: &str = r#"{"say":"end"}"#;

    #[test]
    fn what_the_guest_says_is_kept() {
        let results = listen(&format!("{HELLO}\n{TEST}\n{END}\n"));
        assert_eq!(results.kernel, "6.12");
        assert_eq!(results.suite[0].result, crate::Outcome::Died);
        assert_eq!(results.problems, Vec::<String>::new());
    }

    #[test]
    fn a_guest_that_ends_early_or_talks_nonsense_is_a_failure() {
        for text in
            [format!("{HELLO}\n{TEST}\n"), format!("{HELLO}\nPanic\n{END}\n"), String::new()]
        {
            assert_eq!(listen(&text).problems.len(), 1, "{text}");
        }
    }
}

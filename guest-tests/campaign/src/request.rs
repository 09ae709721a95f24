//! What a user asks for: a campaign, a list of its cases, several results as one.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use qemu_config::{Options, Stop};

use crate::Error;
use crate::case::{Case, Choice};
use crate::result::CaseResult;
use crate::run::Campaign;
use crate::store::{Header, Results, Store};
use crate::workload::Workload;

/// A campaign that somebody asks for.
#[derive(Debug)]
pub struct Request {
    /// What the guest does.
    pub workload: Workload,
    /// As the user named it.
    pub workload_argument: String,
    /// As the user named it.
    pub kernel_argument: String,
    /// The guest, with card and without a job.
    pub options: Options,
    /// Which cases.
    pub choice: Choice,
    /// Only the cases whose names contain this.
    pub only: Option<String>,
    /// Only the case of this name.
    pub case: Option<String>,
    /// Where results are kept; those that are there already are not made again.
    pub dir: PathBuf,
}

/// Makes the driver fill no cache of keys, which it does not without this profile (`mlx5_core`, `main.c`).
const NO_PREFILL: &str = "mlx5_core.prof_sel=1";

impl Request {
    fn options(&self) -> Options {
        let mut options = self.options.clone();
        if !self.workload.prefill {
            options.append.push(NO_PREFILL.to_owned());
        }
        options
    }

    /// The cases that are asked for.
    fn chosen<'a>(&self, header: &'a Header) -> Vec<Case<'a>> {
        let mut cases = self.choice.cases(&self.workload, &header.steps);
        cases.retain(|case| {
            let name = case.to_string();
            self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
                && self.case.as_ref().is_none_or(|wanted| *wanted == name)
        });
        cases
    }

    /// Runs all cases that have no result yet.
    pub fn run(&self, stop: &Stop) -> Result<Results, Error> {
        let options = self.options();
        let _lock = Store::lock(&self.dir)?;
        let earlier = Store::read(&self.dir)?;
        let (mut campaign, mut header) =
            Campaign::begin(&self.workload, &options, self.choice, stop)?;
        header.workload_argument.clone_from(&self.workload_argument);
        header.kernel_argument.clone_from(&self.kernel_argument);
        let mut results = match earlier {
            None => Results { header, cases: Vec::new() },
            Some(earlier) => {
                let shard = earlier.header.choice.shard != header.choice.shard;
                let differs = earlier.header.difference(&header).or(shard.then_some("--shard"));
                if let Some(what) = differs {
                    return Err(Error::Results(format!(
                        "{} holds results of another campaign ({what} differs): name another --out",
                        self.dir.display()
                    )));
                }
                earlier
            }
        };
        let mut store = Store::open(&self.dir, &results)?;
        let header = results.header.clone();
        if let Some(case) = self.case.as_ref().filter(|_| self.chosen(&header).is_empty()) {
            return Err(Error::Results(format!("{case}: there is no such case (see --list)")));
        }
        let mut cases = self.chosen(&header);
        cases.retain(|case| {
            let name = case.to_string();
            !results.cases.iter().any(|done| done.case == name)
        });
        let bar = progress(&cases);
        // A case's result is written when the next has shown that the driver still binds.
        let mut last: Option<CaseResult> = None;
        let mut failed = None;
        for case in &cases {
            bar.set_message(case.to_string());
            let before = last.as_mut().filter(|last| !last.rebooted);
            let result = match campaign.case(case, before) {
                Ok(result) => result,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            };
            tell(&bar, &result);
            bar.inc(milliseconds(case.costs()));
            if let Some(done) = last.replace(result) {
                store.add(&done)?;
                results.cases.push(done);
            }
        }
        if let Some(done) = last {
            store.add(&done)?;
            results.cases.push(done);
        }
        bar.finish_and_clear();
        log::info!("{} cases are done, in {} guests", results.cases.len(), campaign.boots());
        failed.map_or(Ok(results), Err)
    }
}

/// The names of the cases that a campaign would run.
pub fn list(request: &Request, stop: &Stop) -> Result<Vec<String>, Error> {
    let options = request.options();
    let (_, header) = Campaign::begin(&request.workload, &options, request.choice, stop)?;
    Ok(request.chosen(&header).iter().map(Case::to_string).collect())
}

/// Reads the results of several directories. Parts of the same campaign become one.
pub fn merge(dirs: &[PathBuf]) -> Result<Vec<Results>, Error> {
    let mut merged: Vec<Results> = Vec::new();
    for dir in dirs {
        let results = read(dir)?;
        let same =
            merged.iter_mut().find(|known| known.header.difference(&results.header).is_none());
        let Some(known) = same else {
            merged.push(results);
            continue;
        };
        for case in results.cases {
            if known.cases.iter().any(|done| done.case == case.case) {
                let dir = dir.display();
                return Err(Error::Results(format!("{dir}: {} is done twice", case.case)));
            }
            known.cases.push(case);
        }
        known.header.choice.shard = crate::Shard::WHOLE;
    }
    Ok(merged)
}

fn read(dir: &Path) -> Result<Results, Error> {
    Store::read(dir)?
        .ok_or_else(|| Error::Results(format!("{} holds no results of a campaign", dir.display())))
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn progress(cases: &[Case<'_>]) -> ProgressBar {
    let total = cases.iter().map(|case| milliseconds(case.costs())).sum();
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent}%, {eta} left  {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// Findings as they come; without a terminal, every case.
fn tell(bar: &ProgressBar, result: &CaseResult) {
    let line = |rest: &str| format!("{} ({:.1} s): {rest}", result.case, result.seconds);
    bar.suspend(|| {
        if !std::io::stderr().is_terminal() {
            let fired = if result.fired == 0 { " (not reached)" } else { "" };
            log::info!("{}", line(&format!("{}{fired}", result.reaction())));
        }
        for finding in &result.findings {
            log::warn!("{}", line(&format!("{}: {}", finding.kind, finding.what)));
        }
    });
}

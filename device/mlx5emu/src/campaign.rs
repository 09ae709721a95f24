//! `mlx5emu campaign`: fails every step of the guest's driver and looks for damage.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::campaign::{CaseResult, Choice, Error, Report, Request, Results, Shard, Workload};
use qemu_config::{CARD_LOST, DAMAGED, FAULT_MISSED, Job, SIGNALLED, Stop};

use crate::guest::Guest;
use crate::output::fail;
use crate::{CANNOT_START, USAGE};

/// Options of `campaign`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Campaign {
    #[command(subcommand)]
    command: Option<Command>,
    /// What the guest does: probe, reg_mr, rc-traffic, unload, or a file (docs/campaign.md)
    #[arg(long, value_name = "NAME|FILE", required = true)]
    workload: Option<String>,
    #[command(flatten)]
    guest: Guest,
    /// Only this part of the cases, from 0 to N-1; schedulers' variables say it too
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Decides which steps are taken between the first and the last of a class
    #[arg(long, value_name = "S", default_value = "0")]
    seed: u64,
    /// Every step, not three of each class
    #[arg(long)]
    full: bool,
    /// Only cases whose names contain this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Only the case of this name
    #[arg(long, value_name = "NAME", conflicts_with_all = ["only", "full", "shard"])]
    case: Option<String>,
    /// Say which cases there are, and run none
    #[arg(long)]
    list: bool,
    /// Directory of the results; what is done already is not done again [default: campaign-WORKLOAD-KERNEL]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Join results of several directories in one report
    Merge {
        /// Directory of the report
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Directories of results
        #[arg(required = true, value_name = "DIR")]
        dirs: Vec<PathBuf>,
    },
}

impl Campaign {
    /// Runs it; the exit status is described in `docs/exit-status.md`.
    pub fn run(self) -> ExitCode {
        if let Some(Command::Merge { out, dirs }) = &self.command {
            let merged = ::campaign::merge(dirs).and_then(|results| {
                let status = show(&results, out)?;
                say_where(out);
                Ok(status)
            });
            return match merged {
                Ok(status) => ExitCode::from(status),
                Err(error) => fail(USAGE, error),
            };
        }
        let mut failed = None;
        let code = self.guest.supervised(|stop| {
            Ok(self.campaign(stop).unwrap_or_else(|error| {
                let status = status_of(&error);
                failed = Some(error);
                status
            }))
        });
        if let Some(error) = failed {
            eprintln!("mlx5emu: {error}");
        }
        code
    }

    fn campaign(&self, stop: &Stop) -> Result<u8, Error> {
        let (request, temporary) = self.request()?;
        if self.list {
            for name in ::campaign::list(&request, stop)? {
                println!("{name}");
            }
            return Ok(0);
        }
        let results = request.run(stop)?;
        if self.case.is_some() {
            results.cases.iter().for_each(tell);
        }
        let status = show(std::slice::from_ref(&results), &request.dir)?;
        if temporary.is_none() {
            say_where(&request.dir);
        }
        Ok(status)
    }

    fn request(&self) -> Result<(Request, Option<tempfile::TempDir>), Error> {
        if self.guest.has_faults() {
            let why = "campaign makes its own fault rules: no --faults";
            return Err(Error::Results(why.to_owned()));
        }
        let argument = self.workload.clone().unwrap_or_default();
        let workload = Workload::find(&argument)?;
        let shard = match self.shard {
            Some(shard) => shard,
            None if self.case.is_some() => Shard::WHOLE,
            None => Shard::of_scheduler(|name| std::env::var(name).ok())
                .map_err(Error::Results)?
                .unwrap_or(Shard::WHOLE),
        };
        let mut options = self.guest.options(Job::Command(Vec::new()))?;
        if let Some(card) = &mut options.card {
            card.arguments.push("--fast-timeouts".into());
        }
        let kernel = self.guest.kernel().to_string();
        // One case that is looked at again does not go with the results of a campaign.
        let temporary = (self.case.is_some() && self.out.is_none()).then(tempfile::tempdir);
        let temporary = temporary
            .transpose()
            .map_err(|source| Error::File { path: std::env::temp_dir(), source })?;
        let part = if shard == Shard::WHOLE { String::new() } else { format!("-{}", shard.index) };
        let file = |text: &str| text.rsplit('/').next().unwrap_or(text).to_owned();
        let usual = format!("campaign-{}-{}{part}", workload.name, file(&kernel));
        let dir = match (&self.out, &temporary) {
            (Some(out), _) => out.clone(),
            (None, Some(temporary)) => temporary.path().to_owned(),
            (None, None) => usual.into(),
        };
        let request = Request {
            workload,
            workload_argument: argument,
            kernel_argument: kernel,
            options,
            choice: Choice { full: self.full || self.case.is_some(), seed: self.seed, shard },
            only: self.only.clone(),
            case: self.case.clone(),
            dir,
        };
        Ok((request, temporary))
    }
}

/// Writes the reports and shows the table; the exit status.
fn show(results: &[Results], dir: &Path) -> Result<u8, Error> {
    let report = Report::new(results);
    let xml = report.junit().map_err(Error::Results)?;
    std::fs::create_dir_all(dir).map_err(|source| Error::File { path: dir.to_owned(), source })?;
    let files =
        [("junit.xml", xml), ("report.html", report.html()), ("findings.md", report.markdown())];
    for (name, text) in files {
        let path = dir.join(name);
        std::fs::write(&path, text).map_err(|source| Error::File { path, source })?;
    }
    print!("{report}");
    Ok(match (report.has_findings(), report.has_unreached()) {
        (true, _) => DAMAGED,
        (false, true) => FAULT_MISSED,
        (false, false) => 0,
    })
}

fn say_where(dir: &Path) {
    println!("Everything: {}", dir.join("report.html").display());
}

/// What each phase of a case did, and what the kernel said.
fn tell(case: &CaseResult) {
    for (phase, done) in &case.phases {
        println!("{}, {} ms: {}", phase.name(), done.ms, done.output.trim());
        for line in &done.log {
            println!("  | {line}");
        }
    }
}

fn status_of(error: &Error) -> u8 {
    match error {
        Error::Card(_) => CARD_LOST,
        Error::Stopped => SIGNALLED,
        _ => CANNOT_START,
    }
}

//! `verbs`: runs RDMA tools and rdma-core's own tests in a guest, or measures.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::io::{IsTerminal as _, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use qemu_config::{Kernel, Stop};
use verbs::report::{Report, Summary};
use verbs::{Request, Results, speed, suite, tools};

/// Seconds that one measurement may take.
const SPEED_LIMIT: u32 = 120;

/// RDMA tools and rdma-core's own tests in a guest with the card
#[derive(Debug, Parser)]
#[command(name = "verbs")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the table of tools and rdma-core's own tests
    Check(Check),
    /// Measure the card beside soft-RoCE
    Speed {
        #[command(flatten)]
        guest: Guest,
    },
}

#[derive(Debug, Args)]
struct Guest {
    /// The guest's kernel
    #[arg(long, default_value = "6.12", value_name = "VERSION|PATH")]
    kernel: Kernel,
    /// Stop the guest after so many seconds
    #[arg(long, default_value = "1800", value_name = "SECONDS")]
    timeout: u64,
    /// The program that is the card; without it, mlx5emu beside this program
    #[arg(long, value_name = "PROGRAM")]
    card: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Check {
    #[command(flatten)]
    guest: Guest,
    /// Only tools and tests with this text in their names (repeatable)
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    only: Vec<String>,
    /// Without rdma-core's own tests
    #[arg(long, conflicts_with = "no_tools")]
    no_suite: bool,
    /// Without the tools
    #[arg(long)]
    no_tools: bool,
    /// Test soft-RoCE instead of the card
    #[arg(long)]
    soft_roce: bool,
    /// Write what rdma-core's tests came to into this file instead of comparing it with the table
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Write a summary for the README's table into this file
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
}

fn main() -> ExitCode {
    env_logger::Builder::new().filter_level(log::LevelFilter::Info).init();
    let good = match Cli::parse().command {
        Command::Check(check) => check.run(),
        Command::Speed { guest } => guest.speed(),
    };
    match good {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("verbs: {error}");
            ExitCode::from(125)
        }
    }
}

impl Guest {
    fn request(&self) -> Result<Request, std::io::Error> {
        let card = match &self.card {
            Some(card) => card.clone(),
            None => std::env::current_exe()?.with_file_name("mlx5emu"),
        };
        Ok(Request {
            kernel: self.kernel.clone(),
            card,
            device: "mlx5_0".to_owned(),
            soft_roce: false,
            tools: Vec::new(),
            suite: None,
            timeout: Duration::from_secs(self.timeout),
        })
    }

    fn speed(&self) -> Result<bool, Box<dyn Error>> {
        let tools = speed::tools(SPEED_LIMIT);
        let request = Request { soft_roce: true, tools, ..self.request()? };
        let (results, good) = follow(&request, |_| Ok(Vec::new()))?;
        println!("\nLinux {}\n\n{}", results.kernel, speed::table(&results.tools));
        Ok(good)
    }
}

impl Check {
    fn run(&self) -> Result<bool, Box<dyn Error>> {
        let wanted =
            |name: &str| self.only.is_empty() || self.only.iter().any(|text| name.contains(text));
        let mut tools = if self.no_tools { Vec::new() } else { tools::parse(tools::TOOLS)? };
        tools.retain(|tool| wanted(&tool.name));
        let request = Request {
            device: if self.soft_roce { "rxe0" } else { "mlx5_0" }.to_owned(),
            soft_roce: self.soft_roce,
            tools,
            suite: (!self.no_suite).then(|| self.only.clone()),
            ..self.guest.request()?
        };
        let (results, good) = follow(&request, |results| self.differences(results))?;
        if let Some(file) = &self.summary {
            write(file, &serde_json::to_string_pretty(&Summary::new(&results, &request.tools))?)?;
        }
        Ok(good)
    }

    /// What differs from the table of rdma-core's tests. There is none of some tests, of soft-RoCE, and
    /// without the subnet manager that the tools begin.
    fn differences(&self, results: &Results) -> Result<Vec<String>, std::io::Error> {
        if let Some(file) = &self.write {
            write(file, &suite::format(&results.suite))?;
        } else if !(self.no_suite || self.no_tools || self.soft_roce) && self.only.is_empty() {
            return Ok(suite::compare(&suite::parse(suite::TABLE), &results.suite));
        }
        Ok(Vec::new())
    }
}

/// Runs a guest and shows what comes; whether all is good.
fn follow(
    request: &Request,
    differences: impl FnOnce(&Results) -> Result<Vec<String>, std::io::Error>,
) -> Result<(Results, bool), Box<dyn Error>> {
    let (mut out, colour) = (stdout(), stdout().is_terminal());
    let mut report = Report::new(&mut out, colour);
    let mut shown = Ok(());
    let results = verbs::run(request, &Stop::new()?, |message| {
        if shown.is_ok() {
            shown = report.message(message, &request.tools);
        }
    })?;
    shown?;
    let differences = differences(&results)?;
    let good = report.end(&results, &differences)?;
    Ok((results, good))
}

fn write(file: &Path, text: &str) -> Result<(), std::io::Error> {
    fs::write(file, text)
        .map_err(|error| std::io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}

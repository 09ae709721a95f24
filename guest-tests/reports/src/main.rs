//! `reports`: public reports about mlx5, run in stock guests.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::io::{IsTerminal as _, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, Parser, Subcommand};
use reports::catalogue::{self, Report};
use reports::show::Show;
use reports::shown::{self, Shown};
use reports::tables::Others;
use reports::{Request, junit, page};

/// Public reports about mlx5, each as a plan of faults and a guest script
#[derive(Debug, Parser)]
#[command(name = "reports")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say which reports there are
    List {
        #[command(flatten)]
        which: Which,
    },
    /// Run them, in as few guests as possible
    Run(Run),
    /// Renew a page from what runs have shown (`run --results`)
    Page {
        /// The page
        page: PathBuf,
        /// Files of results; several of one kernel are taken together
        #[arg(required = true)]
        results: Vec<PathBuf>,
        /// Write nothing; fail when the page says something else
        #[arg(long)]
        check: bool,
        /// The directory of reports that the page is about
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Which {
    /// Names, such as A1; without them, all
    names: Vec<String>,
    /// Where the reports are; may be given several times
    #[arg(long, value_name = "DIR", default_values = catalogue::HERE)]
    dir: Vec<PathBuf>,
    /// Only the most telling ones that take little time
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    which: Which,
    /// The guest's kernel: Debian's 6.1, 6.12 or latest, or a bzImage or vmlinux of your own
    #[arg(long, default_value = "6.12", value_name = "VERSION|PATH")]
    kernel: String,
    /// The program that is the card; without it, mlx5emu beside this program
    #[arg(long, value_name = "PROGRAM")]
    card: Option<PathBuf>,
    /// Write JUnit's XML into this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write what was shown into this file, for `page`
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Show what kept promises were seen by, kernel logs, and the card's messages
    #[arg(short, long)]
    verbose: bool,
}

fn main() -> ExitCode {
    env_logger::Builder::new().filter_level(log::LevelFilter::Info).parse_default_env().init();
    let good = match Cli::parse().command {
        Command::List { which } => which.list(),
        Command::Run(run) => run.run(),
        Command::Page { page, results, check, dir } => renew(&page, &results, check, &dir),
    };
    match good {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("reports: {error}");
            ExitCode::from(125)
        }
    }
}

impl Which {
    fn read(&self) -> Result<Vec<Report>, String> {
        let mut reports = catalogue::read(&self.dir, &self.names)?;
        reports.retain(|report| !self.quick || report.about.quick);
        Ok(reports)
    }

    fn list(&self) -> Result<bool, Box<dyn Error>> {
        for Report { id, about, .. } in self.read()? {
            println!("{id:4} {}", about.title);
            about.links.iter().for_each(|link| println!("     {link}"));
        }
        Ok(true)
    }
}

impl Run {
    fn run(&self) -> Result<bool, Box<dyn Error>> {
        let reports = self.which.read()?;
        let card = match &self.card {
            Some(card) => card.clone(),
            None => std::env::current_exe()?.with_file_name("mlx5emu"),
        };
        let request = Request { kernel: self.kernel.parse()?, card, talks: self.verbose };
        let (mut out, colour) = (stdout(), stdout().is_terminal());
        let mut show = Show::new(&mut out, colour, self.verbose);
        let mut shown = Ok(());
        let began = Instant::now();
        let results = reports::run(&request, &reports, |judgement, seen| {
            if shown.is_ok() {
                shown = show.judgement(&reports, judgement, seen);
            }
        })?;
        shown?;
        let good = show.end(&results)?;
        log::info!("{:.0} s", began.elapsed().as_secs_f32());
        if let Some(file) = &self.junit {
            write(file, &junit::xml(&results)?)?;
        }
        if let Some(file) = &self.results {
            write(file, &serde_json::to_string_pretty(&Shown::new(&self.kernel, &results))?)?;
        }
        Ok(good)
    }
}

fn renew(
    file: &Path,
    results: &[PathBuf],
    check: bool,
    dir: &Path,
) -> Result<bool, Box<dyn Error>> {
    let old = fs::read_to_string(file)?;
    let reports = catalogue::read(&[dir.to_owned()], &[])?;
    let new = page::renewed(&old, &reports, &Others::read(dir)?, &shown::read(results)?)?;
    if !check {
        write(file, &new)?;
    } else if old != new {
        eprintln!("reports: {} is not what the guests show", file.display());
        return Ok(false);
    }
    Ok(true)
}

fn write(file: &Path, text: &str) -> Result<(), std::io::Error> {
    fs::write(file, text)
        .map_err(|error| std::io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}

//! The program `mlx5emu`: one file a subcommand.

mod cache;
mod campaign;
mod config;
mod ctl;
mod demonstration;
mod explain;
mod guest;
mod output;
mod qemu_args;
mod replay;
mod run;
mod serve;
mod trace;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgAction, Args, Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "mlx5emu", version, about, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    verbosity: Verbosity,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct Verbosity {
    /// Say more on standard error (twice: everything)
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
    /// Say only what is wrong
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Be a card for QEMU
    Serve(serve::Serve),
    /// Boot a guest with the card and run a command in it
    Run(run::Run),
    /// Run a command and tell what its verbs calls did, from the library to the card
    Explain(explain::Explain),
    /// Fail every step of the guest's driver in every way, and look for damage
    Campaign(campaign::Campaign),
    /// Ask a running card
    Ctl(ctl::Ctl),
    /// Show a trace
    Trace(trace::Trace),
    /// Play a recording to a new card and compare what it answers
    Replay(replay::Replay),
    /// Show or clear what `run` keeps between runs
    Cache(cache::Cache),
}

/// Exit status of `run`, `explain` and `campaign` when they could not start, a bad option among the reasons.
const CANNOT_START: u8 = 125;
/// Exit status of the other commands for bad usage.
const USAGE: u8 = 2;
/// Exit status of a command that is done: the answer is no.
const NO: u8 = 1;
/// Exit status of `serve` when it had to stop.
const FAILED: u8 = 1;
/// Exit status of `serve` when a fault rule that must fire never did.
const FAULT_MISSED: u8 = qemu_config::FAULT_MISSED_BY_CARD;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    // What a card says while it is played a recording it has said before.
    let usual = match cli.command {
        Command::Replay(_) => log::LevelFilter::Error,
        _ => log::LevelFilter::Info,
    };
    start_log(&cli.verbosity, usual);
    match cli.command {
        Command::Serve(serve) => serve.run(),
        Command::Run(run) => run.run(),
        Command::Explain(explain) => explain.run(),
        Command::Campaign(campaign) => campaign.run(),
        Command::Ctl(ctl) => ctl.run(),
        Command::Trace(trace) => trace.run(),
        Command::Replay(replay) => replay.run(),
        Command::Cache(cache) => cache.run(),
    }
}

/// Help and version go to standard output; anything else is one line on standard error.
fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Nobody reads it: nothing else to do.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "no command given".into(),
        _ => error.to_string(),
    };
    let line: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let line = line.join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    eprintln!("mlx5emu: {line} (see mlx5emu --help)");
    let command = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let starts_a_guest = matches!(command.as_deref(), Some("run" | "explain" | "campaign"));
    ExitCode::from(if starts_a_guest { CANNOT_START } else { USAGE })
}

fn start_log(verbosity: &Verbosity, usual: log::LevelFilter) {
    use std::io::Write as _;

    let level = match (verbosity.quiet, verbosity.verbose) {
        (true, _) => usual.min(log::LevelFilter::Warn),
        (false, 0) => usual,
        (false, 1) => log::LevelFilter::Debug,
        (false, _) => log::LevelFilter::Trace,
    };
    env_logger::Builder::new()
        .filter_level(level)
        .parse_env("MLX5EMU_LOG")
        .format(|out, record| match record.level() {
            log::Level::Info => writeln!(out, "mlx5emu: {}", record.args()),
            level => {
                writeln!(out, "mlx5emu: {}: {}", level.as_str().to_lowercase(), record.args())
            }
        })
        .init();
}

//! Campaigns: every step that a driver takes with the card is failed in every way that fits, and each
//! time the guest is looked at for damage.
//!
//! A clean run shows the steps (`steps`), which fall into classes (`class`); `failure` has the ways in
//! which each can be failed, `case` what is chosen of all that. `lab` is a guest with a card, `agent`
//! the talk with the program in it, `run` goes through the cases, `judge` says what is damage. Results
//! (`result`) are kept in a directory (`store`) and shown (`report`).
#![forbid(unsafe_code)]

mod agent;
mod case;
mod class;
mod failure;
mod judge;
mod lab;
mod programs;
mod report;
mod request;
mod result;
mod run;
mod shard;
mod signature;
mod steps;
mod store;
mod workload;

use std::path::PathBuf;

pub use agent::{Done, Stuck};
pub use case::Choice;
pub use class::Class;
pub use report::Report;
pub use request::{Request, list, merge};
pub use result::{CaseResult, Finding, Kind};
pub use shard::Shard;
pub use steps::Steps;
pub use store::{Header, Results};
pub use workload::{Phase, Workload};

/// Why a campaign could not begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such workload.
    #[error("workload {0}")]
    Workload(String),
    /// The guest could not be started.
    #[error(transparent)]
    Guest(#[from] qemu_config::Error),
    /// Without any fault something failed.
    #[error("the clean run: {0}")]
    Clean(String),
    /// The card did not answer.
    #[error("the card: {0}")]
    Card(String),
    /// The trace of the clean run.
    #[error("the trace of the clean run: {0}")]
    Trace(trace::TraceError),
    /// A file.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Results of an earlier run.
    #[error("{0}")]
    Results(String),
    /// Somebody wanted it to stop.
    #[error("stopped; the same command goes on")]
    Stopped,
}

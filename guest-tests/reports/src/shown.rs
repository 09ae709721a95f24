//! What a run with one kernel has shown, as a file that a page is made from later.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::boot::Results;
use crate::catalogue::Report;
use crate::judge::Judgement;

/// What a run with one kernel has shown, as a file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Shown {
    /// What it was asked for: `6.12`, `latest`.
    pub asked: String,
    /// The kernel's release.
    pub kernel: String,
    /// Each report's.
    pub judgements: Vec<Judgement>,
}

impl Shown {
    /// Of this run.
    pub fn new(asked: &str, results: &Results) -> Self {
        Self {
            asked: asked.to_owned(),
            kernel: results.kernel.clone(),
            judgements: results.judgements.clone(),
        }
    }

    /// What it says of a report.
    pub(crate) fn of(&self, report: &Report) -> Option<&Judgement> {
        self.judgements.iter().find(|one| one.report == report.name)
    }
}

/// Reads what runs have shown.
pub fn read(files: &[impl AsRef<Path>]) -> Result<Vec<Shown>, String> {
    let one = |file: &Path| {
        let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    };
    let named = |file: &Path| one(file).map_err(|why| format!("{}: {why}", file.display()));
    files.iter().map(|file| named(file.as_ref())).collect()
}

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

    /// Adds what another run has shown.
    fn take(&mut self, newer: Self) {
        self.judgements.retain(|old| !newer.judgements.iter().any(|new| new.report == old.report));
        self.judgements.extend(newer.judgements);
        self.kernel = newer.kernel;
    }

    /// What it says of a report.
    pub(crate) fn of(&self, report: &Report) -> Option<&Judgement> {
        self.judgements.iter().find(|one| one.report == report.name)
    }
}

/// Reads what runs have shown. Several runs of one kernel are one; what was run again counts as it was
/// the last time.
pub fn read(files: &[impl AsRef<Path>]) -> Result<Vec<Shown>, String> {
    let one = |file: &Path| -> Result<Shown, String> {
        let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    };
    let mut all: Vec<Shown> = Vec::new();
    for file in files.iter().map(AsRef::as_ref) {
        let new = one(file).map_err(|why| format!("{}: {why}", file.display()))?;
        match all.iter_mut().find(|known| known.asked == new.asked) {
            Some(known) => known.take(new),
            None => all.push(new),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_kernel_are_one() {
        let dir = tempfile::tempdir().unwrap();
        let judged = |report: &str, seconds| Judgement {
            report: report.to_owned(),
            rows: Vec::new(),
            seconds,
        };
        let files: Vec<_> = [
            ("6.12", vec![judged("A", 1.0), judged("B", 1.0)]),
            ("6.1", vec![judged("A", 1.0)]),
            ("6.12", vec![judged("B", 2.0), judged("C", 2.0)]),
        ]
        .into_iter()
        .enumerate()
        .map(|(number, (asked, judgements))| {
            let shown = Shown { asked: asked.to_owned(), kernel: String::new(), judgements };
            let file = dir.path().join(number.to_string());
            std::fs::write(&file, serde_json::to_string(&shown).unwrap()).unwrap();
            file
        })
        .collect();
        let all = read(&files).unwrap();
        let of = |shown: &Shown| -> Vec<(String, f64)> {
            shown.judgements.iter().map(|one| (one.report.clone(), one.seconds)).collect()
        };
        assert_eq!(all.len(), 2);
        let first = [("A", 1.0), ("B", 2.0), ("C", 2.0)].map(|(name, s)| (name.to_owned(), s));
        assert_eq!(of(&all[0]), first);
    }
}

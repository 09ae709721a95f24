//! `docs/reports.md` and `docs/reactions.md`: what the guests have shown, between two marks of the page.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::boot::Results;
use crate::catalogue::Report;
use crate::judge::Judgement;
use crate::tables::{Others, tables};

const BEGIN: &str = "<!-- reports: `reports page` writes this -->";
const END: &str = "<!-- end of reports -->";

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
}

/// The page with its tables renewed; text outside of the marks stays.
pub fn renewed(
    page: &str,
    reports: &[Report],
    others: &Others,
    shown: &[Shown],
) -> Result<String, String> {
    let (before, rest) = page.split_once(BEGIN).ok_or("the page has no mark to begin at")?;
    let (_, after) = rest.split_once(END).ok_or("the page has no mark to end at")?;
    Ok(format!("{before}{BEGIN}\n\n{}\n{END}{after}", tables(reports, others, shown)))
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

impl Shown {
    pub(crate) fn of(&self, report: &Report) -> Option<&Judgement> {
        self.judgements.iter().find(|one| one.report == report.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_outside_of_the_marks_stays() {
        let page = format!("above\n{BEGIN}\nold\n{END}\nbelow\n");
        let new = renewed(&page, &[], &Others::default(), &[]).unwrap();
        assert!(new.starts_with("above\n") && new.ends_with("\nbelow\n") && !new.contains("old"));
        assert!(renewed("nothing", &[], &Others::default(), &[]).is_err());
    }
}

//! `docs/reports.md`: what the guests have shown, and what other reports would need.

use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::boot::Results;
use crate::catalogue::Report;
use crate::judge::{Judgement, Verdict};

/// Reports that are not made yet.
const OTHERS: &str = include_str!("../others.toml");
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Others {
    other: Vec<Other>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Other {
    id: String,
    title: String,
    link: String,
    needs: String,
}

/// The page with its tables renewed; text outside of the marks stays.
pub fn renewed(page: &str, reports: &[Report], shown: &[Shown]) -> Result<String, String> {
    let (before, rest) = page.split_once(BEGIN).ok_or("the page has no mark to begin at")?;
    let (_, after) = rest.split_once(END).ok_or("the page has no mark to end at")?;
    Ok(format!("{before}{BEGIN}\n\n{}\n{END}{after}", tables(reports, shown)?))
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

fn tables(reports: &[Report], shown: &[Shown]) -> Result<String, String> {
    let mut text = String::from("| | report | what is shown |");
    for one in shown {
        let _ = write!(text, " {} ({}) |", one.asked, one.kernel);
    }
    let _ = writeln!(text, "\n| --- | --- | --- |{}", " --- |".repeat(shown.len()));
    for report in reports {
        let links: Vec<String> = report.about.links.iter().map(|link| linked(link)).collect();
        let (id, title, shows) = (&report.id, &report.about.title, &report.about.shows);
        let shows = shows.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = write!(text, "| {id} | {title}: {} | {shows} |", links.join(", "));
        for one in shown {
            let word = one.of(report).map_or("-", Judgement::word);
            let _ = write!(text, " {word} |");
        }
        text.push('\n');
    }
    text.push_str("\n## Findings\n\n");
    for report in reports {
        for finding in &report.about.finding {
            let seen_by: Vec<&str> = shown
                .iter()
                .filter(|one| one.found(report, &finding.instead))
                .map(|one| one.kernel.as_str())
                .collect();
            if seen_by.is_empty() {
                continue;
            }
            let (id, instead) = (&report.id, finding.instead.trim_end_matches('.'));
            let promised = report.about.promise.iter().find(|one| one.name == finding.promise);
            let promised = promised.map_or("the kernel reports no damage", |one| one.says.as_str());
            let _ = writeln!(
                text,
                "- **{id}**, {}: {instead}. Promised: {promised}.",
                seen_by.join(", ")
            );
            let _ = writeln!(text, "  `{}`", finding.log);
        }
    }
    text.push_str("\n## Not made\n\n| | report | needs |\n| --- | --- | --- |\n");
    let others: Others = toml::from_str(OTHERS).map_err(|error| format!("others.toml: {error}"))?;
    for Other { id, title, link, needs } in others.other {
        let _ = writeln!(text, "| {id} | {title}: {} | {needs} |", linked(&link));
    }
    Ok(text)
}

impl Shown {
    fn of(&self, report: &Report) -> Option<&Judgement> {
        self.judgements.iter().find(|one| one.report == report.name)
    }

    fn found(&self, report: &Report, instead: &str) -> bool {
        let rows = self.of(report).into_iter().flat_map(|one| &one.rows);
        rows.into_iter()
            .any(|row| matches!(&row.verdict, Verdict::Finding(what) if what == instead))
    }
}

/// A link by a short name.
fn linked(link: &str) -> String {
    let rest = link.trim_start_matches("https://").trim_end_matches('/');
    let short = rest
        .strip_prefix("github.com/")
        .map(|path| path.replace("/issues/", "#").replace("/pull/", "#"))
        .or_else(|| rest.strip_prefix("git.kernel.org/torvalds/c/").map(|c| format!("commit {c}")))
        .unwrap_or_else(|| rest.split('/').next().unwrap_or(rest).to_owned());
    format!("[{short}]({link})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names() {
        let cases = [
            ("https://github.com/a/b/issues/3", "a/b#3"),
            ("https://git.kernel.org/torvalds/c/f0c2", "commit f0c2"),
            ("https://lore.kernel.org/all/x/", "lore.kernel.org"),
        ];
        for (link, name) in cases {
            assert_eq!(linked(link), format!("[{name}]({link})"));
        }
    }

    #[test]
    fn what_is_outside_of_the_marks_stays() {
        let page = format!("above\n{BEGIN}\nold\n{END}\nbelow\n");
        let new = renewed(&page, &[], &[]).unwrap();
        assert!(new.starts_with("above\n") && new.ends_with("\nbelow\n") && !new.contains("old"));
        assert!(renewed("nothing", &[], &[]).is_err());
    }
}

//! The tables of a page: what was reported, how the driver reacts, what does something else, what is missing.

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;

use crate::catalogue::{Promise, QUIET, Report};
use crate::judge::{Judgement, Row, Verdict};
use crate::shown::Shown;

/// `others.toml`: reports that are not made.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Others {
    #[serde(default)]
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

impl Others {
    /// Those of a directory of reports; none if it has no such file.
    pub fn read(dir: &Path) -> Result<Self, String> {
        let file = dir.join("others.toml");
        if !file.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(&file).map_err(|error| error.to_string());
        text.and_then(|text| toml::from_str(&text).map_err(|error| error.to_string()))
            .map_err(|why| format!("{}: {}", file.display(), why.trim_end()))
    }
}

/// All that there is to show.
pub(crate) fn tables(reports: &[Report], others: &Others, shown: &[Shown]) -> String {
    let (reported, own): (Vec<&Report>, Vec<&Report>) =
        reports.iter().partition(|report| !report.about.links.is_empty());
    let mut text = String::new();
    if !reported.is_empty() {
        text.push_str(&table_of_reports(&reported, shown));
    }
    for report in own {
        text.push_str(&table_of_promises(report, shown));
    }
    text.push_str(&findings(reports, shown));
    if !others.other.is_empty() {
        text.push_str("\n## Not made\n\n| | report | needs |\n| --- | --- | --- |\n");
    }
    for Other { id, title, link, needs } in &others.other {
        let _ = writeln!(text, "| {id} | {title}: {} | {needs} |", linked(link));
    }
    text
}

/// The first lines of a table with a column for each kernel.
fn head(columns: &str, shown: &[Shown]) -> String {
    let kernels = shown.iter().map(|one| format!(" {} ({}) |", one.asked, one.kernel));
    let rule = " --- |".repeat(columns.matches('|').count().saturating_sub(1) + shown.len());
    format!("{columns}{}\n|{rule}\n", kernels.collect::<String>())
}

/// Reports, a row each.
fn table_of_reports(reports: &[&Report], shown: &[Shown]) -> String {
    let mut text = head("| | report | what is shown |", shown);
    for report in reports {
        let links: Vec<String> = report.about.links.iter().map(|link| linked(link)).collect();
        let (id, title, shows) = (&report.id, &report.about.title, one_line(&report.about.shows));
        let _ = write!(text, "| {id} | {title}: {} | {shows} |", links.join(", "));
        for one in shown {
            let _ = write!(text, " {} |", one.of(report).map_or("-", Judgement::word));
        }
        text.push('\n');
    }
    text
}

/// What one directory promises, a row each.
fn table_of_promises(report: &Report, shown: &[Shown]) -> String {
    let (title, shows) = (&report.about.title, one_line(&report.about.shows));
    let mut text = format!("\n## {title}\n\n{shows} (`{}`)\n\n", report.name);
    text.push_str(&head("| | what is to happen | source |", shown));
    for Promise { name, says, source } in &report.about.promise {
        let source = if source.is_empty() { String::new() } else { format!("`{source}`") };
        let _ = write!(text, "| {name} | {} | {source} |", one_line(says));
        for one in shown {
            let rows = one.of(report).into_iter().flat_map(|one| &one.rows);
            let row = rows.into_iter().find(|row| row.promise == *name);
            let _ = write!(text, " {} |", row.map_or("-", Row::word));
        }
        text.push('\n');
    }
    text
}

/// What kernels did instead of what is promised.
fn findings(reports: &[Report], shown: &[Shown]) -> String {
    let mut text = String::from("\n## Findings\n\n");
    for report in reports {
        for finding in &report.about.finding {
            let seen_by: Vec<&str> = shown
                .iter()
                .filter(|one| found(one, report, &finding.instead))
                .map(|one| one.kernel.as_str())
                .collect();
            if seen_by.is_empty() {
                continue;
            }
            let (id, instead) = (&report.id, one_line(&finding.instead));
            let promised = report.about.promise.iter().find(|one| one.name == finding.promise);
            let promised = promised.map_or(
                if finding.promise == QUIET { "the kernel reports no damage" } else { "it ends" },
                |one| one.says.as_str(),
            );
            let _ = writeln!(
                text,
                "- **{id}**, {}: {}. Promised: {}.",
                seen_by.join(", "),
                instead.trim_end_matches('.'),
                one_line(promised).trim_end_matches('.')
            );
            let _ = writeln!(text, "  `{}`", finding.log);
        }
    }
    text
}

fn found(shown: &Shown, report: &Report, instead: &str) -> bool {
    let rows = shown.of(report).into_iter().flat_map(|one| &one.rows);
    rows.into_iter().any(|row| matches!(&row.verdict, Verdict::Finding(what) if what == instead))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
    fn a_head_has_a_column_for_each_kernel() {
        let shown =
            Shown { asked: "6.12".to_owned(), kernel: "6.12.1".to_owned(), judgements: Vec::new() };
        let head = head("| | a |", &[shown]);
        assert_eq!(head, "| | a | 6.12 (6.12.1) |\n| --- | --- | --- |\n");
    }
}

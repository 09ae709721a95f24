//! What a report came to: promises, what was seen, and what is known of this kernel.

use qemu_config::Damage;

use crate::catalogue::{ENDS, Finding, QUIET, Report};

/// What was seen while a report ran.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// Promises that were tried: name, whether kept, what was seen.
    pub rows: Vec<(String, bool, String)>,
    /// Promises that could not be tried, and why.
    pub without: Vec<(String, String)>,
    /// What is wrong with the script itself.
    pub trouble: Option<String>,
    /// Rules that must have fired and did not, and what else is wrong with the run.
    pub problems: Vec<String>,
    /// The kernel's log.
    pub log: String,
    /// Seconds that it took.
    pub seconds: f64,
}

/// What one promise came to.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was kept.
    Ok,
    /// This kernel does something else, as is known.
    Finding(String),
    /// It was not tried, for this reason.
    Without(String),
    /// Not as expected.
    Failed(String),
}

/// What one promise came to.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Row {
    /// Which.
    pub promise: String,
    /// What it came to.
    pub verdict: Verdict,
    /// What was seen.
    pub seen: String,
}

impl Row {
    /// In a word.
    pub fn word(&self) -> &'static str {
        match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Finding(_) => "finding",
            Verdict::Without(_) => "-",
            Verdict::Failed(_) => "FAILED",
        }
    }

    fn shows_something(&self) -> bool {
        self.verdict == Verdict::Ok && ![ENDS, QUIET].contains(&self.promise.as_str())
    }
}

/// What a report came to.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Judgement {
    /// The report's name.
    pub report: String,
    /// Its promises.
    pub rows: Vec<Row>,
    /// Seconds that it took.
    pub seconds: f64,
}

impl Judgement {
    /// In a word.
    pub fn word(&self) -> &'static str {
        if !self.is_good() {
            "FAILED"
        } else if self.rows.iter().any(|row| matches!(row.verdict, Verdict::Finding(_))) {
            "finding"
        } else if self.rows.iter().any(Row::shows_something) {
            "ok"
        } else {
            "-"
        }
    }

    /// Whether all is as expected.
    pub fn is_good(&self) -> bool {
        !self.rows.iter().any(|row| matches!(row.verdict, Verdict::Failed(_)))
    }
}

/// Judges what was seen with a kernel of this release.
pub fn judge(report: &Report, seen: &Seen, release: &str) -> Judgement {
    let mut rows = Vec::new();
    let findings = |name: &str| {
        let about = report.about.finding.iter();
        about.filter(|f| f.promise == name && f.is_about(release)).collect::<Vec<_>>()
    };
    let mut add = |promise: &str, kept: bool, what: &str| {
        let verdict = verdict(kept, what, &seen.log, &findings(promise));
        let (promise, seen) = (promise.to_owned(), what.to_owned());
        rows.push(Row { promise, verdict, seen });
    };
    for promise in &report.about.promise {
        let tried: Vec<_> = seen.rows.iter().filter(|row| row.0 == promise.name).collect();
        for (name, kept, what) in tried {
            add(name, *kept, what);
        }
    }
    let trouble = seen.trouble.as_deref();
    add(ENDS, trouble.is_none(), trouble.unwrap_or("the script ended"));
    let damage = damage(&seen.log, release);
    let what: Vec<&str> = damage.iter().map(|damage| damage.message.as_str()).collect();
    add(QUIET, damage.is_empty(), &what.join("; "));
    let excused =
        rows.iter().any(|row| row.promise == ENDS && matches!(row.verdict, Verdict::Finding(_)));
    for promise in &report.about.promise {
        if rows.iter().any(|row| row.promise == promise.name) {
            continue;
        }
        let without = seen.without.iter().find(|(name, _)| *name == promise.name);
        let verdict = match without {
            Some((_, why)) => Verdict::Without(why.clone()),
            None if excused => Verdict::Without("the script did not get there".to_owned()),
            None => Verdict::Failed("the script said nothing of it".to_owned()),
        };
        rows.push(Row { promise: promise.name.clone(), verdict, seen: String::new() });
    }
    for (name, _, what) in &seen.rows {
        if !report.about.promise.iter().any(|promise| promise.name == *name) {
            let verdict = Verdict::Failed("about.toml has no such promise".to_owned());
            rows.push(Row { promise: name.clone(), verdict, seen: what.clone() });
        }
    }
    for problem in &seen.problems {
        let verdict = Verdict::Failed(problem.clone());
        rows.push(Row { promise: "run".to_owned(), verdict, seen: String::new() });
    }
    Judgement { report: report.name.clone(), rows, seconds: seen.seconds }
}

/// Damage that a kernel's log shows.
pub fn damage(log: &str, release: &str) -> Vec<Damage> {
    let mut found: Vec<Damage> = Vec::new();
    for damage in log.lines().filter_map(|line| qemu_config::judge(line, release)) {
        if !found.contains(&damage) {
            found.push(damage);
        }
    }
    found
}

fn verdict(kept: bool, seen: &str, log: &str, findings: &[&Finding]) -> Verdict {
    let shown = |finding: &&&Finding| seen.contains(&finding.log) || log.contains(&finding.log);
    if kept {
        return match findings.iter().find(|finding| !finding.sometimes) {
            None => Verdict::Ok,
            Some(finding) => Verdict::Failed(format!(
                "the promise is kept, but about.toml has a finding for this kernel: {}",
                finding.instead
            )),
        };
    }
    if findings.is_empty() {
        return Verdict::Failed("the promise is not kept".to_owned());
    }
    match findings.iter().find(shown) {
        Some(finding) => Verdict::Finding(finding.instead.clone()),
        None => Verdict::Failed(
            "the promise is not kept, and not as about.toml's finding says".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::catalogue::About;

    const KERNEL: &str = "6.12.1";
    const WARN: &str = "[ 1.0] WARNING: CPU: 1 PID: 7 at drivers/x.c:3 f+0x1/0x2";

    fn report(more: &str) -> Report {
        let about: About = toml::from_str(&format!(
            "title = ''\nlinks = []\nshows = ''\n[[promise]]\nname = 'p'\nsays = ''\n{more}"
        ))
        .unwrap();
        let name = "A1-x".to_owned();
        Report { id: "A1".to_owned(), name, dir: PathBuf::new(), about, plan: Vec::new() }
    }

    fn finding(promise: &str, log: &str) -> String {
        format!(
            "[[finding]]\npromise = '{promise}'\nkernels = ['6.12']\ninstead = 'that'\nlog = '{log}'\n"
        )
    }

    fn seen(kept: bool) -> Seen {
        Seen { rows: vec![("p".to_owned(), kept, "saw this".to_owned())], ..Seen::default() }
    }

    #[test]
    fn a_promise_is_kept_or_not() {
        assert_eq!(judge(&report(""), &seen(true), KERNEL).word(), "ok");
        assert_eq!(judge(&report(""), &seen(false), KERNEL).word(), "FAILED");
        assert_eq!(judge(&report(""), &Seen::default(), KERNEL).word(), "FAILED", "not a word");
    }

    #[test]
    fn a_finding_is_what_was_seen_before_and_nothing_else() {
        let known = report(&finding("p", "this"));
        assert_eq!(judge(&known, &seen(false), KERNEL).word(), "finding");
        assert_eq!(judge(&known, &seen(true), KERNEL).word(), "FAILED", "it is kept by now");
        let mut race = known.clone();
        race.about.finding[0].sometimes = true;
        assert_eq!(judge(&race, &seen(true), KERNEL).word(), "ok", "not this time");
        assert_eq!(judge(&race, &seen(false), KERNEL).word(), "finding");
        assert_eq!(judge(&known, &seen(false), "6.1.0-1").word(), "FAILED", "another kernel");
        let other = report(&finding("p", "that"));
        assert_eq!(judge(&other, &seen(false), KERNEL).word(), "FAILED", "something else");
    }

    #[test]
    fn damage_and_trouble_are_broken_promises_of_all_reports() {
        let damaged = Seen { log: WARN.to_owned(), ..seen(true) };
        assert_eq!(judge(&report(""), &damaged, KERNEL).word(), "FAILED");
        assert_eq!(judge(&report(&finding(QUIET, "x.c:3")), &damaged, KERNEL).word(), "finding");
        let hangs = Seen { trouble: Some("it hangs".to_owned()), ..Seen::default() };
        assert_eq!(judge(&report(""), &hangs, KERNEL).word(), "FAILED");
        let known = judge(&report(&finding(ENDS, "hangs")), &hangs, KERNEL);
        assert_eq!(known.word(), "finding", "what it did not get to is no failure: {known:?}");
    }

    #[test]
    fn rules_that_did_not_fire_and_rows_that_nobody_knows_are_failures() {
        let missed = Seen { problems: vec!["rule \"x\"".to_owned()], ..seen(true) };
        assert_eq!(judge(&report(""), &missed, KERNEL).word(), "FAILED");
        let mut more = seen(true);
        more.rows.push(("q".to_owned(), true, String::new()));
        assert_eq!(judge(&report(""), &more, KERNEL).word(), "FAILED");
    }

    #[test]
    fn a_report_without_anything_to_show_is_not_ok() {
        let without = vec![("p".to_owned(), "old kernel".to_owned())];
        let seen = Seen { without, ..Seen::default() };
        assert_eq!(judge(&report(""), &seen, KERNEL).word(), "-");
    }
}

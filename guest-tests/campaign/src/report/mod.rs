//! Results for people and machines: a table, JUnit, one HTML page, Markdown.

mod html;
mod junit;
mod markdown;
mod table;

use std::collections::BTreeMap;

use crate::result::{CaseResult, Finding, Kind};
use crate::store::{Header, Results};

/// Results of one or more campaigns, findings grouped.
#[derive(Debug)]
pub struct Report<'a> {
    /// Each campaign's.
    runs: &'a [Results],
    /// The same damage, wherever it was seen; the worst first.
    groups: Vec<Group<'a>>,
}

/// The same damage.
#[derive(Debug)]
struct Group<'a> {
    kind: Kind,
    what: &'a str,
    /// Where it was seen.
    seen: Vec<Seen<'a>>,
}

/// One case in which damage was seen.
#[derive(Debug, Clone, Copy)]
struct Seen<'a> {
    header: &'a Header,
    case: &'a CaseResult,
    finding: &'a Finding,
}

/// A campaign in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Numbers {
    /// Steps that a clean run has in the phases of the workload.
    steps: u64,
    /// Classes that they fall into.
    classes: usize,
    /// Cases that were chosen.
    cases: usize,
    done: usize,
    /// Cases in which the driver did not get to the step.
    not_reached: usize,
    /// Cases with findings.
    damaged: usize,
    /// Cases that the machine was too slow for.
    disturbed: usize,
    rebooted: usize,
    seconds: u64,
}

impl<'a> Report<'a> {
    /// Of these results.
    pub fn new(runs: &'a [Results]) -> Self {
        let mut groups: BTreeMap<(Kind, &str), Vec<Seen<'a>>> = BTreeMap::new();
        for Results { header, cases } in runs {
            for case in cases.iter().filter(|case| !case.disturbed) {
                for finding in &case.findings {
                    let seen = Seen { header, case, finding };
                    groups.entry((finding.kind, finding.what.as_str())).or_default().push(seen);
                }
            }
        }
        let group = |((kind, what), seen)| Group { kind, what, seen };
        Self { runs, groups: groups.into_iter().map(group).collect() }
    }

    /// Whether any case has damaged a guest.
    pub fn has_findings(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Whether a case of which the step was never reached is among them.
    pub fn has_unreached(&self) -> bool {
        self.runs.iter().any(|run| run.cases.iter().any(|case| case.fired == 0 || case.disturbed))
    }
}

impl Numbers {
    fn of(Results { header, cases }: &Results) -> Self {
        let chosen = header.choice.cases(&header.workload, &header.steps);
        let steps = header.steps.iter();
        let steps = steps.filter(|steps| header.workload.fail.contains(&steps.class.phase));
        let count =
            |has: &dyn Fn(&CaseResult) -> bool| cases.iter().filter(|case| has(case)).count();
        Self {
            steps: steps.clone().map(|steps| steps.count).sum(),
            classes: steps.count(),
            cases: chosen.len(),
            done: cases.len(),
            not_reached: count(&|case| case.fired == 0),
            damaged: count(&|case| !case.findings.is_empty() && !case.disturbed),
            disturbed: count(&|case| case.disturbed),
            rebooted: count(&|case| case.rebooted),
            seconds: cases.iter().map(|case| case.seconds).sum::<f64>().round() as u64,
        }
    }
}

impl Header {
    /// The command that runs one case again.
    fn repeat(&self, case: &str) -> String {
        let Self { workload_argument, kernel_argument, .. } = self;
        format!(
            "mlx5emu campaign --workload {workload_argument} --kernel {kernel_argument} --case '{case}'"
        )
    }

    fn title(&self) -> String {
        format!("{} on {}", self.workload.name, self.kernel)
    }
}

/// How a case ended, in a word.
fn verdict(case: &CaseResult) -> &'static str {
    match case.findings.first() {
        _ if case.disturbed => "disturbed",
        Some(finding) => finding.kind.name(),
        None if case.fired == 0 => "not reached",
        None => "ok",
    }
}

/// Case and how it is failed, for a name: the class, the step and the failure.
fn parts(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or((name, ""))
}

#[cfg(test)]
mod tests;

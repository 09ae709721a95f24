//! One HTML page with everything in it.

use super::{Numbers, Report, parts, verdict};

const PAGE: &str = include_str!("page.html");
/// Where the page has its data.
const DATA: &str = "/*DATA*/null";

impl Report<'_> {
    /// The results as one page that needs nothing else.
    pub fn html(&self) -> String {
        let runs: Vec<_> = self.runs.iter().map(|run| {
            let n = Numbers::of(run);
            let cases: Vec<_> = run.cases.iter().map(|case| {
                let (step, failure) = parts(&case.case);
                let log: Vec<&str> =
                    case.phases.values().flat_map(|done| &done.log).map(String::as_str).collect();
                serde_json::json!({
                    "step": step, "failure": failure, "verdict": verdict(case),
                    "reaction": case.reaction(), "seconds": case.seconds, "fired": case.fired,
                    "findings": case.findings, "log": log, "repeat": run.header.repeat(&case.case),
                })
            }).collect();
            serde_json::json!({
                "title": run.header.title(), "workload": run.header.workload.work,
                "numbers": [
                    ["steps of a clean run", n.steps], ["classes", n.classes], ["cases", n.cases],
                    ["done", n.done], ["not reached", n.not_reached], ["with findings", n.damaged], ["disturbed", n.disturbed],
                    ["reboots", n.rebooted], ["seconds", n.seconds],
                ],
                "cases": cases,
            })
        }).collect();
        let groups: Vec<_> = self
            .groups
            .iter()
            .map(|group| {
                serde_json::json!({
                    "kind": group.kind.name(), "what": group.what,
                    "cases": group.seen.iter().map(|seen| {
                        format!("{}: {}", seen.header.title(), seen.case.case)
                    }).collect::<Vec<_>>(),
                })
            })
            .collect();
        let data = serde_json::json!({ "runs": runs, "groups": groups }).to_string();
        // Nothing that a guest says ends the script.
        PAGE.replace(DATA, &data.replace('<', "\\u003c"))
    }
}

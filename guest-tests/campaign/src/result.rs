//! What came of a case.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::agent::Done;
use crate::workload::Phase;

/// What came of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseResult {
    /// Its name, which no other case has.
    pub case: String,
    /// How often its step was failed: 0 when the driver did not get there.
    pub fired: u64,
    /// How each phase went; one that was not reached is not there.
    pub phases: BTreeMap<Phase, Done>,
    /// What is wrong with the guest.
    pub findings: Vec<Finding>,
    /// Whether the guest had to be started again.
    pub rebooted: bool,
    /// The machine was too slow, each time that it was tried: this says nothing about the driver.
    #[serde(default)]
    pub disturbed: bool,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// A kind of damage, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The guest is gone or answers no more.
    Dead,
    /// An oops, a panic, a lockup.
    Fatal,
    /// A process can't be killed, and hangs even when the card does its work again.
    Stuck,
    /// A task hangs as long as the card does not do its work.
    Hang,
    /// The kernel warned: WARN, KASAN, lockdep.
    Report,
    /// The driver does not take the card again.
    NoRebind,
    /// Objects or pages that the driver has not given back.
    Leak,
}

impl Kind {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dead => "guest lost",
            Self::Fatal => "kernel damaged",
            Self::Stuck => "process stuck",
            Self::Hang => "task hangs",
            Self::Report => "kernel warning",
            Self::NoRebind => "no rebind",
            Self::Leak => "leak",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Damage that a case did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// What kind.
    pub kind: Kind,
    /// What, in a line: the same for the same damage.
    pub what: String,
    /// What shows it: the kernel's messages, where a process hangs.
    pub detail: Vec<String>,
}

impl CaseResult {
    /// What the driver and the workload made of it, in a few words.
    pub fn reaction(&self) -> String {
        let words = |(phase, done): (&Phase, &Done)| {
            let how = match (done.status, done.signal) {
                _ if !done.stuck.is_empty() => "stuck".to_owned(),
                _ if done.late => "took too long".to_owned(),
                (Some(0), _) => return None,
                (Some(status), _) => {
                    reason(&done.output).map_or_else(|| format!("status {status}"), str::to_owned)
                }
                (None, Some(signal)) => format!("signal {signal}"),
                (None, None) => "no end".to_owned(),
            };
            Some(format!("{}: {how}", phase.name()))
        };
        let mut words: Vec<_> = self.phases.iter().filter_map(words).collect();
        if self.findings.iter().any(|finding| finding.kind == Kind::Dead) {
            words.push("then the guest was lost".to_owned());
        }
        if words.is_empty() { "nothing to see".to_owned() } else { words.join("; ") }
    }
}

/// The reason in what a failed program printed last: `sh: 1: echo: echo: I/O error` is `I/O error`.
pub(crate) fn reason(output: &str) -> Option<&str> {
    let line = output.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    line.rsplit(": ").next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reaction_is_what_went_wrong() {
        let done =
            |status, output: &str| Done { status, output: output.to_owned(), ..Done::default() };
        let result = |phases: &[(Phase, Done)]| CaseResult {
            case: "probe/command/INIT_HCA#1/never".into(),
            fired: 1,
            phases: phases.iter().cloned().collect(),
            findings: Vec::new(),
            rebooted: false,
            disturbed: false,
            seconds: 1.0,
        };
        let fine = (Phase::Probe, done(Some(0), ""));
        assert_eq!(result(std::slice::from_ref(&fine)).reaction(), "nothing to see");
        let failed = done(Some(2), "sh: 1: echo: echo: Connection timed out\n");
        let both = result(&[(Phase::Probe, failed), (Phase::Work, done(Some(1), ""))]);
        assert_eq!(both.reaction(), "probe: Connection timed out; work: status 1");
        let mut lost = result(std::slice::from_ref(&fine));
        lost.findings.push(Finding { kind: Kind::Dead, what: String::new(), detail: Vec::new() });
        assert_eq!(lost.reaction(), "then the guest was lost");
        let late = Done { late: true, signal: Some(9), ..Done::default() };
        assert_eq!(result(&[fine, (Phase::Work, late)]).reaction(), "work: took too long");
    }
}

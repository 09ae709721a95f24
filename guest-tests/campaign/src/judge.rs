//! Which of the things that happened to a guest are damage.

use qemu_config::{Damage, Outcome, Severity, judge, message};

use crate::agent::Done;
use crate::lab::Tables;
use crate::result::{Finding, Kind};
use crate::signature;

/// Messages that are kept with a finding, before and after the one that shows it.
const BEFORE: usize = 5;
const AFTER: usize = 45;
/// Messages of one report.
const MOST: usize = 120;

/// What the kernel's messages show.
pub(crate) fn messages(log: &[String], release: &str) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut at = 0;
    while let Some(line) = log.get(at) {
        let Some(first) = judge(line, release) else {
            at += 1;
            continue;
        };
        let end = at + block(log.get(at..).unwrap_or_default());
        let lines = log.get(at..end).unwrap_or_default();
        let mut damages: Vec<Damage> =
            lines.iter().filter_map(|line| judge(line, release)).collect();
        // It introduces what follows, and says nothing by itself.
        damages.retain(|damage| !damage.message.contains("[ cut here ]"));
        let worst = damages.iter().find(|damage| damage.severity == Severity::Fatal);
        let telling = damages.iter().find(|damage| damage.message.starts_with("WARNING: "));
        let damage = worst.or(telling).or(damages.first()).unwrap_or(&first);
        let (kind, what) = (kind(damage), signature::of(lines, damage));
        if !findings.iter().any(|known| known.what == what) {
            let kept = at.saturating_sub(BEFORE)..end.min(at + AFTER);
            let detail = log.get(kept).unwrap_or_default().to_vec();
            findings.push(Finding { kind, what, detail });
        }
        at = end;
    }
    findings
}

fn kind(damage: &Damage) -> Kind {
    match damage.severity {
        _ if damage.message.contains(" blocked for more than ") => Kind::Hang,
        Severity::Fatal => Kind::Fatal,
        Severity::Report => Kind::Report,
    }
}

/// How many messages belong to the report that begins with the first.
fn block(log: &[String]) -> usize {
    let ends =
        ["---[ end trace", " </TASK>", "==================================================="];
    let end =
        log.iter().skip(1).take(MOST).position(|line| ends.iter().any(|end| line.starts_with(end)));
    // The rest may be lost, or there is none: a panic is the last thing that is told.
    end.map_or(log.len().min(MOST), |end| end + 2)
}

/// Processes that could not be killed.
pub(crate) fn stuck(done: &Done) -> Option<Finding> {
    let worst = done.stuck.first()?;
    // As in the kernel's own reports: the nearest function of a module.
    let own = worst.stack.lines().find(|line| line.trim_end().ends_with(']'));
    let place = own.or(worst.stack.lines().next()).and_then(signature::function);
    let detail = done.stuck.iter().flat_map(|stuck| {
        let head = format!("{} (state {})", stuck.name, stuck.state);
        std::iter::once(head).chain(stuck.stack.lines().map(|line| format!("  {line}")))
    });
    Some(Finding {
        kind: Kind::Hang,
        what: signature::hang(&worst.name, place),
        detail: detail.collect(),
    })
}

/// What the driver has not given back.
pub(crate) fn leak(now: &Tables, clean: &Tables) -> Option<Finding> {
    let left = now.beyond(clean);
    let what = format!("left with the card: {}", left.join(", "));
    (!left.is_empty()).then_some(Finding { kind: Kind::Leak, what, detail: Vec::new() })
}

/// A guest that says nothing any more: what its console shows, or else that.
pub(crate) fn dead(why: &str, outcome: &Outcome, release: &str) -> Vec<Finding> {
    let console = outcome.console.lines();
    let console: Vec<String> = console.map(|line| message(line).trim_end().to_owned()).collect();
    let last = console.len().saturating_sub(AFTER);
    let fatal = messages(&console, release).into_iter().filter(|found| found.kind <= Kind::Hang);
    let mut findings: Vec<_> = fatal.collect();
    let detail = console.get(last..).unwrap_or_default().to_vec();
    findings.insert(0, Finding { kind: Kind::Dead, what: why.to_owned(), detail });
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASE: &str = "6.12.117+deb13-amd64";

    #[test]
    fn a_warning_is_told_once_and_with_what_is_around_it() {
        let log: Vec<String> = [
            "mlx5_core 0000:01:00.0: something",
            "------------[ cut here ]------------",
            "refcount_t: underflow; use-after-free.",
            "WARNING: CPU: 1 PID: 7 at lib/refcount.c:28 saturate+0x1/0x2",
            "Call Trace:",
            " ? saturate+0x1/0x2",
            " cmd_ent_put+0x1/0x2 [mlx5_core]",
            "---[ end trace 0000000000000000 ]---",
            "all is well",
        ]
        .map(str::to_owned)
        .into();
        let found = messages(&log, RELEASE);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].kind, Kind::Report);
        assert_eq!(found[0].what, "WARNING in saturate (lib/refcount.c) under cmd_ent_put");
        assert_eq!(found[0].detail, log[..8]);
        assert!(messages(&log[..1], RELEASE).is_empty());
    }

    #[test]
    fn a_process_that_can_not_be_killed_is_told_by_where_it_hangs() {
        let stack = "[<0>] down+0x47/0x60\n[<0>] mlx5_cmd_allowed_opcode+0x33/0x90 [mlx5_core]\n";
        let stack = stack.to_owned();
        let stuck = vec![crate::agent::Stuck { name: "sh".into(), state: 'D', stack }];
        let found = super::stuck(&Done { stuck, ..Done::default() }).unwrap();
        assert_eq!(found.what, "sh hangs in mlx5_cmd_allowed_opcode");
    }

    #[test]
    fn what_is_beyond_a_clean_run_is_a_leak() {
        let tables = |mkeys, pages| Tables { objects: vec![("mkey".into(), mkeys)], pages };
        assert_eq!(leak(&tables(0, 0), &tables(0, 0)), None);
        let found = leak(&tables(2, 1), &tables(0, 0)).unwrap();
        assert_eq!(found.what, "left with the card: 2 mkeys, 1 page");
    }
}

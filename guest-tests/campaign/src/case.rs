//! Cases: which step is failed, and how.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::class::Class;
use crate::failure::Failure;
use crate::shard::Shard;
use crate::steps::Steps;
use crate::workload::Workload;

/// One step that is failed in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case<'a> {
    /// The steps of its kind.
    pub(crate) class: &'a Class,
    /// Which of them, from 1.
    pub(crate) nth: u64,
    /// How many a clean run has.
    pub(crate) of: u64,
    /// How it is failed.
    pub(crate) failure: &'static Failure,
}

impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}/{}", self.class, self.nth, self.failure)
    }
}

impl Case<'_> {
    /// The fault rule that makes it happen.
    pub(crate) fn rule(&self) -> Value {
        json!({
            "name": self.to_string(),
            "at": self.class.at,
            "where": self.class.r#where,
            "nth": self.nth,
            "do": self.failure.deed(),
        })
    }

    /// About how long it takes, for the estimate of the time left.
    pub(crate) fn costs(&self) -> Duration {
        Duration::from_secs(2) + self.failure.costs
    }
}

/// Which cases of all that there could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Every step instead of three of each class.
    pub full: bool,
    /// Decides which steps between the first and the last of a class are taken.
    pub seed: u64,
    /// Which part of the cases.
    pub shard: Shard,
}

impl Choice {
    /// The cases of a workload with these steps, in the order in which the steps happen.
    pub(crate) fn cases<'a>(&self, workload: &Workload, steps: &'a [Steps]) -> Vec<Case<'a>> {
        let steps = steps.iter().filter(|steps| workload.fail.contains(&steps.class.phase));
        let mut cases = Vec::new();
        for Steps { class, count } in steps {
            for nth in self.sample(class, *count) {
                let of = *count;
                cases.extend(Failure::fitting(class).map(|failure| Case {
                    class,
                    nth,
                    of,
                    failure,
                }));
            }
        }
        cases.retain(|case| self.shard.has(&case.to_string()));
        cases
    }

    /// The first, the last and one other, or all.
    fn sample(&self, class: &Class, count: u64) -> Vec<u64> {
        if self.full || count <= 3 {
            return (1..=count).collect();
        }
        let chance = u64::from(crc32fast::hash(format!("{} {class}", self.seed).as_bytes()));
        vec![1, 2 + chance % (count - 2), count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Phase;

    fn class(at: &str, name: &str, phase: Phase) -> Class {
        Class { phase, at: at.into(), name: name.into(), r#where: [].into() }
    }

    fn choice(seed: u64, full: bool) -> Choice {
        Choice { full, seed, shard: Shard::WHOLE }
    }

    #[test]
    fn the_first_the_last_and_another_are_chosen() {
        let class = class("event", "CMD", Phase::Probe);
        for seed in 0..200 {
            let sample = choice(seed, false).sample(&class, 10);
            let [1, other, 10] = sample[..] else { panic!("{sample:?}") };
            assert!((2..10).contains(&other), "{other}");
        }
        assert_eq!(choice(0, false).sample(&class, 2), [1, 2]);
        assert_eq!(choice(0, true).sample(&class, 10).len(), 10);
        let others = (0..50).map(|seed| choice(seed, false).sample(&class, 1000)[1]);
        assert!(others.collect::<std::collections::BTreeSet<_>>().len() > 40, "the seed decides");
    }

    #[test]
    fn cases_are_of_the_workloads_phases_and_their_rules_are_rules() {
        let steps: Vec<Steps> = [
            ("command", "CREATE_MKEY", Phase::Work),
            ("command", "DESTROY_MKEY", Phase::Work),
            ("command", "QUERY_HCA_CAP", Phase::Work),
            ("reply", "CREATE_MKEY", Phase::Work),
            ("event", "CMD", Phase::Work),
            ("doorbell", "command queue", Phase::Work),
            ("work_request", "UMR", Phase::Work),
            ("work_request", "SEND", Phase::Work),
            ("completion", "REQ", Phase::Work),
            ("command", "ENABLE_HCA", Phase::Probe),
        ]
        .map(|(at, name, phase)| Steps { class: class(at, name, phase), count: 1 })
        .into();
        let workload = Workload::find("reg_mr").unwrap();
        let cases = choice(0, false).cases(&workload, &steps);
        assert!(cases.iter().all(|case| case.class.phase == Phase::Work));
        for Steps { class, .. } in steps.iter().filter(|steps| steps.class.phase == Phase::Work) {
            assert!(cases.iter().any(|case| case.class == class), "{class}");
        }
        let rules = faults::Faults::default();
        for case in &cases {
            let rule: faults::Rule = serde_json::from_value(case.rule()).unwrap();
            rules.add(&rule, 0).unwrap_or_else(|wrong| panic!("{case}: {wrong}"));
        }
        let names: Vec<_> = cases.iter().map(Case::to_string).collect();
        assert!(names.contains(&"work/command/CREATE_MKEY#1/LIM_ERR".to_owned()), "{names:?}");
    }
}

//! Parts of a campaign that run on different machines.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One of several parts of all cases. Which case is in which part depends on its name alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Which, from 0.
    pub index: u32,
    /// Of how many.
    pub count: u32,
}

/// Where schedulers say which part a process is: the variables of index and count, and the first
/// index's number.
const SCHEDULERS: [(&str, &str, u32); 3] = [
    ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", 0),
    ("JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", 0),
    ("CI_NODE_INDEX", "CI_NODE_TOTAL", 1),
];

impl Shard {
    /// All cases.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// What a scheduler says in these variables, if one does: Slurm's arrays, Kubernetes' indexed jobs
    /// and GitLab's parallel jobs.
    pub fn of_scheduler(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        for (index, count, first) in SCHEDULERS {
            let (Some(at), Some(all)) = (variable(index), variable(count)) else { continue };
            let numbers = at.parse::<u32>().ok().zip(all.parse().ok());
            let shard = numbers.and_then(|(at, all)| Self::new(at.checked_sub(first)?, all));
            let bad = || format!("{index}={at} and {count}={all} are no part of a whole");
            return shard.map(Some).ok_or_else(bad);
        }
        Ok(None)
    }

    fn new(index: u32, count: u32) -> Option<Self> {
        (index < count).then_some(Self { index, count })
    }

    /// Whether the case of this name is in it.
    pub(crate) fn has(&self, case: &str) -> bool {
        crc32fast::hash(case.as_bytes()) % self.count.max(1) == self.index
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shard = text
            .split_once('/')
            .and_then(|(index, count)| Self::new(index.parse().ok()?, count.parse().ok()?));
        shard.ok_or_else(|| format!("{text}: expected I/N, with I from 0 to N-1"))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_in_one_part() {
        for count in 1..8 {
            for case in 0..100 {
                let name = format!("work/command/{case}");
                let within = (0..count).filter(|&index| Shard { index, count }.has(&name));
                assert_eq!(within.count(), 1, "{name} of {count}");
            }
        }
    }

    #[test]
    fn parts_are_read() {
        assert_eq!("2/3".parse(), Ok(Shard { index: 2, count: 3 }));
        for text in ["3/3", "-1/3", "1", "", "0/0", "1/x"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }

    #[test]
    fn schedulers_say_which_part() {
        let from = |given: &'static [(&str, &str)]| {
            Shard::of_scheduler(move |name| {
                let found = given.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let shard = |index, count| Ok(Some(Shard { index, count }));
        assert_eq!(from(&[]), Ok(None));
        assert_eq!(
            from(&[("SLURM_ARRAY_TASK_ID", "0"), ("SLURM_ARRAY_TASK_COUNT", "4")]),
            shard(0, 4)
        );
        assert_eq!(from(&[("JOB_COMPLETION_INDEX", "3"), ("JOB_COMPLETIONS", "4")]), shard(3, 4));
        assert_eq!(from(&[("CI_NODE_INDEX", "4"), ("CI_NODE_TOTAL", "4")]), shard(3, 4));
        assert_eq!(from(&[("JOB_COMPLETION_INDEX", "3")]), Ok(None));
        assert!(from(&[("CI_NODE_INDEX", "0"), ("CI_NODE_TOTAL", "4")]).is_err());
        assert!(from(&[("SLURM_ARRAY_TASK_ID", "5"), ("SLURM_ARRAY_TASK_COUNT", "4")]).is_err());
    }
}

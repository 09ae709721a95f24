//! Workloads: what the guest does while steps are failed.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Error;

/// A part of the driver's life with the card, in which steps can be failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The driver is bound to the card.
    Probe,
    /// The workload's program runs.
    Work,
    /// The driver is unbound.
    Teardown,
}

impl Phase {
    /// All, in the order in which they happen.
    pub const ALL: [Self; 3] = [Self::Probe, Self::Work, Self::Teardown];

    /// Its name in files and case names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Work => "work",
            Self::Teardown => "teardown",
        }
    }
}

impl FromStr for Phase {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|phase| phase.name() == text).ok_or(())
    }
}

/// What the guest does. A file of it is TOML; see `docs/campaign.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name in results.
    pub name: String,
    /// In which phases steps are failed.
    pub fail: Vec<Phase>,
    /// A line for the guest's shell. Status 0 says that all went well. What it leaves running is killed
    /// after the driver was unbound.
    pub work: String,
    /// Seconds that `work` may take.
    #[serde(default = "default_limit")]
    pub limit: u64,
    /// Whether the driver fills its cache of keys, which is some thousand commands each time.
    #[serde(default)]
    pub prefill: bool,
}

fn default_limit() -> u64 {
    60
}

const BUILT_IN: [&str; 4] = [
    include_str!("../workloads/probe.toml"),
    include_str!("../workloads/reg_mr.toml"),
    include_str!("../workloads/rc-traffic.toml"),
    include_str!("../workloads/unload.toml"),
];

impl Workload {
    /// A built-in one by its name, or one of a file.
    pub fn find(name: &str) -> Result<Self, Error> {
        let built_in = BUILT_IN.iter().map(|text| parse(text));
        let built_in: Vec<Self> = built_in.collect::<Result<_, _>>().map_err(Error::Workload)?;
        if let Some(known) = built_in.iter().find(|known| known.name == name) {
            return Ok(known.clone());
        }
        let path = Path::new(name);
        if !path.exists() {
            let names: Vec<_> = built_in.iter().map(|known| known.name.as_str()).collect();
            let names = names.join(", ");
            return Err(Error::Workload(format!("{name}: neither {names} nor a file")));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::Workload(format!("cannot read {name}: {error}")))?;
        parse(&text).map_err(|error| Error::Workload(format!("{name}: {error}")))
    }

    /// How long `work` may take.
    pub fn limit(&self) -> Duration {
        Duration::from_secs(self.limit)
    }
}

fn parse(text: &str) -> Result<Workload, String> {
    let workload: Workload = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(start).filter(|&byte| byte == b'\n').count() + 1;
        format!("line {line}: {}", error.message().replace('\n', " "))
    })?;
    let bad = workload.name.is_empty()
        || !workload.name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    if bad {
        return Err(format!("name = \"{}\": expected letters, digits, _ - .", workload.name));
    }
    if workload.fail.is_empty() {
        return Err("fail = []: expected some of probe, work, teardown".to_owned());
    }
    if workload.limit == 0 || workload.limit > 3600 {
        return Err(format!("limit = {}: expected 1 to 3600 seconds", workload.limit));
    }
    Ok(workload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_ones_can_be_read() {
        for name in ["probe", "reg_mr", "rc-traffic", "unload"] {
            assert_eq!(Workload::find(name).unwrap().name, name);
        }
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let cases = [
            (
                "name = \"a b\"\nfail = [\"work\"]\nwork = \"\"",
                "name = \"a b\": expected letters, digits, _ - .",
            ),
            (
                "name = \"a\"\nfail = []\nwork = \"\"",
                "fail = []: expected some of probe, work, teardown",
            ),
            (
                "name = \"a\"\nfail = [\"work\"]\nwork = \"\"\nlimit = 0",
                "limit = 0: expected 1 to 3600 seconds",
            ),
            (
                "name = \"a\"\nfail = [\"wrok\"]\nwork = \"\"",
                "line 2: unknown variant `wrok`, expected one of `probe`, `work`, `teardown`",
            ),
            (
                "name = \"a\"\nfial = []",
                "line 2: unknown field `fial`, expected one of `name`, `fail`, `work`, `limit`, `prefill`",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(parse(text).unwrap_err(), message);
        }
        let error = Workload::find("nothing").unwrap_err().to_string();
        assert_eq!(error, "workload nothing: neither probe, reg_mr, rc-traffic, unload nor a file");
    }
}

//! A rule as it is written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, which no other rule has.
    pub name: String,
    /// The point: a name of [`probe::Point`], or `time`.
    pub at: String,
    /// What must be so there: values of fields, by their paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub r#where: BTreeMap<String, Arg>,
    /// From which match on it fires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// At every so manieth match only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// By chance only, above 0 and at most 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<Chance>,
    /// Where chance begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Only once this rule has fired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Only so many ms after the rule was made, or after the other rule fired first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
    /// With `at = "time"`: how many ms later it fires again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
    /// How often it may fire; 0 is without end.
    #[serde(default = "one")]
    pub count: u64,
    /// What it does.
    pub r#do: Do,
    /// A run in which it does not fire has failed.
    #[serde(default = "yes")]
    pub must_fire: bool,
    /// When its counters start again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_on: Option<ResetOn>,
}

fn one() -> u64 {
    1
}

fn yes() -> bool {
    true
}

/// A value in a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number, a string, true or false, a list of them, or a table")]
pub enum Arg {
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(u64),
    /// A name, a number as `"0x…"`, or a range as `"1..5"`.
    Text(String),
    /// Any of these.
    Many(Vec<Arg>),
    /// Values by name.
    Table(BTreeMap<String, Arg>),
}

/// What a rule does: a word, or a table of a verb and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a word such as \"lose\" or a table such as { status = \"BAD_RES\", syndrome = 1 }"
)]
pub enum Do {
    /// A verb without arguments.
    Word(String),
    /// A verb and its arguments.
    Table(BTreeMap<String, Arg>),
}

/// A probability.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Chance(pub f64);

// Whatever is not a number is refused when a rule is checked.
impl Eq for Chance {}

/// What makes a rule's counters start again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResetOn {
    /// A reset of the function, which a client that goes away leads to as well.
    Flr,
    /// A client that connects: the guest is powered on, or the card is plugged in.
    Connect,
}

/// Why a rule is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Wrong {
    /// Which one of several.
    pub rule: usize,
    /// The key in it that is wrong: `where`, `opcode`; none if it is the rule as a whole.
    pub key: Vec<String>,
    /// What is wrong, and what was expected.
    pub message: String,
}

impl Wrong {
    pub(crate) fn new<const N: usize>(key: [&str; N], message: impl Into<String>) -> Self {
        Self { rule: 0, key: key.map(String::from).to_vec(), message: message.into() }
    }
}

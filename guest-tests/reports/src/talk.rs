//! What the guest's scripts say: a line of JSON each, and each is answered with a line
//! (`guest/host.py` is the other end).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a script says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case", deny_unknown_fields)]
pub enum Message {
    /// The first.
    Hello {
        /// The kernel's release.
        kernel: String,
    },
    /// A report begins.
    Begin {
        /// Its name.
        report: String,
    },
    /// Something for the card's control socket, without an `id`.
    Ask {
        /// The request.
        request: control::Request,
    },
    /// These rules of the plan shall hold from now on.
    Arm {
        /// Their names.
        rules: Vec<String>,
        /// What their `where` has besides: what only the guest knows.
        #[serde(default)]
        r#where: BTreeMap<String, serde_json::Value>,
    },
    /// The rules shall be forgotten. Those that must have fired are looked at.
    Disarm {},
    /// A promise was tried.
    Row {
        /// Which.
        promise: String,
        /// Whether it was kept.
        kept: bool,
        /// What was seen.
        seen: String,
    },
    /// A promise can't be tried with this kernel.
    Without {
        /// Which.
        promise: String,
        /// Why.
        why: String,
    },
    /// A report is over.
    Done {
        /// What is wrong with the script itself: it hangs, it died.
        trouble: Option<String>,
        /// The kernel's log since it began.
        log: String,
        /// Seconds that it took.
        seconds: f64,
        /// The guest can't go on to the next.
        spoiled: bool,
    },
    /// The last.
    End {},
}

/// The answer: one of both.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Done; what was asked for, if anything.
    Ok(serde_json::Value),
    /// Not done.
    Error(String),
}

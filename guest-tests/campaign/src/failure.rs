//! Ways in which a step can be failed.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::class::Class;

/// A way in which a step is failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Its name in the names of cases.
    pub(crate) name: &'static str,
    /// What the fault rule does: a verb, or a verb and its argument.
    deed: Deed,
    /// About how long a case of it takes longer than a clean one: for the estimate of the time left.
    pub(crate) costs: Duration,
    /// About which steps.
    only: Only,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Word(&'static str),
    Text(&'static str, &'static str),
    Number(&'static str, u64),
    /// A delivery status that a command has in the end.
    Held(&'static str),
}

/// Which of the steps at a point can be failed so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Only {
    All,
    /// The step's name begins with one of these.
    Begins(&'static [&'static str]),
    /// It begins with none of these.
    BeginsNot(&'static [&'static str]),
}

const MAKES: &[&str] = &["CREATE_", "ALLOC_"];
const ENDS: &[&str] = &["DESTROY_", "DEALLOC_", "TEARDOWN_", "DISABLE_", "TORST_", "DETACH_"];
const MAKES_OR_ENDS: &[&str] =
    &["CREATE_", "ALLOC_", "DESTROY_", "DEALLOC_", "TEARDOWN_", "DISABLE_", "TORST_", "DETACH_"];

/// What a lost command costs with `--fast-timeouts`: the driver's limit of 3 s, and 5 s more in which
/// it looks for a lost event (`mlx5_core`, `wait_func_handle_exec_timeout`).
const LOST: Duration = Duration::from_secs(8);
/// Beyond the driver's limit and before it gives up: the reply comes late, after the driver has looked
/// for it.
const LATE_MS: u64 = 4500;
const NONE: Duration = Duration::ZERO;

const fn word(name: &'static str, verb: &'static str, costs: Duration) -> Failure {
    Failure { name, deed: Deed::Word(verb), costs, only: Only::All }
}

const fn text(
    name: &'static str,
    verb: &'static str,
    argument: &'static str,
    only: Only,
) -> Failure {
    Failure { name, deed: Deed::Text(verb, argument), costs: NONE, only }
}

const fn delay(name: &'static str, ms: u64) -> Failure {
    let costs = Duration::from_millis(ms);
    Failure { name, deed: Deed::Number("delay_ms", ms), costs, only: Only::All }
}

/// A command is not carried out, and its slot comes back only when the case is over, with a delivery
/// status that a guest which hangs on it can go on with. Nothing is written to its mailboxes: the driver
/// has freed them.
const NEVER: Deed = Deed::Held("FW_ERR");

/// By the point, what can go wrong there.
const WAYS: &[(&str, &[Failure])] = &[
    (
        "command",
        &[
            text("INT_ERR", "status", "INT_ERR", Only::All),
            text("NO_RES", "status", "NO_RES", Only::Begins(MAKES)),
            text("LIM_ERR", "status", "LIM_ERR", Only::Begins(MAKES)),
            text("RES_BUSY", "status", "RES_BUSY", Only::Begins(ENDS)),
            text("BAD_RES_STATE", "status", "BAD_RES_STATE", Only::Begins(ENDS)),
            text("BAD_PARAM", "status", "BAD_PARAM", Only::BeginsNot(MAKES_OR_ENDS)),
            text("BAD_SYS_STATE", "status", "BAD_SYS_STATE", Only::BeginsNot(MAKES_OR_ENDS)),
            Failure { name: "never", deed: NEVER, costs: LOST, only: Only::All },
        ],
    ),
    ("reply", &[delay("late", LATE_MS), word("twice", "twice", NONE)]),
    ("event", &[word("never", "lose", LOST), delay("late", 300), word("twice", "twice", NONE)]),
    (
        "doorbell",
        &[
            // Of the command queue it is what a command without an answer is.
            Failure { only: Only::BeginsNot(&["command"]), ..word("never", "lose", LOST) },
            delay("late", 300),
        ],
    ),
    (
        "work_request",
        &[
            text("LOCAL_QP_OP_ERR", "fail", "LOCAL_QP_OP_ERR", Only::All),
            text("MW_BIND_ERR", "fail", "MW_BIND_ERR", Only::Begins(&["UMR"])),
            text(
                "REMOTE_ACCESS_ERR",
                "fail",
                "REMOTE_ACCESS_ERR",
                Only::BeginsNot(&["UMR", "NOP"]),
            ),
            text(
                "TRANSPORT_RETRY_EXC_ERR",
                "fail",
                "TRANSPORT_RETRY_EXC_ERR",
                Only::BeginsNot(&["UMR", "NOP"]),
            ),
        ],
    ),
    ("completion", &[word("never", "lose", LOST), word("twice", "twice", NONE)]),
];

impl Failure {
    /// The ways in which steps of this class can be failed.
    pub(crate) fn fitting(class: &Class) -> impl Iterator<Item = &'static Self> {
        let ways = WAYS.iter().filter(|(point, _)| *point == class.at);
        let fits = |failure: &&Self| match failure.only {
            Only::All => true,
            Only::Begins(words) => words.iter().any(|word| class.name.starts_with(word)),
            Only::BeginsNot(words) => !words.iter().any(|word| class.name.starts_with(word)),
        };
        ways.flat_map(|(_, failures)| failures.iter()).filter(fits)
    }

    /// Whether the driver may wait in vain for what is failed so.
    pub(crate) fn is_slow(&self) -> bool {
        self.costs > Duration::from_secs(1)
    }

    /// What a fault rule does.
    pub(crate) fn deed(&self) -> Value {
        match self.deed {
            Deed::Word(word) => json!(word),
            Deed::Text(verb, argument) => json!({ verb: argument }),
            Deed::Number(verb, number) => json!({ verb: number }),
            Deed::Held(status) => json!({ "delivery": status, "held": true }),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

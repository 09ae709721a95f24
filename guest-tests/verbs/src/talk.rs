//! What the guest's scripts say: a line of JSON each (`guest/say.py` is the other end).

use serde::Deserialize;

/// One line.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case", deny_unknown_fields)]
pub enum Message {
    /// The first.
    Hello {
        /// The kernel's release.
        kernel: String,
        /// The RDMA devices.
        devices: Vec<String>,
    },
    /// A tool has ended, or was stopped.
    Tool(ToolResult),
    /// One of rdma-core's tests has ended, or was stopped.
    Pyverbs(SuiteResult),
    /// The last.
    End {},
}

/// What came of a tool.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    /// Its name in the plan.
    pub name: String,
    /// The server and the client, or the one that was watched and what happened meanwhile, or the only one.
    pub programs: Vec<Program>,
    /// What was waited for in vain.
    pub waiting: Option<String>,
    /// How long it took.
    pub seconds: f64,
}

/// A program that ran.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its command line.
    pub command: String,
    /// Its exit status; negative for a signal. None when it had not ended and was stopped.
    pub status: Option<i32>,
    /// The end of what it printed.
    pub output: String,
}

/// What came of one of rdma-core's tests.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteResult {
    /// `file.Class.test`.
    pub name: String,
    /// What came of it.
    pub result: Outcome,
    /// Why, unless it passed.
    pub reason: String,
    /// How long it took.
    pub seconds: f64,
}

/// What can come of one of rdma-core's tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It passed.
    Ok,
    /// It said that something is missing.
    Skip,
    /// What it checks is not so.
    Fail,
    /// It broke.
    Error,
    /// It had not ended when its time was over.
    Hung,
    /// Its process died.
    Died,
}

impl Outcome {
    /// As the table has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skip => "skip",
            Self::Fail => "FAIL",
            Self::Error => "ERROR",
            Self::Hung => "HUNG",
            Self::Died => "DIED",
        }
    }
}

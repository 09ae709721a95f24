//! What a run came to.

use control::ClientError;
use thiserror::Error;

/// Why there is no verdict.
#[derive(Debug, Error)]
pub enum JudgeError {
    /// The guest program ended, or was ended, before it was through.
    #[error("the guest program ended {0}")]
    Ended(String),
    /// The guest said something that makes no sense at this point.
    #[error("the guest program: {0}")]
    Protocol(String),
    /// The streams.
    #[error("talking to the guest program: {0}")]
    Io(#[from] std::io::Error),
    /// The card does not answer.
    #[error(transparent)]
    Card(#[from] ClientError),
}

/// What one case came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaseResult {
    /// Its name.
    pub name: String,
    /// Registrations that were compared, each time that one was shown.
    pub registrations: u64,
    /// Page frames that were compared.
    pub frames: u64,
    /// Accesses that the card refused as it must.
    pub refusals: u64,
    /// Calls in the guest that failed as they must.
    pub refused_calls: u64,
    /// What is wrong.
    pub failures: Vec<String>,
    /// What people should know.
    pub notes: Vec<String>,
}

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The guest's kernel.
    pub kernel: String,
    /// The RDMA device.
    pub device: String,
    /// Every case.
    pub cases: Vec<CaseResult>,
    /// What is wrong outside the cases.
    pub failures: Vec<String>,
    /// Keys that lived after the warm-up, and at the end of the cases.
    pub live_keys: u64,
    /// How the driver was removed.
    pub unloaded: String,
}

impl Verdict {
    /// Nothing is wrong.
    pub fn passed(&self) -> bool {
        self.failures().next().is_none()
    }

    /// Everything that is wrong, with the case that it happened in.
    pub fn failures(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        let in_cases = self.cases.iter().flat_map(|case| {
            case.failures.iter().map(|text| (Some(case.name.as_str()), text.as_str()))
        });
        in_cases.chain(self.failures.iter().map(|text| (None, text.as_str())))
    }

    /// The sum over all cases.
    pub fn total(&self, of: impl Fn(&CaseResult) -> u64) -> u64 {
        self.cases.iter().map(of).fold(0, u64::saturating_add)
    }
}

//! `mlx5emu ctl fault`: rules of a running card.

use std::path::PathBuf;

use clap::Subcommand;
use control::{Client, ClientError, Faults, Refusal, RefusalKind, Released, Request};

/// What is to be done with the rules.
#[derive(Debug, Subcommand)]
pub enum Change {
    /// Add the rules of a TOML file, behind those that there are
    Add {
        /// As for run --faults
        file: PathBuf,
    },
    /// How often each has matched and fired
    List,
    /// Forget a rule, or all; what they keep back goes on
    Clear {
        /// Its name
        name: Option<String>,
    },
    /// What a rule holds goes on
    Release {
        /// Its name
        name: String,
    },
}

/// What was answered.
pub enum Done {
    /// The rules as they are now.
    Rules(Faults),
    /// How much goes on.
    Released(Released),
}

impl Change {
    /// Asks for it.
    pub fn ask(&self, client: &mut Client) -> Result<Done, ClientError> {
        let request = match self {
            Self::Add { file } => return add(client, file),
            Self::List => Request::FaultList {},
            Self::Clear { name } => Request::FaultClear { name: name.clone() },
            Self::Release { name } => {
                let request = Request::FaultRelease { name: name.clone() };
                return client.ask(request).map(Done::Released);
            }
        };
        client.ask(request).map(Done::Rules)
    }
}

/// All rules of a file are checked before the first is added.
fn add(client: &mut Client, file: &std::path::Path) -> Result<Done, ClientError> {
    let bad = |message| ClientError::Refused(Refusal { kind: RefusalKind::BadRequest, message });
    for rule in crate::config::read_faults(file).map_err(bad)? {
        let rule = serde_json::to_value(rule).map_err(|error| bad(error.to_string()))?;
        let _: Faults = client.ask(Request::FaultAdd { rule })?;
    }
    client.ask(Request::FaultList {}).map(Done::Rules)
}

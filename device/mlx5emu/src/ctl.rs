//! `mlx5emu ctl`: asks a running card. `docs/control.md` describes what it can be asked.

mod fault;
mod text;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use control::{
    Access, Client, ClientError, Hex, Metrics, Missing, Mkey, MkeyPage, Node, Piece, RefusalKind,
    Request, SlotAsked, SlotChange, Status, TraceStatus, Translation,
};
use serde::Serialize;

use crate::output::{fail, finish};
use crate::{NO, USAGE};

/// Options of `ctl`.
#[derive(Debug, clap::Args)]
pub struct Ctl {
    /// The card's control socket; without it, that of the only running card of this user
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Print JSON, for programs
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    question: Question,
}

#[derive(Debug, Subcommand)]
enum Question {
    /// Life cycle, connection, objects and counters
    Status,
    /// One key
    Mkey {
        /// The full 32-bit key
        #[arg(value_parser = number32)]
        key: u32,
    },
    /// All keys
    Mkeys {
        /// Leave out those that are free
        #[arg(long)]
        live: bool,
    },
    /// What an access through a key reaches
    Translate {
        /// The full 32-bit key
        #[arg(value_parser = number32)]
        key: u32,
        /// First address, in the key's own address space
        #[arg(value_parser = number)]
        address: u64,
        /// Length in bytes
        #[arg(value_parser = number)]
        length: u64,
        /// The right that the access needs
        access: AccessName,
        /// Protection domain of the queue that asks; left out, it is not compared
        #[arg(long)]
        pd: Option<u32>,
    },
    /// What the guest touched and the card does not model
    Missing,
    /// The card as a tree, or one node of it
    Inspect {
        /// As qps, qps/0x45 or mkeys/0x17ef00
        #[arg(default_value = "")]
        node: String,
        /// At most so many of a list
        #[arg(long, default_value = "1024")]
        limit: u32,
    },
    /// Everything that is counted and measured
    Metrics,
    /// Show rates, again and again
    Watch(watch::Watch),
    /// Fault rules, and what they have done so far
    Fault {
        #[command(subcommand)]
        change: fault::Change,
    },
    /// Take the card out of its slot
    Unplug,
    /// Put the card into its slot again
    Replug,
    /// How the running trace goes
    Trace {
        #[command(subcommand)]
        change: Option<TraceChange>,
    },
}

#[derive(Debug, Subcommand)]
enum TraceChange {
    /// Trace more or less from now on: off, commands, work, dma or all
    Level {
        /// How much
        level: String,
    },
    /// Trace only events that match from now on; without an expression, all
    Filter {
        /// As point=command or qpn=0x45
        expression: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AccessName {
    LocalRead,
    LocalWrite,
    RemoteRead,
    RemoteWrite,
    RemoteAtomic,
}

impl From<AccessName> for Access {
    fn from(name: AccessName) -> Self {
        match name {
            AccessName::LocalRead => Self::LocalRead,
            AccessName::LocalWrite => Self::LocalWrite,
            AccessName::RemoteRead => Self::RemoteRead,
            AccessName::RemoteWrite => Self::RemoteWrite,
            AccessName::RemoteAtomic => Self::RemoteAtomic,
        }
    }
}

/// A number, decimal or with 0x.
fn number(text: &str) -> Result<u64, String> {
    if text.starts_with("0x") {
        text.parse::<Hex>().map(|Hex(value)| value)
    } else {
        text.parse().map_err(|error| format!("{error}"))
    }
}

fn number32(text: &str) -> Result<u32, String> {
    number(text)?.try_into().map_err(|_| "a key has 32 bits".into())
}

/// What is printed, and the exit status.
struct Answer {
    text: String,
    status: u8,
}

impl Ctl {
    /// Runs it.
    pub fn run(self) -> ExitCode {
        match self.ask() {
            Ok(Answer { text, status }) => finish(&text, status),
            Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::NotFound => {
                fail(NO, refusal)
            }
            Err(error) => fail(USAGE, error),
        }
    }

    fn ask(&self) -> Result<Answer, ClientError> {
        let path = match &self.control {
            Some(path) => path.clone(),
            None => match std::env::var_os("XDG_RUNTIME_DIR") {
                Some(dir) => control::find_socket(dir.as_ref())?,
                None => {
                    let why = "XDG_RUNTIME_DIR is not set; name the socket with --control";
                    return Err(ClientError::Which(why.into()));
                }
            },
        };
        let mut client = Client::connect(&path)?;
        match self.question {
            Question::Status => {
                let status: Status = client.ask(Request::Status {})?;
                Ok(self.answer(&status, text::status))
            }
            Question::Mkey { key } => {
                let mkey: Mkey = client.ask(Request::Mkey { key: key.into() })?;
                Ok(self.answer(&mkey, text::mkey))
            }
            Question::Mkeys { live } => Ok(self.answer(&all_keys(&mut client, live)?, text::mkeys)),
            Question::Translate { key, address, length, access, pd } => {
                let request = |skip| Request::Translate {
                    key: key.into(),
                    address: Hex(address),
                    length: Hex(length),
                    access: access.into(),
                    pd,
                    skip,
                    limit: 8192,
                };
                let translation = all_pieces(&mut client, request)?;
                let refused = matches!(translation, Translation::Refused { .. });
                let answer = self.answer(&translation, text::translation);
                Ok(Answer { status: if refused { NO } else { 0 }, ..answer })
            }
            Question::Missing => {
                let missing: Missing = client.ask(Request::Missing {})?;
                Ok(self.answer(&missing, text::missing))
            }
            Question::Metrics => {
                let metrics: Metrics = client.ask(Request::Metrics {})?;
                Ok(self.answer(&metrics, |metrics| text::status(&metrics.status)))
            }
            Question::Watch(ref watch) => {
                watch.run(&mut client, self.json)?;
                Ok(Answer { text: String::new(), status: 0 })
            }
            Question::Inspect { ref node, limit } => {
                let node: Node = client.ask(Request::Inspect { node: node.clone(), limit })?;
                Ok(self.answer(&node, text::node))
            }
            Question::Fault { ref change } => match change.ask(&mut client)? {
                fault::Done::Rules(rules) => Ok(self.answer(&rules, text::faults)),
                fault::Done::Released(released) => Ok(self.answer(&released, text::released)),
            },
            Question::Unplug => self.slot(&mut client, SlotChange::Unplug),
            Question::Replug => self.slot(&mut client, SlotChange::Replug),
            Question::Trace { ref change } => {
                let (level, filter) = match change {
                    None => (None, None),
                    Some(TraceChange::Level { level }) => (Some(level.clone()), None),
                    Some(TraceChange::Filter { expression }) => {
                        (None, Some(expression.clone().unwrap_or_default()))
                    }
                };
                let status: TraceStatus = client.ask(Request::Trace { level, filter })?;
                Ok(self.answer(&status, text::trace))
            }
        }
    }

    fn slot(&self, client: &mut Client, change: SlotChange) -> Result<Answer, ClientError> {
        let asked: SlotAsked = client.ask(Request::Slot { change })?;
        Ok(self.answer(&asked, |asked| format!("{} was asked for\n", asked.asked.name())))
    }

    fn answer<T: Serialize>(&self, value: &T, text: impl FnOnce(&T) -> String) -> Answer {
        let text = if self.json {
            // Types of the schema have no maps with keys other than strings: nothing to fail.
            serde_json::to_string(value).unwrap_or_default() + "\n"
        } else {
            text(value)
        };
        Answer { text, status: 0 }
    }
}

/// Asks for page after page.
fn all_keys(client: &mut Client, live_only: bool) -> Result<MkeyPage, ClientError> {
    let mut keys = Vec::new();
    let mut from = 0;
    loop {
        let page: MkeyPage = client.ask(Request::Mkeys { live_only, from, limit: 4096 })?;
        keys.extend(page.keys);
        match page.next {
            // A server that does not get on would be asked for ever.
            Some(next) if next > from => from = next,
            _ => return Ok(MkeyPage { keys, next: None }),
        }
    }
}

/// Asks for page after page.
fn all_pieces(
    client: &mut Client,
    request: impl Fn(u64) -> Request,
) -> Result<Translation, ClientError> {
    let mut all: Vec<Piece> = Vec::new();
    loop {
        match client.ask(request(all.len() as u64))? {
            Translation::Pieces { pieces, more } => {
                let more = more && !pieces.is_empty();
                all.extend(pieces);
                if !more {
                    return Ok(Translation::Pieces { pieces: all, more: false });
                }
            }
            refused => return Ok(refused),
        }
    }
}

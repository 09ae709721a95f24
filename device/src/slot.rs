//! Whoever can take the card out of its slot, and put it in again.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use control::{Refusal, RefusalKind, SlotAsked, SlotChange};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde_json::Value;

/// Tells it to whoever has started us.
#[derive(Debug, Default)]
pub struct Slot {
    to: Option<File>,
}

impl Slot {
    /// Writes a line for each change to this pipe.
    pub fn new(to: File) -> Self {
        // Whoever reads too slowly is not waited for.
        let flags = fcntl_getfl(to.as_fd());
        let set = flags.and_then(|flags| fcntl_setfl(to.as_fd(), flags | OFlags::NONBLOCK));
        if let Err(error) = set {
            log::warn!("--slot-fd: {error}");
        }
        Self { to: Some(to) }
    }

    /// Asks for a change. That it was asked for says nothing about when it happens, or whether.
    pub fn ask(&mut self, change: SlotChange) -> Result<Value, Refusal> {
        let refused = |message| Refusal { kind: RefusalKind::NotFound, message };
        let Some(to) = &mut self.to else {
            return Err(refused("nobody can do it: the card was started without --slot-fd".into()));
        };
        to.write_all(format!("{}\n", change.name()).as_bytes())
            .map_err(|error| refused(format!("nobody can do it: {error}")))?;
        serde_json::to_value(SlotAsked { asked: change })
            .map_err(|error| refused(error.to_string()))
    }
}

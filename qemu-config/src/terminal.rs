//! The person's terminal while a guest's shell has it.

use std::io::IsTerminal as _;
use std::os::fd::AsFd as _;

use rustix::termios::{self, OptionalActions, Termios};

use crate::error::{Error, Result};

/// Typed in a shell, it ends the guest: Ctrl-].
pub(crate) const ESCAPE: u8 = 0x1d;

/// Passes every key on until it is dropped.
#[derive(Debug)]
pub(crate) struct Raw {
    before: Termios,
}

impl Raw {
    pub(crate) fn enter() -> Result<Self> {
        let stdin = std::io::stdin();
        let before = termios::tcgetattr(stdin.as_fd())
            .map_err(|error| Error::io("read the terminal's settings")(error.into()))?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(stdin.as_fd(), OptionalActions::Now, &raw)
            .map_err(|error| Error::io("set the terminal up")(error.into()))?;
        Ok(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(std::io::stdin().as_fd(), OptionalActions::Now, &self.before);
    }
}

/// Whether a shell makes sense.
pub(crate) fn both_ways() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Rows and columns.
pub(crate) fn size() -> (u16, u16) {
    termios::tcgetwinsize(std::io::stdout().as_fd())
        .map_or((24, 80), |size| (size.ws_row, size.ws_col))
}

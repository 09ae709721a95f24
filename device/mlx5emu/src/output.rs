//! Standard output that may be closed by its reader.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use crate::USAGE;

/// Prints `text` and ends with `status`. A reader that had enough (`| head`) is no error.
pub fn finish(text: &str, status: u8) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            fail(USAGE, format_args!("standard output: {error}"))
        }
        _ => ExitCode::from(status),
    }
}

/// Says in one line on standard error why it ends with `status`.
pub fn fail(status: u8, why: impl std::fmt::Display) -> ExitCode {
    eprintln!("mlx5emu: {why}");
    ExitCode::from(status)
}

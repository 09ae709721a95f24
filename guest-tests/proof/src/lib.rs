//! Judges the guest's registrations against the card's tables.
//!
//! A program in the guest ([`GUEST_PROGRAMS`], sources in `guest/`) registers memory in many ways. For
//! each registration it says which range, which rights, which key, and on which page frames the range
//! lies ([`Message`]), then waits. The judge asks the card over its control socket what the key reaches,
//! compares, and lets the program go on ([`judge()`]). Neither side is believed: what the guest says must
//! add up, a case that does not come is a failure, and every right, domain and boundary that the guest
//! did not ask for must be refused.
//!
//! The comparison needs a guest without an IOMMU: there a DMA address is a frame's number times 4096.
//!
//! What lives where: `protocol` has the messages, `cases` what must come, `frames` the arithmetic of
//! ranges and frames, `card` the questions, `examine` what is asked about one registration, `judge` the
//! run, `report` what people see.
#![forbid(unsafe_code)]

mod card;
mod cases;
mod examine;
mod frames;
mod judge;
mod programs;
mod protocol;
mod report;
#[cfg(test)]
mod tests;
mod verdict;

use std::io::{BufReader, Read, Write};
use std::path::Path;

pub use judge::judge;
pub use programs::{BENCHMARK, GUEST_PROGRAMS, PROGRAM, Program};
pub use protocol::{Message, Region, Word};
pub use report::Report;
pub use verdict::{CaseResult, JudgeError, Verdict};

/// Judges a guest that runs [`PROGRAM`] with these standard streams, and shows it to people. The
/// guest's standard error is the caller's.
pub fn demonstration(
    guest_stdin: impl Write,
    guest_stdout: impl Read,
    control: &Path,
    report: &mut Report<'_>,
) -> Result<Verdict, JudgeError> {
    let mut client = control::Client::connect(control)?;
    let verdict = judge(guest_stdin, BufReader::new(guest_stdout), &mut client, report)?;
    report.summary(&verdict)?;
    Ok(verdict)
}

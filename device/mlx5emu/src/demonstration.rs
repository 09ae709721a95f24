//! The demonstration: the guest's registration program on one side, the judge with the card's control
//! socket on the other.

use std::io::{IsTerminal as _, stdout};

use proof::{JudgeError, Report, Verdict};
use qemu_config::{Error, Options, Outcome, Session, Stop, Stream, Streams};

/// Runs it. The status is the guest's, or 1 when the guest found nothing wrong and the judge did.
pub fn run(options: Options, stop: &Stop) -> Result<(Outcome, u8), Error> {
    let streams = Streams { stdin: Stream::Piped, stdout: Stream::Piped, stderr: Stream::Inherit };
    let mut session = Session::start(options, streams, stop)?;
    let verdict = judge(&mut session);
    let outcome = session.wait();
    let status = match verdict {
        Ok(verdict) if verdict.passed() => outcome.status(),
        Ok(_) => outcome.status().max(1),
        Err(error) => {
            // When the guest or the card broke, that is what the caller reports.
            if outcome.status() == 0 {
                eprintln!("mlx5emu: the demonstration: {error}");
            }
            outcome.status().max(1)
        }
    };
    Ok((outcome, status))
}

fn judge(session: &mut Session) -> Result<Verdict, JudgeError> {
    let missing = || std::io::Error::other("the session has no pipes or no card");
    let stdin = session.take_stdin().ok_or_else(missing)?;
    let guest = session.take_stdout().ok_or_else(missing)?;
    let control = session.control().ok_or_else(missing)?.to_owned();
    let colour = stdout().is_terminal();
    let mut out = stdout();
    proof::demonstration(stdin, guest, &control, &mut Report::new(&mut out, colour))
}

//! One client of the control socket: bytes in, answers out, never waiting.

use std::io::{self, ErrorKind, Read, Write};

use control::{Answer, Envelope, Greeting, MAX_LINE, Refusal, RefusalKind, Request, SCHEMA};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a request is answered with.
pub type Reply = Result<Value, Refusal>;

/// What is to be done with a client after its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Wait until its stream is ready again.
    Wait,
    /// There is more to do without that.
    More,
    /// It is gone.
    Gone,
}

/// Answers that are not read yet do not grow beyond this and one more answer.
const MAX_BACKLOG: usize = MAX_LINE;

/// A connection with its unfinished line and its unsent answers.
#[derive(Debug)]
pub struct Client<S> {
    pub stream: S,
    input: Vec<u8>,
    /// How much of `input` is known to hold no newline.
    searched: usize,
    output: Vec<u8>,
    /// How much of `output` is sent.
    sent: usize,
    /// No more requests are taken: once the answers are sent, it is over.
    ending: bool,
}

impl<S: Read + Write> Client<S> {
    /// A client that will be greeted in its first turn.
    pub fn new(stream: S) -> Self {
        let greeting = Greeting { mlx5emu: env!("CARGO_PKG_VERSION").into(), schema: SCHEMA };
        let mut client = Self {
            stream,
            input: Vec::new(),
            searched: 0,
            output: Vec::new(),
            sent: 0,
            ending: false,
        };
        client.push(&greeting);
        client
    }

    /// Sends what can be sent and carries out at most one request.
    pub fn turn(&mut self, carry_out: &mut dyn FnMut(&Request) -> Reply) -> Turn {
        self.step(carry_out).unwrap_or(Turn::Gone)
    }

    fn step(&mut self, carry_out: &mut dyn FnMut(&Request) -> Reply) -> io::Result<Turn> {
        self.send()?;
        let unsent = self.output.len() - self.sent;
        if self.ending {
            return Ok(if unsent == 0 { Turn::Gone } else { Turn::Wait });
        }
        if unsent > MAX_BACKLOG {
            return Ok(Turn::Wait);
        }
        loop {
            if let Some(line) = self.take_line() {
                let answer = answer(&line, carry_out);
                self.push_answer(answer);
                return Ok(Turn::More);
            }
            if self.input.len() >= MAX_LINE {
                self.push_answer(refuse(0, format!("a line is longer than {MAX_LINE} bytes")));
                self.ending = true;
                return Ok(Turn::More);
            }
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece) {
                Ok(0) => {
                    // What it has asked is still answered; an unfinished line is no request.
                    self.ending = true;
                    return Ok(Turn::More);
                }
                Ok(n) => self.input.extend_from_slice(piece.get(..n).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Turn::Wait),
                Err(error) => return Err(error),
            }
        }
    }

    /// The next whole line, without its newline.
    fn take_line(&mut self) -> Option<Vec<u8>> {
        let fresh = self.input.get(self.searched..)?;
        let Some(at) = fresh.iter().position(|&byte| byte == b'\n') else {
            self.searched = self.input.len();
            return None;
        };
        let rest = self.input.split_off(self.searched + at + 1);
        let mut line = std::mem::replace(&mut self.input, rest);
        line.pop();
        self.searched = 0;
        Some(line)
    }

    fn push_answer(&mut self, answer: Answer) {
        let before = self.output.len();
        self.push(&answer);
        if self.output.len() - before > MAX_LINE {
            self.output.truncate(before);
            self.push(&refuse(answer.id, "the answer is too long; ask for less".into()));
        }
    }

    fn push(&mut self, line: &impl Serialize) {
        // Our own types into memory: there is nothing to fail.
        let _ = serde_json::to_writer(&mut self.output, line);
        self.output.push(b'\n');
    }

    fn send(&mut self) -> io::Result<()> {
        while let Some(unsent) = self.output.get(self.sent..).filter(|unsent| !unsent.is_empty()) {
            match self.stream.write(unsent) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.output.shrink_to(4096);
        self.sent = 0;
        Ok(())
    }
}

fn answer(line: &[u8], carry_out: &mut dyn FnMut(&Request) -> Reply) -> Answer {
    /// The one thing that can be read from many lines that are no request.
    #[derive(Deserialize)]
    struct Id {
        id: u64,
    }

    match serde_json::from_slice::<Envelope>(line) {
        Ok(Envelope { id, request }) => match carry_out(&request) {
            Ok(reply) => Answer { id, ok: Some(reply), error: None },
            Err(refusal) => Answer { id, ok: None, error: Some(refusal) },
        },
        Err(error) => {
            let id = serde_json::from_slice::<Id>(line).map_or(0, |Id { id }| id);
            refuse(id, error.to_string())
        }
    }
}

fn refuse(id: u64, message: String) -> Answer {
    Answer { id, ok: None, error: Some(Refusal { kind: RefusalKind::BadRequest, message }) }
}

//! One client.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use thiserror::Error;

use super::execute::execute;
use super::inbox::{Inbox, Received};
use super::outbox::Outbox;
use super::target::Target;
use super::wire::flag;

/// Messages that one call of [`Connection::serve`] carries out at most.
const MESSAGES_PER_CALL: u32 = 256;

/// Bytes after which a call of [`Connection::serve`] receives no more.
const BYTES_PER_CALL: usize = 128 << 10;

/// With so many bytes of replies that the client doesn't read, it is not served.
const UNREAD_LIMIT: usize = 256 << 10;

/// What to wait for before serving again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Nothing: there is more to do now.
    More,
    /// The socket has something to read.
    Idle,
    /// The socket can be written, or has something to read.
    Blocked,
}

/// Why a connection ended.
#[derive(Debug, Error)]
pub enum Disconnect {
    /// The client closed it between two messages.
    #[error("the client closed the connection")]
    Closed,
    /// The client closed it within a message.
    #[error("the client closed the connection within a message")]
    Incomplete,
    /// A message claims to be shorter than its header.
    #[error("message {id:#x} claims a size of {size} bytes, less than its header")]
    Size {
        /// Its identifier.
        id: u16,
        /// The size it claims.
        size: u32,
    },
    /// The client speaks another major version.
    #[error("the client speaks another version of the protocol")]
    Version,
    /// The socket failed.
    #[error("the connection failed")]
    Socket(#[from] io::Error),
}

impl From<Errno> for Disconnect {
    fn from(error: Errno) -> Self {
        match error {
            Errno::PIPE | Errno::CONNRESET => Self::Closed,
            error => Self::Socket(error.into()),
        }
    }
}

/// What a connection did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Messages carried out or refused.
    pub messages: u64,
    /// System calls that received.
    pub receives: u64,
    /// System calls that sent.
    pub sends: u64,
}

/// A client's connection. Dropping it ends it.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    inbox: Inbox,
    outbox: Outbox,
    negotiated: bool,
    hung_up: bool,
    counters: Counters,
}

impl Connection {
    /// A client that has just connected.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            inbox: Inbox::new(),
            outbox: Outbox::default(),
            negotiated: false,
            hung_up: false,
            counters: Counters::default(),
        })
    }

    /// Whether client and server have agreed on a version.
    pub fn negotiated(&self) -> bool {
        self.negotiated
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Serves what has arrived, a bounded amount of it, and says what to wait for.
    ///
    /// Made for an edge-triggered poll: unless the answer is [`Progress::More`], the socket was
    /// seen empty. It may be seen empty without a system call that says so, and such an answer
    /// doesn't tell whether the client has hung up; so `hung_up` has to say whether the event
    /// that led to this call did. (With mio that is `is_read_closed` or `is_error`.)
    pub fn serve(
        &mut self,
        target: &mut dyn Target,
        hung_up: bool,
    ) -> Result<Progress, Disconnect> {
        self.hung_up |= hung_up;
        let result = self.work(target);
        if result.is_err() {
            // What was answered before the end should arrive, but nobody waits for it.
            let _ = self.flush();
        }
        result
    }

    fn work(&mut self, target: &mut dyn Target) -> Result<Progress, Disconnect> {
        self.flush()?;
        let (mut messages, mut bytes) = (0, 0);
        let mut empty = false;
        loop {
            if self.outbox.len() > UNREAD_LIMIT {
                self.flush()?;
                if self.outbox.len() > UNREAD_LIMIT {
                    return Ok(Progress::Blocked);
                }
            }
            if messages == MESSAGES_PER_CALL {
                self.flush()?;
                return Ok(Progress::More);
            }
            if self.serve_one(target)? {
                messages += 1;
                continue;
            }
            let all_sent = self.flush()?;
            if empty {
                return Ok(if all_sent { Progress::Idle } else { Progress::Blocked });
            }
            if bytes >= BYTES_PER_CALL {
                return Ok(Progress::More);
            }
            self.counters.receives += 1;
            match self.inbox.receive(&self.stream)? {
                Received::Bytes { count, more } => {
                    bytes += count;
                    empty = !more && !self.hung_up;
                }
                Received::Nothing => empty = true,
                Received::End if self.inbox.in_message() => return Err(Disconnect::Incomplete),
                Received::End => return Err(Disconnect::Closed),
            }
        }
    }

    /// Serves the next message; false if it has not arrived.
    fn serve_one(&mut self, target: &mut dyn Target) -> Result<bool, Disconnect> {
        let Self { inbox, outbox, negotiated, counters, .. } = self;
        match inbox.next() {
            Ok(None) => Ok(false),
            Ok(Some(message)) => {
                counters.messages += 1;
                execute(message, negotiated, target, outbox)?;
                Ok(true)
            }
            Err(header) => {
                if header.flags & flag::TYPE != flag::REPLY {
                    outbox.begin();
                    outbox.finish(&header, Err(Errno::INVAL));
                }
                Err(Disconnect::Size { id: header.id, size: header.size })
            }
        }
    }

    fn flush(&mut self) -> Result<bool, Errno> {
        self.outbox.flush(&self.stream, &mut self.counters.sends)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AsRawFd for Connection {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}

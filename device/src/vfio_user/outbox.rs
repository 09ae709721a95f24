//! From replies to the stream.
//!
//! QEMU gives up when it receives part of a header. A piece of the stream that was sent by one call is
//! received whole if it is small, so a call sends either small messages, all of them whole, or one
//! large message from its beginning.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use zerocopy::{Immutable, IntoBytes};

use super::wire::{Header, flag};

/// What Linux takes as one piece or not at all: it cuts only calls of more than 32 KiB (and smaller
/// ones only for sockets whose buffer was made tiny).
const PIECE: usize = 16 << 10;

/// What a buffer may keep after a large reply.
const CAPACITY: usize = 64 << 10;

/// Replies that were not sent yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    buffer: Vec<u8>,
    /// Bytes at the front of the buffer that were sent.
    sent: usize,
    /// How many bytes of each message are left, oldest first.
    messages: VecDeque<usize>,
    /// Where the reply being written begins.
    begun: usize,
}

impl Outbox {
    /// How many bytes wait.
    pub(super) fn len(&self) -> usize {
        self.buffer.len() - self.sent
    }

    /// Begins a reply; what is pushed from here on is its body.
    pub(super) fn begin(&mut self) {
        self.begun = self.buffer.len();
        self.buffer.resize(self.begun + size_of::<Header>(), 0);
    }

    /// Adds a structure to the reply.
    pub(super) fn push(&mut self, value: &(impl IntoBytes + Immutable + ?Sized)) {
        self.buffer.extend_from_slice(value.as_bytes());
    }

    /// Adds `len` zero bytes to the reply, for the caller to fill.
    pub(super) fn extend(&mut self, len: usize) -> &mut [u8] {
        let start = self.buffer.len();
        self.buffer.resize(start + len, 0);
        self.buffer.get_mut(start..).unwrap_or_default()
    }

    /// Ends the reply to `request`: what was pushed, or an error alone, or nothing if none is wanted.
    pub(super) fn finish(&mut self, request: &Header, result: Result<(), Errno>) {
        if request.no_reply() {
            self.buffer.truncate(self.begun);
            return;
        }
        let mut header = Header { flags: flag::REPLY, error: 0, size: 0, ..*request };
        if let Err(error) = result {
            self.buffer.truncate(self.begun + size_of::<Header>());
            header.flags |= flag::ERROR;
            header.error = error.raw_os_error().unsigned_abs();
        }
        let size = self.buffer.len() - self.begun;
        // No reply is longer than a megabyte and some.
        header.size = size as u32;
        if let Some(place) = self.buffer.get_mut(self.begun..self.begun + size_of::<Header>()) {
            place.copy_from_slice(header.as_bytes());
        }
        self.messages.push_back(size);
    }

    /// Sends what the socket takes, counting calls in `sends`; false if something is left.
    pub(super) fn flush(&mut self, stream: &UnixStream, sends: &mut u64) -> Result<bool, Errno> {
        while let Some(&first) = self.messages.front() {
            let mut len = 0;
            for message in &self.messages {
                if len + message > PIECE {
                    break;
                }
                len += message;
            }
            let end = self.sent + len.max(first);
            let part = self.buffer.get(self.sent..end).ok_or(Errno::NOBUFS)?;
            *sends += 1;
            match send(stream, part, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => self.discard(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Forgets `count` bytes that were sent.
    fn discard(&mut self, mut count: usize) {
        self.sent += count;
        while let Some(first) = self.messages.front_mut() {
            if *first > count {
                *first -= count;
                break;
            }
            count -= *first;
            self.messages.pop_front();
        }
        if self.messages.is_empty() {
            self.buffer.clear();
            self.buffer.shrink_to(CAPACITY);
            self.sent = 0;
        } else if self.sent > CAPACITY {
            self.buffer.drain(..self.sent);
            self.sent = 0;
        }
    }
}

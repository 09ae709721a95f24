//! From the stream to whole messages and their descriptors.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use zerocopy::FromBytes;

use super::wire::{Header, MAX_DESCRIPTORS, MAX_MESSAGE};

/// Room for many small messages; it grows while a larger one is on its way.
const CAPACITY: usize = 64 << 10;

/// The descriptors of one message.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    pub(super) files: Vec<OwnedFd>,
    /// There were more than we take, or than the process may open.
    pub(super) cut: bool,
}

impl Descriptors {
    /// All that were sent, or why that is not to be had.
    pub(super) fn whole(self) -> Result<Vec<OwnedFd>, Errno> {
        if self.cut { Err(Errno::MFILE) } else { Ok(self.files) }
    }

    fn append(&mut self, later: Self) {
        self.files.extend(later.files);
        self.cut |= later.cut || self.files.len() > MAX_DESCRIPTORS;
        self.files.truncate(MAX_DESCRIPTORS);
    }
}

/// One message.
#[derive(Debug)]
pub(super) struct Message<'a> {
    pub(super) header: Header,
    /// What follows the header; none if it was longer than any message may be.
    pub(super) body: Option<&'a [u8]>,
    pub(super) descriptors: Descriptors,
}

/// What a receive call brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// So many bytes. If `more` is false the socket was found empty behind them.
    Bytes { count: usize, more: bool },
    /// Nothing has arrived.
    Nothing,
    /// The client will send no more.
    End,
}

/// Bytes that arrived and were not consumed yet.
#[derive(Debug)]
pub(super) struct Inbox {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// How many bytes of the stream came before `start`.
    position: u64,
    /// Those that came for the message in progress, and where in the stream.
    earlier: Option<(u64, Descriptors)>,
    /// Those that came with the last receive call, and where in the stream.
    latest: Option<(u64, Descriptors)>,
    /// A message that is too long, and how much of it is still to be dropped.
    dropping: Option<(Header, usize)>,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            buffer: vec![0; CAPACITY],
            start: 0,
            end: 0,
            position: 0,
            earlier: None,
            latest: None,
            dropping: None,
        }
    }

    /// Whether part of a message is there.
    pub(super) fn in_message(&self) -> bool {
        self.start != self.end || self.dropping.is_some()
    }

    /// Receives once. Only to be called when [`next`](Self::next) has no message left.
    pub(super) fn receive(&mut self, stream: &UnixStream) -> Result<Received, Errno> {
        self.make_room();
        let Some(room) = self.buffer.get_mut(self.end..) else { return Err(Errno::NOBUFS) };
        let size = room.len();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received = loop {
            match recvmsg(stream, &mut [IoSliceMut::new(room)], &mut control, flags) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                result => break result?,
            }
        };
        let count = received.bytes;
        if count == 0 {
            return Ok(Received::End);
        }
        self.end += count;
        let mut descriptors = Descriptors::default();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                descriptors.append(Descriptors { files: files.collect(), cut: false });
            }
        }
        descriptors.cut |= received.flags.contains(ReturnFlags::CTRUNC);
        if descriptors.files.is_empty() && !descriptors.cut {
            // Less than there was room for: nothing is left. With descriptors that doesn't hold.
            return Ok(Received::Bytes { count, more: count == size });
        }
        // What there was before came while the message in progress came, so it is that one's.
        if let Some((at, later)) = self.latest.take() {
            let (_, all) = self.earlier.get_or_insert_with(|| (at, Descriptors::default()));
            all.append(later);
        }
        let last_byte = self.position + (self.end - self.start) as u64 - 1;
        self.latest = Some((last_byte, descriptors));
        Ok(Received::Bytes { count, more: true })
    }

    /// Makes room for the rest of the message in progress at least.
    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let size = match self.header() {
            Some(header) if self.dropping.is_none() => header.size as usize,
            _ => size_of::<Header>(),
        };
        let wanted = size.clamp(CAPACITY, MAX_MESSAGE);
        if self.start + wanted > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        } else if self.buffer.len() > wanted && self.end <= CAPACITY {
            self.buffer.truncate(CAPACITY.max(wanted));
            self.buffer.shrink_to_fit();
        }
    }

    fn unread(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    fn header(&self) -> Option<Header> {
        Header::read_from_prefix(self.unread()).ok().map(|(header, _)| header)
    }

    /// Takes `len` bytes that are there.
    fn consume(&mut self, len: usize) {
        self.start += len;
        self.position += len as u64;
    }

    /// Takes the descriptors of the message that ends before `position`.
    fn take_descriptors(&mut self) -> Descriptors {
        let mut taken = Descriptors::default();
        for place in [&mut self.earlier, &mut self.latest] {
            if let Some((_, descriptors)) = place.take_if(|(at, _)| *at < self.position) {
                taken.append(descriptors);
            }
        }
        taken
    }

    /// The next message if it has arrived as a whole. The error is a header whose size is smaller
    /// than the header.
    pub(super) fn next(&mut self) -> Result<Option<Message<'_>>, Header> {
        let (header, left) = match self.dropping {
            Some(dropping) => dropping,
            None => match self.header() {
                Some(header) => (header, header.size as usize),
                None => return Ok(None),
            },
        };
        let there = self.end - self.start;
        if left > MAX_MESSAGE || self.dropping.is_some() {
            let part = left.min(there);
            self.consume(part);
            self.dropping = (part < left).then_some((header, left - part));
            if self.dropping.is_some() {
                return Ok(None);
            }
            let descriptors = self.take_descriptors();
            return Ok(Some(Message { header, body: None, descriptors }));
        }
        if left < size_of::<Header>() {
            return Err(header);
        }
        if left > there {
            return Ok(None);
        }
        let start = self.start + size_of::<Header>();
        self.consume(left);
        let descriptors = self.take_descriptors();
        let body = self.buffer.get(start..self.start);
        Ok(Some(Message { header, body, descriptors }))
    }
}

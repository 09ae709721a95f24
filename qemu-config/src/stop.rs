//! A request to stop that every wait in this crate sees.

use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::error::{Error, Result};

/// A request to stop. Once made it stays; clones share it.
#[derive(Debug, Clone)]
pub struct Stop(Arc<Ends>);

#[derive(Debug)]
struct Ends {
    read: UnixStream,
    write: UnixStream,
}

impl Stop {
    /// One that nobody has asked for yet.
    pub fn new() -> Result<Self> {
        let (read, write) = UnixStream::pair().map_err(Error::io("make a socket pair"))?;
        write.set_nonblocking(true).map_err(Error::io("set up a socket"))?;
        Ok(Self(Arc::new(Ends { read, write })))
    }

    /// Asks everything to stop and clean up.
    pub fn request(&self) {
        // When the pipe is full the request has been made long ago.
        let _ = (&self.0.write).write(&[1]);
    }

    /// A stream that requests the stop when something is written to it, for a signal handler.
    pub fn trigger(&self) -> Result<UnixStream> {
        self.0.write.try_clone().map_err(Error::io("duplicate a socket"))
    }

    /// Whether it has been requested.
    pub fn requested(&self) -> bool {
        poll(&[self.0.read.as_fd()], Some(0)).is_ok_and(|ready| ready == [true])
    }

    /// Fails when it has been requested.
    pub(crate) fn check(&self) -> Result<()> {
        if self.requested() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.read.as_fd()
    }
}

/// Waits until one of them can be read or has ended; says which. `None` waits for ever.
pub(crate) fn poll(fds: &[BorrowedFd<'_>], milliseconds: Option<u64>) -> Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let limit = milliseconds.map(|ms| Timespec {
        tv_sec: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ms % 1000 * 1_000_000).unwrap_or(0),
    });
    loop {
        match rustix::event::poll(&mut polled, limit.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::io("wait for events")(error.into())),
            Ok(_) => return Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_stays_and_is_shared() {
        let stop = Stop::new().unwrap();
        let other = stop.clone();
        assert!(!other.requested());
        stop.trigger().unwrap().write_all(&[1]).unwrap();
        assert!(other.requested() && other.requested());
        assert!(matches!(stop.check(), Err(Error::Interrupted)));
    }
}

//! The socket that clients connect to.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, recv,
    socket_with,
};
use thiserror::Error;

use super::Connection;

/// Longest path of a socket, in bytes.
const MAX_PATH: usize = 107;

/// Clients that may wait to be accepted or refused.
const BACKLOG: i32 = 8;

/// Why there is no socket.
#[derive(Debug, Error)]
pub enum BindError {
    /// The path doesn't fit into a socket's address.
    #[error("the path has {0} bytes, a socket's can have {MAX_PATH}")]
    PathTooLong(usize),
    /// A server answers there.
    #[error("a server is using it")]
    InUse,
    /// There is something else.
    #[error("it exists and is not a socket")]
    NotASocket,
    /// The kernel refused.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// A socket in the file system that only its owner can connect to. It is removed on drop.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode, to remove our socket and not one that took its place.
    identity: (u64, u64),
}

impl Listener {
    /// Creates the socket. One that a dead server left behind is replaced.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        let length = path.as_os_str().len();
        if length > MAX_PATH {
            return Err(BindError::PathTooLong(length));
        }
        let address = SocketAddrUnix::new(path).map_err(io::Error::from)?;
        remove_stale(path, &address)?;
        let socket = socket().map_err(io::Error::from)?;
        // On Linux this is the mode that `bind` gives the file, so that it never has another.
        fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(io::Error::from)?;
        bind(&socket, &address).map_err(|error| match error {
            Errno::ADDRINUSE => BindError::InUse,
            error => BindError::System(error.into()),
        })?;
        let file = fs::symlink_metadata(path)?;
        let listener =
            Self { listener: socket.into(), path: path.into(), identity: (file.dev(), file.ino()) };
        listen(&listener, BACKLOG).map_err(io::Error::from)?;
        Ok(listener)
    }

    /// Accepts a client; those that come while one is `connected`, or after the one that is
    /// returned, are refused. None if nobody (else) waits.
    pub fn accept(&self, connected: bool) -> io::Result<Option<Connection>> {
        let mut client = None;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) if !connected && client.as_ref().is_none_or(has_left) => {
                    client = Some(Connection::new(stream)?);
                }
                Ok(_) => log::warn!("a second client was refused: {}", self.path.display()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(client),
                // One that left before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The client that was accepted counts for more than those behind it.
                Err(error) => return client.map(Some).ok_or(error),
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let ours = |file: fs::Metadata| (file.dev(), file.ino()) == self.identity;
        if fs::symlink_metadata(&self.path).is_ok_and(ours)
            && let Err(error) = fs::remove_file(&self.path)
        {
            log::warn!("{} stays behind: {error}", self.path.display());
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}

/// A client that closed its end before it said anything, as one does that only wants to know whether
/// the socket is in use.
fn has_left(client: &Connection) -> bool {
    recv(client, &mut [0][..], RecvFlags::PEEK | RecvFlags::DONTWAIT).is_ok_and(|(_, len)| len == 0)
}

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Removes a socket that nobody listens on.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<(), BindError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
        Ok(file) if !file.file_type().is_socket() => return Err(BindError::NotASocket),
        Ok(_) => {}
    }
    let probe = UnixStream::from(socket().map_err(io::Error::from)?);
    match connect(&probe, address) {
        // Nobody has it open.
        Err(Errno::CONNREFUSED) => Ok(fs::remove_file(path)?),
        Err(Errno::NOENT) => Ok(()),
        // A full queue or another type of socket: somebody is there.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(BindError::InUse),
        Err(error) => Err(BindError::System(error.into())),
    }
}

//! The control socket's server. `docs/control.md` has the schema.

mod client;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream as StdStream;

use control::Request;
use mio::net::UnixStream;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use crate::vfio_user::Listener;

pub use client::Reply;
use client::{Client, Turn};

/// More clients than this at one time are not for people.
const MAX_CLIENTS: usize = 32;

/// The listening socket and everyone who is connected.
#[derive(Debug)]
pub struct ControlServer {
    listener: Listener,
    listen_token: Token,
    clients: BTreeMap<Token, Client<UnixStream>>,
    /// Tokens are not used again: an event may be about a client that is gone.
    next_token: usize,
}

impl ControlServer {
    /// Serves `listener`. All tokens from `first_token` on are its own.
    pub fn new(listener: Listener, registry: &Registry, first_token: Token) -> io::Result<Self> {
        registry.register(&mut SourceFd(&listener.as_raw_fd()), first_token, Interest::READABLE)?;
        Ok(Self {
            listener,
            listen_token: first_token,
            clients: BTreeMap::new(),
            next_token: first_token.0 + 1,
        })
    }

    /// Deals with an event that is not the vfio-user client's.
    pub fn event(&mut self, registry: &Registry, token: Token) {
        if token == self.listen_token {
            self.accept(registry);
        }
    }

    /// Gives every client a turn. Returns whether there is more to do without waiting for an event.
    pub fn turn(
        &mut self,
        registry: &Registry,
        carry_out: &mut dyn FnMut(&Request) -> Reply,
    ) -> bool {
        let mut more = false;
        self.clients.retain(|_, client| match client.turn(carry_out) {
            Turn::Wait => true,
            Turn::More => {
                more = true;
                true
            }
            Turn::Gone => {
                // Closing it does the same; this can only fail if that has happened.
                let _ = registry.deregister(&mut client.stream);
                false
            }
        });
        more
    }

    fn accept(&mut self, registry: &Registry) {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let mut stream = match accept_with(&self.listener, flags) {
                Ok(stream) => UnixStream::from_std(StdStream::from(stream)),
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => return,
                Err(error) => return log::warn!("control socket: {error}"),
            };
            if !is_permitted(&stream) {
                log::warn!("control socket: refused a client of another user");
                continue;
            }
            if self.clients.len() >= MAX_CLIENTS {
                log::warn!("control socket: refused a client, {MAX_CLIENTS} are connected");
                continue;
            }
            let token = Token(self.next_token);
            let interest = Interest::READABLE | Interest::WRITABLE;
            if let Err(error) = registry.register(&mut stream, token, interest) {
                log::warn!("control socket: {error}");
                continue;
            }
            self.next_token += 1;
            self.clients.insert(token, Client::new(stream));
        }
    }
}

/// The peer is our own user or root.
fn is_permitted(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

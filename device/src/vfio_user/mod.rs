//! Our vfio-user server: the only place that knows the protocol.
//!
//! # How a message is served
//! A bounded header is read, the body is drained, checked and carried out, and exactly one reply is
//! sent, with a true error number if there was an error; a message that wants no reply gets none,
//! not even for an error. Whatever is wrong with a message, the stream stays in step, except when its
//! size can't be right: then nobody knows where the next one begins, and the connection ends.
//!
//! Nothing here waits. [`Connection::serve`] does a bounded amount of work with what has arrived
//! and says what to wait for. A client that does not read its replies is not served further.
//!
//! # Which descriptors belong to which message
//! One receive call may return many messages, so that a burst of posted writes costs one system
//! call. Linux ends such a call at the piece of the stream that descriptors came with, which is
//! therefore always its last. A client sends the descriptors of a message with that message's own
//! `sendmsg`, so they belong to the message that the last byte received is part of, complete or
//! not. (A client that put several messages into one `sendmsg` with descriptors would see them
//! go to the last of these.)
//!
//! # What it doesn't implement
//! Regions that the client can map and their descriptors, messages from server to client (so no
//! DMA without descriptors and no second socket), migration, dirty pages. Such a command is
//! answered with `EOPNOTSUPP`.

mod connection;
mod execute;
mod inbox;
mod listener;
mod outbox;
mod target;
mod version;
mod wire;

pub use connection::{Connection, Counters, Disconnect, Progress};
pub use listener::{BindError, Listener};
pub use rustix::io::Errno;
pub use target::{DmaMap, Irq, IrqChange, Region, Target};

//! The control socket's schema, and a client for it.
//!
//! A UNIX stream of JSON lines: the server's first line is a [`Greeting`]; then one request
//! ([`Envelope`]) gets one [`Answer`], in order. A line is at most [`MAX_LINE`] bytes. Values of 64 bits,
//! addresses and keys are strings `"0x…"` ([`Hex`]), because JSON numbers lose bits above 2^53.
//!
//! This is the only way to look inside a running device; it is versioned by [`SCHEMA`].
#![forbid(unsafe_code)]

mod client;
mod hex;
mod schema;

pub use client::{Client, ClientError, find_socket};
pub use hex::Hex;
pub use schema::*;

//! A client in a thread of its own, and the server in a loop that waits as its owner does.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use device::vfio_user::{Disconnect, Listener, Progress};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::os::fd::AsRawFd;

use crate::bytes;
use crate::peer::{
    DEVICE_GET_INFO, NO_REPLY, REGION_READ, REGION_WRITE, Recorder, VERSION, message,
};

/// Serves one client until it goes; returns what was done and why it ended.
pub fn serve_one(listener: &Listener) -> (Recorder, Disconnect) {
    let mut poll = Poll::new().unwrap();
    let mut events = Events::with_capacity(8);
    let mut target = Recorder::default();
    let raw = listener.as_raw_fd();
    poll.registry().register(&mut SourceFd(&raw), Token(0), Interest::READABLE).unwrap();
    let mut connection = loop {
        if let Some(connection) = listener.accept(false).unwrap() {
            break connection;
        }
        poll.poll(&mut events, Some(Duration::from_secs(60))).unwrap();
        assert!(!events.is_empty(), "waited a minute for a client");
    };
    let raw = connection.as_raw_fd();
    let mut interest = Interest::READABLE;
    poll.registry().register(&mut SourceFd(&raw), Token(1), interest).unwrap();
    let mut hung_up = false;
    loop {
        let progress = match connection.serve(&mut target, hung_up) {
            Ok(Progress::More) => continue,
            Ok(progress) => progress,
            Err(end) => return (target, end),
        };
        let wanted = match progress {
            Progress::Blocked => Interest::READABLE | Interest::WRITABLE,
            _ => Interest::READABLE,
        };
        if wanted != interest {
            interest = wanted;
            poll.registry().reregister(&mut SourceFd(&raw), Token(1), interest).unwrap();
        }
        poll.poll(&mut events, Some(Duration::from_secs(60))).unwrap();
        assert!(!events.is_empty(), "waited a minute for the client");
        for event in events.iter().filter(|event| event.token() == Token(1)) {
            hung_up |= event.is_read_closed() || event.is_error();
        }
    }
}

/// Runs `client` against a server at a path and returns what the server did.
pub fn with_server(client: impl FnOnce(&Path) + Send) -> (Recorder, Disconnect) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = Listener::bind(&path).unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve_one(&listener));
        client(&path);
        server.join().unwrap()
    })
}

fn reply(client: &mut UnixStream) -> (u16, Vec<u8>) {
    let mut header = [0; 16];
    client.read_exact(&mut header).unwrap();
    let size = u32::from_ne_bytes(header[4..8].try_into().unwrap()) as usize;
    let mut body = vec![0; size - 16];
    client.read_exact(&mut body).unwrap();
    (u16::from_ne_bytes(header[..2].try_into().unwrap()), body)
}

#[test]
fn every_message_of_a_busy_client_is_served_and_its_end_is_seen() {
    const ROUNDS: u64 = 5000;
    let (target, end) = with_server(|path| {
        let mut client = UnixStream::connect(path).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        client.write_all(&message(1, VERSION, 0, &bytes![0_u16, 0_u16])).unwrap();
        reply(&mut client);
        for round in 0..ROUNDS {
            let posted = bytes![round * 8, 0_u32, 8_u32, round];
            client.write_all(&message(2, REGION_WRITE, NO_REPLY, &posted)).unwrap();
            if round % 7 == 0 {
                let id = round as u16;
                client
                    .write_all(&message(id, REGION_READ, 0, &bytes![0_u64, 0_u32, 4_u32]))
                    .unwrap();
                assert_eq!(reply(&mut client).0, id);
            }
        }
        // Gone right after the last message.
    });
    assert!(matches!(end, Disconnect::Closed), "{end}");
    assert_eq!(target.calls.len() as u64, ROUNDS + ROUNDS.div_ceil(7));
}

#[test]
fn a_client_that_reads_late_is_served_in_the_end() {
    let (target, end) = with_server(|path| {
        let mut client = UnixStream::connect(path).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        client.write_all(&message(0, VERSION, 0, &bytes![0_u16, 0_u16])).unwrap();
        for id in 1..=40 {
            let read = bytes![0_u64, 0_u32, 1_u32 << 20];
            client.write_all(&message(id, REGION_READ, 0, &read)).unwrap();
        }
        for id in 0..=40 {
            let (answered, body) = reply(&mut client);
            assert_eq!(answered, id);
            assert!(id == 0 || body.len() == 16 + (1 << 20));
        }
        client
            .write_all(&message(99, DEVICE_GET_INFO, 0, &bytes![16_u32, 0_u32, 0_u32, 0_u32]))
            .unwrap();
        assert_eq!(reply(&mut client).0, 99);
    });
    assert!(matches!(end, Disconnect::Closed), "{end}");
    assert_eq!(target.calls.len(), 40);
}

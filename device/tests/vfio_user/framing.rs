//! Headers: their sizes, types and flags; messages in parts; the end of the stream.

use std::io::{ErrorKind, Read, Write};

use device::vfio_user::{Disconnect, Errno, Progress};

use crate::bytes;
use crate::peer::{
    Call, DEVICE_GET_INFO, DEVICE_RESET, DMA_MAP, ERROR, NO_REPLY, Peer, REGION_READ, REGION_WRITE,
    REPLY, Watched, message,
};

const INVALID: Result<Vec<u8>, u32> = Err(Errno::INVAL.raw_os_error() as u32);

#[test]
fn a_message_may_come_in_any_two_parts() {
    let mut peer = Peer::new();
    let body = bytes![0x40_u64, 0_u32, 4_u32, 0x1234_5678_u32];
    for cut in 1..36 {
        let id = peer.id();
        let message = message(id, REGION_WRITE, 0, &body);
        peer.send(&message[..cut]);
        assert_eq!(peer.serve().unwrap(), Progress::Idle);
        assert_eq!(peer.replies(), [], "cut at {cut}");
        peer.send(&message[cut..]);
        peer.serve().unwrap();
        assert_eq!(peer.only_reply(id, REGION_WRITE), Ok(body[..16].to_vec()), "cut at {cut}");
    }
    assert_eq!(peer.target.calls.len(), 35);
}

#[test]
fn messages_may_come_in_parts_of_any_size() {
    for part in [1, 7, 16, 17, 33, 1000, 65_535] {
        let mut peer = Peer::new();
        let mut stream = Vec::new();
        for i in 0..500_u32 {
            let body = bytes![u64::from(i), 0_u32, i % 64 + 1];
            let body: Vec<u8> =
                body.into_iter().chain((0..=i % 64).map(|byte| byte as u8)).collect();
            stream.extend(message(
                i as u16,
                REGION_WRITE,
                if i == 499 { 0 } else { NO_REPLY },
                &body,
            ));
        }
        for part in stream.chunks(part) {
            peer.send(part);
            peer.serve().unwrap();
        }
        peer.only_reply(499, REGION_WRITE).unwrap();
        for (i, call) in (0_u64..).zip(&peer.target.calls) {
            let data = (0..=(i % 64) as u8).collect();
            assert_eq!(*call, Call::Write { region: 0, offset: i, data }, "in parts of {part}");
        }
        assert_eq!(peer.target.calls.len(), 500);
    }
}

#[test]
fn a_size_below_the_header_s_is_answered_and_ends_the_connection() {
    for size in 0..16_u32 {
        let mut peer = Peer::new();
        let id = peer.id();
        peer.send(&bytes![id, DEVICE_RESET, size, 0_u32, 0_u32]);
        let end = peer.serve().unwrap_err();
        assert!(
            matches!(end, Disconnect::Size { id: i, size: s } if (i, s) == (id, size)),
            "{end}"
        );
        assert_eq!(peer.only_reply(id, DEVICE_RESET), INVALID);
        assert_eq!(peer.target.calls, []);
    }
    let mut peer = Peer::new();
    peer.send(&bytes![1_u16, DEVICE_RESET, 0_u32, NO_REPLY, 0_u32]);
    assert!(matches!(peer.serve(), Err(Disconnect::Size { .. })));
    assert_eq!(peer.replies(), []);
}

#[test]
fn a_message_that_is_too_long_is_dropped_and_answered() {
    const LIMIT: usize = 16 + 16 + (1 << 20);
    for size in [LIMIT + 1, LIMIT + 2, 3 << 20, 20 << 20] {
        for command in [REGION_WRITE, 999] {
            let mut peer = Peer::new();
            let id = peer.id();
            let mut watched = Watched::new();
            peer.send_with(&bytes![id, command, size as u32, 0_u32, 0_u32], &[watched.fd()]);
            let mut left = size - 16;
            while left > 0 {
                assert_eq!(peer.replies(), []);
                let part = left.min(60_001);
                peer.send(&vec![0xff; part]);
                peer.serve().unwrap();
                left -= part;
            }
            let error = Err(Errno::TOOBIG.raw_os_error() as u32);
            assert_eq!(peer.only_reply(id, command), error, "{size} bytes");
            assert!(watched.is_closed());
            peer.in_step();
            assert_eq!(peer.target.calls, []);
        }
    }
}

#[test]
fn the_longest_message_is_not_too_long() {
    let mut peer = Peer::new();
    let id = peer.id();
    let mut body = bytes![0_u64, 0_u32, 1_u32 << 20];
    body.resize(16 + (1 << 20), 1);
    for part in message(id, REGION_WRITE, 0, &body).chunks(99_999) {
        peer.send(part);
        peer.serve().unwrap();
    }
    assert_eq!(peer.only_reply(id, REGION_WRITE), Ok(body[..16].to_vec()));
    peer.in_step();
}

#[test]
fn replies_are_dropped_and_never_answered() {
    let mut peer = Peer::new();
    for flags in [REPLY, REPLY | ERROR, REPLY | NO_REPLY] {
        for command in [DEVICE_RESET, DEVICE_GET_INFO, 999] {
            for len in [0, 1, 16, 5000] {
                let mut watched = Watched::new();
                let reply = message(1, command, flags, &vec![0; len]);
                peer.send_with(&reply, &[watched.fd()]);
                peer.in_step();
                assert!(watched.is_closed());
            }
        }
    }
    assert_eq!(peer.target.calls, []);
}

#[test]
fn other_types_are_refused() {
    let mut peer = Peer::new();
    for kind in 2..16 {
        let id = peer.id();
        peer.send(&message(id, DEVICE_RESET, kind, &[]));
        peer.serve().unwrap();
        assert_eq!(peer.only_reply(id, DEVICE_RESET), INVALID);
        peer.send(&message(id, DEVICE_RESET, kind | NO_REPLY, &[1, 2]));
        peer.in_step();
    }
    assert_eq!(peer.target.calls, []);
}

#[test]
fn flags_that_nobody_knows_and_the_error_number_are_ignored() {
    let mut peer = Peer::new();
    let id = peer.id();
    peer.send(&bytes![id, DEVICE_RESET, 16_u32, 0xffff_ff00_u32 | ERROR, 77_u32]);
    peer.serve().unwrap();
    assert_eq!(peer.only_reply(id, DEVICE_RESET), Ok(vec![]));
}

#[test]
fn identifiers_belong_to_the_client() {
    let mut peer = Peer::new();
    let ids = [0, 0, 0xffff, 7, 0];
    for id in ids {
        peer.send(&message(id, DEVICE_RESET, 0, &[]));
    }
    peer.serve().unwrap();
    let answered: Vec<u16> = peer.replies().iter().map(|reply| reply.id).collect();
    assert_eq!(answered, ids);
}

#[test]
fn the_end_is_seen() {
    let (client, mut peer) = split(Peer::new());
    drop(client);
    assert!(matches!(peer.serve(), Err(Disconnect::Closed)));

    for sent in [&message(1, DEVICE_RESET, 0, &[1, 2, 3])[..18], &[0; 7]] {
        let (mut client, mut peer) = split(Peer::new());
        client.write_all(sent).unwrap();
        peer.serve().unwrap();
        drop(client);
        assert!(matches!(peer.serve(), Err(Disconnect::Incomplete)));
        assert_eq!(peer.target.calls, []);
    }
}

/// Messages that came before the end are carried out, and the end is seen in the same call if the
/// event told of it.
#[test]
fn the_end_right_behind_a_message_is_seen_with_a_hint() {
    let (mut client, mut peer) = split(Peer::new());
    client.write_all(&message(1, DEVICE_RESET, NO_REPLY, &[])).unwrap();
    drop(client);
    assert!(matches!(peer.server.serve(&mut peer.target, true), Err(Disconnect::Closed)));
    assert_eq!(peer.target.calls, [Call::Reset]);
}

#[test]
fn a_client_that_only_stops_sending_gets_its_replies() {
    let mut peer = Peer::new();
    let id = peer.id();
    peer.send(&message(id, DEVICE_RESET, 0, &[]));
    peer.client.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(matches!(peer.server.serve(&mut peer.target, true), Err(Disconnect::Closed)));
    assert_eq!(peer.only_reply(id, DEVICE_RESET), Ok(vec![]));
}

/// Takes the client's end out, so that it can be closed.
fn split(mut peer: Peer) -> (std::os::unix::net::UnixStream, Peer) {
    let (spare, _) = std::os::unix::net::UnixStream::pair().unwrap();
    (std::mem::replace(&mut peer.client, spare), peer)
}

#[test]
fn one_call_does_a_bounded_amount_of_work() {
    let mut peer = Peer::new();
    let posted = message(1, REGION_WRITE, NO_REPLY, &bytes![0_u64, 0_u32, 8_u32, 0_u64]);
    peer.send(&posted.repeat(600));
    let mut calls = 0;
    loop {
        let before = peer.target.calls.len();
        let progress = peer.server.serve(&mut peer.target, false).unwrap();
        assert!(peer.target.calls.len() - before <= 256);
        calls += 1;
        if progress == Progress::Idle {
            break;
        }
        assert_eq!(progress, Progress::More);
    }
    assert_eq!((calls, peer.target.calls.len()), (3, 600));

    // A message that is dropped is work as well.
    peer.send(&bytes![1_u16, REGION_WRITE, u32::MAX, NO_REPLY, 0_u32]);
    let mut sent = 0;
    while let Ok(count) = peer.client.write(&[0; 16_000]) {
        sent += count;
    }
    assert!(sent > 150_000, "the socket took only {sent} bytes");
    assert_eq!(peer.server.serve(&mut peer.target, false).unwrap(), Progress::More);
    assert_eq!(peer.serve().unwrap(), Progress::Idle);
}

#[test]
fn a_client_that_reads_no_replies_is_not_served_and_nothing_is_lost() {
    let mut peer = Peer::new();
    let mut asked = 0_u64;
    // 64 KiB each; the socket takes a few, we keep some.
    let progress = loop {
        let body = bytes![asked % 0x100, 0_u32, 0x1_0000_u32];
        peer.send(&message(asked as u16, REGION_READ, 0, &body));
        asked += 1;
        match peer.serve().unwrap() {
            Progress::Blocked if peer.target.calls.len() < asked as usize => {
                break Progress::Blocked;
            }
            _ => assert!(asked < 1000, "the server keeps everything"),
        }
    };
    assert_eq!(progress, Progress::Blocked);
    let served = peer.target.calls.len();
    for _ in 0..10 {
        assert_eq!(peer.serve().unwrap(), Progress::Blocked);
    }
    assert_eq!(peer.target.calls.len(), served, "no work for a client that doesn't read");
    let mut replies = Vec::new();
    for _ in 0..asked {
        replies.extend(peer.replies());
        peer.serve().unwrap();
    }
    replies.extend(peer.replies());
    assert_eq!(replies.len(), asked as usize);
    for (number, reply) in (0_u64..).zip(&replies) {
        assert_eq!((reply.id, reply.flags), (number as u16, REPLY));
        assert_eq!(reply.body.len(), 16 + 0x1_0000);
        assert_eq!(reply.body[16], (number % 0x100) as u8);
    }
    assert_eq!(peer.serve().unwrap(), Progress::Idle);
    peer.in_step();
}

/// QEMU gives up when a receive call returns part of a header.
#[test]
fn a_header_arrives_whole() {
    let mut peer = Peer::new();
    // Each time far more replies than the socket takes, so that calls that send are cut short: were
    // they not made of whole messages, one would end within a header sooner or later.
    for size in 100..116_u32 {
        let (mut asked, mut received) = (0, 0);
        peer.target.calls.clear();
        while peer.target.calls.len() == asked {
            for _ in 0..200 {
                let id = peer.id();
                peer.send(&message(id, REGION_READ, 0, &bytes![0_u64, 0_u32, size]));
            }
            asked += 200;
            peer.serve().unwrap();
        }
        while received < asked {
            received += read_as_qemu_does(&mut peer);
            peer.serve().unwrap();
        }
        assert_eq!(received, asked);
    }
}

/// Reads headers and then their bodies; returns how many.
fn read_as_qemu_does(peer: &mut Peer) -> usize {
    let mut received = 0;
    loop {
        let mut header = [0; 16];
        match peer.client.read(&mut header) {
            Ok(count) => assert_eq!(count, 16, "part of a header"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return received;
            }
        }
        received += 1;
        let mut left = u32::from_ne_bytes(header[4..8].try_into().unwrap()) as usize - 16;
        while left > 0 {
            match peer.client.read(&mut vec![0; left]) {
                Ok(count) => left -= count,
                Err(_) => drop(peer.serve().unwrap()),
            }
        }
    }
}

#[test]
fn maps_in_flight_are_answered_in_order() {
    let mut peer = Peer::new();
    for id in 0..64_u16 {
        let body = bytes![32_u32, 3_u32, 0_u64, u64::from(id) << 12, 0x1000_u64];
        peer.send(&message(id, DMA_MAP, 0, &body));
    }
    peer.serve().unwrap();
    let answered: Vec<u16> = peer.replies().iter().map(|reply| reply.id).collect();
    assert_eq!(answered, (0..64).collect::<Vec<_>>());
}

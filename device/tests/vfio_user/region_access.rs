//! REGION_READ and REGION_WRITE.

use device::vfio_user::Errno;

use crate::bytes;
use crate::peer::{
    BAR, Call, NO_REPLY, Peer, READ_ONLY, REGION_READ, REGION_WRITE, WRITE_ONLY, message,
};

const MIB: u32 = 1 << 20;

fn access(region: u32, offset: u64, count: u32) -> Vec<u8> {
    bytes![offset, region, count]
}

fn write(region: u32, offset: u64, data: &[u8]) -> Vec<u8> {
    let mut body = access(region, offset, data.len() as u32);
    body.extend_from_slice(data);
    body
}

#[test]
fn a_read_returns_the_bytes() {
    let mut peer = Peer::new();
    for (region, offset, count) in [
        (0, 0, 4),
        (0, 0x1fc, 8),
        (0, BAR - 1, 1),
        (7, 0, 0x1000),
        (0, 0x100, MIB),
        (READ_ONLY, 3, 2),
    ] {
        let body = access(region, offset, count);
        let data = peer.ask(REGION_READ, &body).unwrap();
        assert_eq!(data[..16], body);
        let expected: Vec<u8> = (offset..).take(count as usize).map(|at| at as u8).collect();
        assert!(data[16..] == expected, "{count} bytes at {offset:#x}");
        let call = Call::Read { region, offset, len: count as usize };
        assert_eq!(std::mem::take(&mut peer.target.calls), [call]);
    }
}

#[test]
fn a_write_delivers_the_bytes() {
    let mut peer = Peer::new();
    let long: Vec<u8> = (0..MIB).map(|i| (i % 253) as u8).collect();
    for (region, offset, data) in [
        (0, 0x18, &[1, 2, 3, 4][..]),
        (0, BAR - 1, &[9]),
        (7, 4, &[6, 0]),
        (0, 64, &long),
        (WRITE_ONLY, 0, &[1; 8]),
    ] {
        // A megabyte is more than the socket takes at once.
        let id = peer.id();
        for part in message(id, REGION_WRITE, 0, &write(region, offset, data)).chunks(50_000) {
            peer.send(part);
            peer.serve().unwrap();
        }
        let reply = peer.only_reply(id, REGION_WRITE);
        assert_eq!(reply, Ok(access(region, offset, data.len() as u32)));
        let call = Call::Write { region, offset, data: data.to_vec() };
        assert!(std::mem::take(&mut peer.target.calls) == [call]);
    }
}

#[test]
fn posted_ones_are_done_in_order_and_not_answered() {
    let mut peer = Peer::new();
    let mut stream = Vec::new();
    for i in 0..100_u64 {
        stream.extend(message(
            i as u16,
            REGION_WRITE,
            NO_REPLY,
            &write(0, i * 8, &i.to_ne_bytes()),
        ));
    }
    stream.extend(message(7, REGION_READ, NO_REPLY, &access(0, 0, 8)));
    stream.extend(message(8, REGION_READ, 0, &access(0, 16, 2)));
    peer.send(&stream);
    peer.serve().unwrap();
    let mut expected = access(0, 16, 2);
    expected.extend([16, 17]);
    assert_eq!(peer.only_reply(8, REGION_READ), Ok(expected));
    assert_eq!(peer.target.calls.len(), 102);
    for (i, call) in (0..100_u64).zip(&peer.target.calls) {
        let data = i.to_ne_bytes().to_vec();
        assert_eq!(*call, Call::Write { region: 0, offset: i * 8, data });
    }
}

#[test]
fn a_posted_write_costs_a_fraction_of_a_system_call_in_a_burst_and_one_alone() {
    let mut peer = Peer::new();
    let posted = message(1, REGION_WRITE, NO_REPLY, &write(0, 0x800, &[1; 8]));
    let before = peer.server.counters();
    for _ in 0..100 {
        peer.send(&posted);
    }
    peer.serve().unwrap();
    let burst = peer.server.counters();
    assert_eq!(burst.messages - before.messages, 100);
    assert_eq!((burst.receives - before.receives, burst.sends - before.sends), (1, 0));
    peer.send(&posted);
    peer.serve().unwrap();
    let alone = peer.server.counters();
    assert_eq!((alone.receives - burst.receives, alone.sends - burst.sends), (1, 0));
    peer.ask(REGION_READ, &access(0, 0, 4)).unwrap();
    let read = peer.server.counters();
    assert_eq!((read.receives - alone.receives, read.sends - alone.sends), (1, 1));
}

#[test]
fn what_the_target_says_is_answered_unless_posted() {
    let mut peer = Peer::new();
    peer.target.refuse = Some(Errno::IO);
    let error = Err(Errno::IO.raw_os_error() as u32);
    assert_eq!(peer.ask(REGION_READ, &access(0, 0, 8)), error);
    assert_eq!(peer.ask(REGION_WRITE, &write(0, 0, &[1])), error);
    peer.send(&message(1, REGION_WRITE, NO_REPLY, &write(0, 0, &[1])));
    peer.send(&message(1, REGION_READ, NO_REPLY, &access(0, 0, 1)));
    peer.in_step();
}

#[test]
fn reads_that_can_not_be_are_refused() {
    let mut peer = Peer::new();
    for (what, body, error) in [
        ("no body", Vec::new(), Errno::INVAL),
        ("one byte less", access(0, 0, 4)[..15].to_vec(), Errno::INVAL),
        ("with data", write(0, 0, &[1]), Errno::INVAL),
        ("nothing", access(0, 0, 0), Errno::INVAL),
        ("more than a megabyte", access(0, 0, MIB + 1), Errno::TOOBIG),
        ("a gigabyte", access(0, 0, 1 << 30), Errno::TOOBIG),
        ("four gigabytes", access(0, 0, u32::MAX), Errno::TOOBIG),
        ("over the end", access(0, BAR - 3, 4), Errno::INVAL),
        ("behind the end", access(0, BAR, 1), Errno::INVAL),
        ("an end that wraps", access(0, u64::MAX, 2), Errno::INVAL),
        ("a region that isn't there", access(1, 0, 1), Errno::INVAL),
        ("no such region", access(9, 0, 1), Errno::INVAL),
        ("far from any region", access(u32::MAX, 0, 1), Errno::INVAL),
        ("a region that can only be written", access(WRITE_ONLY, 0, 4), Errno::ACCESS),
    ] {
        peer.refused(what, REGION_READ, &body, error);
    }
}

#[test]
fn writes_that_can_not_be_are_refused() {
    let mut peer = Peer::new();
    let longer = |mut body: Vec<u8>, count: u32| {
        body[12..16].copy_from_slice(&count.to_ne_bytes());
        body
    };
    for (what, body, error) in [
        ("no body", Vec::new(), Errno::INVAL),
        ("one byte less", access(0, 0, 4)[..15].to_vec(), Errno::INVAL),
        ("no data", access(0, 0, 4), Errno::INVAL),
        ("nothing", access(0, 0, 0), Errno::INVAL),
        ("less data than claimed", longer(write(0, 0, &[1; 4]), 5), Errno::INVAL),
        ("more data than claimed", longer(write(0, 0, &[1; 4]), 3), Errno::INVAL),
        ("a claim of four gigabytes", longer(write(0, 0, &[1; 4]), u32::MAX), Errno::TOOBIG),
        ("over the end", write(0, BAR - 3, &[0; 4]), Errno::INVAL),
        ("behind the end", write(0, BAR, &[0]), Errno::INVAL),
        ("an end that wraps", write(0, u64::MAX, &[0; 2]), Errno::INVAL),
        ("a region that isn't there", write(1, 0, &[1]), Errno::INVAL),
        ("no such region", write(9, 0, &[1]), Errno::INVAL),
        ("a region that can only be read", write(READ_ONLY, 0, &[1]), Errno::ACCESS),
    ] {
        peer.refused(what, REGION_WRITE, &body, error);
    }
}

//! REGION_WRITE_MULTI.

use device::vfio_user::Errno;

use crate::bytes;
use crate::peer::{BAR, Call, NO_REPLY, Peer, READ_ONLY, REGION_WRITE_MULTI, message};

/// (region, offset, count) of each write; the data is 1 to 8.
fn multi(claimed: u64, writes: &[(u32, u64, u32)]) -> Vec<u8> {
    let mut body = bytes![claimed];
    for &(region, offset, count) in writes {
        body.extend(bytes![offset, region, count]);
        body.extend([1, 2, 3, 4, 5, 6, 7, 8]);
    }
    body
}

fn call(region: u32, offset: u64, count: u8) -> Call {
    Call::Write { region, offset, data: (1..=count).collect() }
}

#[test]
fn writes_are_made_in_order() {
    let mut peer = Peer::new();
    let body = multi(3, &[(0, 0x800, 8), (7, 4, 2), (0, BAR - 1, 1)]);
    assert_eq!(peer.ask(REGION_WRITE_MULTI, &body), Ok(bytes![3_u64]));
    assert_eq!(peer.target.calls, [call(0, 0x800, 8), call(7, 4, 2), call(0, BAR - 1, 1)]);
    assert_eq!(peer.ask(REGION_WRITE_MULTI, &multi(0, &[])), Ok(bytes![0_u64]));
}

#[test]
fn as_many_as_qemu_sends_are_made_without_an_answer() {
    let mut peer = Peer::new();
    let writes: Vec<_> = (0..200).map(|i| (0, i * 8, 8)).collect();
    peer.send(&message(1, REGION_WRITE_MULTI, NO_REPLY, &multi(200, &writes)));
    peer.in_step();
    let expected: Vec<_> = (0..200).map(|i| call(0, i * 8, 8)).collect();
    assert_eq!(peer.target.calls, expected);
}

#[test]
fn one_that_fails_does_not_keep_the_others_from_being_made() {
    let mut peer = Peer::new();
    for (bad, error) in [
        ((0, 0, 0), Errno::INVAL),
        ((0, 0, 9), Errno::INVAL),
        ((0, 0, u32::MAX), Errno::INVAL),
        ((0, BAR - 7, 8), Errno::INVAL),
        ((9, 0, 8), Errno::INVAL),
        ((READ_ONLY, 0, 8), Errno::ACCESS),
    ] {
        let body = multi(3, &[(0, 0, 4), bad, (0, 8, 4)]);
        let answer = peer.ask(REGION_WRITE_MULTI, &body);
        assert_eq!(answer, Err(error.raw_os_error() as u32), "{bad:?}");
        let calls = std::mem::take(&mut peer.target.calls);
        assert_eq!(calls, [call(0, 0, 4), call(0, 8, 4)], "{bad:?}");
        peer.in_step();
    }
    peer.target.refuse = Some(Errno::IO);
    let body = multi(2, &[(0, 0, 4), (0, 8, 4)]);
    assert_eq!(peer.ask(REGION_WRITE_MULTI, &body), Err(Errno::IO.raw_os_error() as u32));
    assert_eq!(peer.target.calls.len(), 2);
}

#[test]
fn a_count_that_is_not_that_of_the_writes_is_refused() {
    let mut peer = Peer::new();
    let two = [(0, 0, 8), (0, 8, 8)];
    for (what, body) in [
        ("no body", Vec::new()),
        ("half a count", bytes![1_u32]),
        ("one too few", multi(1, &two)),
        ("one too many", multi(3, &two)),
        ("a byte missing", multi(2, &two)[..55].to_vec()),
        ("none there", multi(1, &[])),
        ("none claimed", multi(0, &two)),
        ("more than can be counted", multi(u64::MAX, &two)),
        ("a product that wraps", multi(0x0aaa_aaaa_aaaa_aaac, &two)),
    ] {
        peer.refused(what, REGION_WRITE_MULTI, &body, Errno::INVAL);
    }
}

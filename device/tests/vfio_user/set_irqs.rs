//! DEVICE_SET_IRQS.

use std::os::fd::{AsFd, BorrowedFd};

use device::vfio_user::Errno;
use rustix::event::{EventfdFlags, eventfd};

use crate::bytes;
use crate::peer::{Call, DEVICE_SET_IRQS, MSIX, Peer, Watched};

const NONE: u32 = 1;
const BOOL: u32 = 2;
const EVENTFD: u32 = 4;
const MASK: u32 = 8;
const UNMASK: u32 = 16;
const TRIGGER: u32 = 32;

fn set(flags: u32, index: u32, start: u32, count: u32) -> Vec<u8> {
    bytes![20_u32, flags, index, start, count]
}

/// With a byte for each interrupt.
fn set_some(flags: u32, index: u32, start: u32, chosen: &[u8]) -> Vec<u8> {
    let count = chosen.len() as u32;
    let mut body = bytes![20 + count, flags, index, start, count];
    body.extend_from_slice(chosen);
    body
}

#[test]
fn vectors_grow_one_by_one_and_in_chunks() {
    let mut peer = Peer::new();
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    for (first, count) in [(0, 1), (1, 1), (2, 16), (18, 16), (63, 1), (0, 1)] {
        let files = vec![event.as_fd(); count];
        let body = set(EVENTFD | TRIGGER, MSIX, first, count as u32);
        assert_eq!(peer.ask_with(DEVICE_SET_IRQS, &body, &files), Ok(vec![]));
        let call = Call::Assign { index: MSIX, first, count };
        assert_eq!(std::mem::take(&mut peer.target.calls), [call]);
    }
    assert_eq!(peer.target.kept.len(), 36);
}

#[test]
fn descriptors_keep_their_order() {
    let mut peer = Peer::new();
    let events: Vec<_> = (0..16)
        .map(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap())
        .collect();
    let files: Vec<BorrowedFd<'_>> = events.iter().map(AsFd::as_fd).collect();
    peer.ask_with(DEVICE_SET_IRQS, &set(EVENTFD | TRIGGER, MSIX, 0, 16), &files).unwrap();
    for (vector, kept) in (1_u64..).zip(&peer.target.kept) {
        rustix::io::write(kept, &vector.to_ne_bytes()).unwrap();
    }
    for (vector, event) in (1_u64..).zip(&events) {
        let mut count = [0; 8];
        rustix::io::read(event, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), vector);
    }
}

#[test]
fn vectors_are_taken_away_one_by_one_or_all() {
    let mut peer = Peer::new();
    // No limit of descriptors holds for messages without any.
    for (first, count) in [(0, 1), (5, 16), (0, 64)] {
        let body = set(EVENTFD | TRIGGER, MSIX, first, count);
        assert_eq!(peer.ask(DEVICE_SET_IRQS, &body), Ok(vec![]));
        let call = Call::Remove { index: MSIX, first, count };
        assert_eq!(std::mem::take(&mut peer.target.calls), [call]);
    }
    // Also of a kind that the device doesn't have.
    for index in 0..5 {
        assert_eq!(peer.ask(DEVICE_SET_IRQS, &set(NONE | TRIGGER, index, 0, 0)), Ok(vec![]));
        assert_eq!(std::mem::take(&mut peer.target.calls), [Call::Disable { index }]);
    }
}

#[test]
fn interrupts_are_triggered_and_masked_by_message() {
    let mut peer = Peer::new();
    let cases = [
        (set(NONE | TRIGGER, MSIX, 3, 2), Call::Trigger { index: MSIX, irqs: vec![3, 4] }),
        (
            set_some(BOOL | TRIGGER, MSIX, 60, &[1, 0, 0, 255]),
            Call::Trigger { index: MSIX, irqs: vec![60, 63] },
        ),
        (set_some(BOOL | TRIGGER, 3, 0, &[0]), Call::Trigger { index: 3, irqs: vec![] }),
        (set(NONE | MASK, 0, 0, 1), Call::Mask { index: 0, irqs: vec![0] }),
        (set_some(BOOL | MASK, 0, 0, &[1]), Call::Mask { index: 0, irqs: vec![0] }),
        (set(NONE | UNMASK, 0, 0, 1), Call::Unmask { index: 0, irqs: vec![0] }),
        (set_some(BOOL | UNMASK, 0, 0, &[1]), Call::Unmask { index: 0, irqs: vec![0] }),
    ];
    for (body, call) in cases {
        assert_eq!(peer.ask(DEVICE_SET_IRQS, &body), Ok(vec![]), "{call:?}");
        assert_eq!(std::mem::take(&mut peer.target.calls), [call]);
    }
}

#[test]
fn malformed_ones_are_refused() {
    let mut peer = Peer::new();
    let mut short_argsz = set_some(BOOL | TRIGGER, MSIX, 0, &[1, 1]);
    short_argsz[0] = 21;
    let invalid = [
        ("no body", Vec::new()),
        ("one byte less", set(NONE | TRIGGER, MSIX, 0, 1)[..19].to_vec()),
        ("a size that is too small", bytes![19_u32, NONE | TRIGGER, MSIX, 0_u32, 1_u32]),
        ("no data flag", set(TRIGGER, MSIX, 0, 1)),
        ("two data flags", set(NONE | BOOL | TRIGGER, MSIX, 0, 1)),
        ("all data flags", set(7 | TRIGGER, MSIX, 0, 1)),
        ("no action flag", set(NONE, MSIX, 0, 1)),
        ("two action flags", set(NONE | TRIGGER | MASK, MSIX, 0, 1)),
        ("two action flags with descriptors", set(EVENTFD | TRIGGER | MASK, MSIX, 0, 1)),
        ("a flag that nobody knows", set(NONE | TRIGGER | 64, MSIX, 0, 1)),
        ("no flags", set(0, MSIX, 0, 0)),
        ("no such kind", set(NONE | TRIGGER, 5, 0, 0)),
        ("far from any kind", set(NONE | TRIGGER, u32::MAX, 0, 0)),
        ("one too many", set(NONE | TRIGGER, MSIX, 0, 65)),
        ("one behind the last", set(EVENTFD | TRIGGER, MSIX, 64, 1)),
        ("far behind the last", set(EVENTFD | TRIGGER, MSIX, u32::MAX, 1)),
        ("a range that wraps", set(EVENTFD | TRIGGER, MSIX, 2, u32::MAX)),
        ("one of none", set(EVENTFD | TRIGGER, 1, 0, 1)),
        ("none, but not from the first", set(NONE | TRIGGER, MSIX, 1, 0)),
        ("none with descriptors", set(EVENTFD | TRIGGER, MSIX, 0, 0)),
        ("none with bytes", set(BOOL | TRIGGER, MSIX, 0, 0)),
        ("none masked", set(NONE | MASK, 0, 0, 0)),
        ("a byte missing", set_some(BOOL | TRIGGER, MSIX, 0, &[1, 1])[..21].to_vec()),
        ("all bytes missing", set(BOOL | TRIGGER, MSIX, 0, 2)),
        ("a size without the bytes", short_argsz),
        ("mask what can't be masked", set(NONE | MASK, MSIX, 0, 1)),
        ("unmask what can't be masked", set_some(BOOL | UNMASK, MSIX, 0, &[1])),
    ];
    for (what, body) in invalid {
        peer.refused(what, DEVICE_SET_IRQS, &body, Errno::INVAL);
        let mut watched = Watched::new();
        let answer =
            peer.ask_with(DEVICE_SET_IRQS, &body, &[watched.fd(), watched.fd(), watched.fd()]);
        assert_eq!(answer, Err(Errno::INVAL.raw_os_error() as u32), "{what}");
        assert!(watched.is_closed(), "{what}");
    }
    for flags in [EVENTFD | MASK, EVENTFD | UNMASK] {
        peer.refused(
            "to be told of masking",
            DEVICE_SET_IRQS,
            &set(flags, 0, 0, 1),
            Errno::OPNOTSUPP,
        );
    }
    assert_eq!(peer.target.kept.len(), 0);
}

#[test]
fn descriptors_have_to_be_as_many_as_interrupts() {
    let mut peer = Peer::new();
    for (count, files, error) in [
        (1, 2, Errno::INVAL),
        (2, 1, Errno::INVAL),
        (16, 15, Errno::INVAL),
        (17, 17, Errno::MFILE),
        (64, 64, Errno::MFILE),
    ] {
        let mut watched = Watched::new();
        let body = set(EVENTFD | TRIGGER, MSIX, 0, count);
        let answer = peer.ask_with(DEVICE_SET_IRQS, &body, &vec![watched.fd(); files]);
        assert_eq!(answer, Err(error.raw_os_error() as u32), "{files} for {count}");
        assert!(watched.is_closed(), "{files} for {count}");
    }
    peer.in_step();
    assert_eq!(peer.target.calls, []);
}

#[test]
fn what_the_target_says_is_answered() {
    let mut peer = Peer::new();
    peer.target.refuse = Some(Errno::BUSY);
    let answer = peer.ask(DEVICE_SET_IRQS, &set(NONE | TRIGGER, MSIX, 0, 0));
    assert_eq!(answer, Err(Errno::BUSY.raw_os_error() as u32));
    peer.in_step();
}

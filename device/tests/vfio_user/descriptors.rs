//! Which descriptors belong to which message, when messages arrive together, in parts, or with
//! too many.

use std::os::fd::{AsFd, OwnedFd};

use device::vfio_user::Errno;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use crate::bytes;
use crate::peer::{
    Call, DEVICE_GET_INFO, DEVICE_SET_IRQS, DMA_MAP, MSIX, NO_REPLY, Peer, REGION_WRITE, Watched,
    message,
};

/// A file that can be told from others by its size.
fn file(number: u64) -> OwnedFd {
    let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, number).unwrap();
    file
}

fn map(address: u64) -> Vec<u8> {
    bytes![32_u32, 3_u32, 0_u64, address, 0x1000_u64]
}

fn posted(peer: &mut Peer) -> Vec<u8> {
    message(peer.id(), REGION_WRITE, NO_REPLY, &bytes![0_u64, 0_u32, 4_u32, 1_u32])
}

/// For each map the address and whether it had a descriptor; the sizes of the descriptors' files.
fn maps(peer: &Peer) -> (Vec<(u64, bool)>, Vec<i64>) {
    let with = |call: &Call| match call {
        Call::Map { address, offset, .. } => Some((*address, offset.is_some())),
        _ => None,
    };
    let size = |file: &OwnedFd| rustix::fs::fstat(file).unwrap().st_size;
    (
        peer.target.calls.iter().filter_map(with).collect(),
        peer.target.kept.iter().map(size).collect(),
    )
}

/// What QEMU does when it connects: maps with and without descriptor between other messages, none
/// waited for.
#[test]
fn a_burst_of_messages() {
    let mut peer = Peer::new();
    let mut expected = (Vec::new(), Vec::new());
    for number in 1..=40_u64 {
        let (with, before, after) = (number % 3 != 0, number % 4, number % 5);
        for _ in 0..before {
            let posted = posted(&mut peer);
            peer.send(&posted);
        }
        let id = peer.id();
        let map = message(id, DMA_MAP, 0, &map(number << 12));
        expected.0.push((number << 12, with));
        if with {
            peer.send_with(&map, &[file(number).as_fd()]);
            expected.1.push(number as i64);
        } else {
            peer.send(&map);
        }
        for _ in 0..after {
            let posted = posted(&mut peer);
            peer.send(&posted);
        }
    }
    peer.serve().unwrap();
    assert_eq!(maps(&peer), expected);
    assert_eq!(peer.replies().len(), 40);
}

/// The buffer fills up within the piece that the descriptor came with.
#[test]
fn behind_more_messages_than_one_call_receives() {
    for fill in 0..80 {
        let mut peer = Peer::new();
        let len = 65_536 - 36 - fill;
        let mut body = bytes![0_u64, 0_u32, len as u32 - 32];
        body.resize(len - 16, 0);
        peer.send(&message(1, REGION_WRITE, NO_REPLY, &body));
        for number in [7, 9] {
            let id = peer.id();
            peer.send_with(&message(id, DMA_MAP, 0, &map(number << 12)), &[file(number).as_fd()]);
        }
        let id = peer.id();
        peer.send(&message(id, DMA_MAP, 0, &map(0)));
        peer.serve().unwrap();
        let expected = (vec![(7 << 12, true), (9 << 12, true), (0, false)], vec![7, 9]);
        assert_eq!(maps(&peer), expected, "{fill} bytes less");
    }
}

#[test]
fn with_any_part_of_a_message_in_two_parts() {
    let mut peer = Peer::new();
    for cut in 1..48 {
        for with_second in [false, true] {
            let id = peer.id();
            let map = message(id, DMA_MAP, 0, &map(0x1000));
            let posted = posted(&mut peer);
            peer.send(&posted);
            let (first, second) = map.split_at(cut);
            if with_second {
                peer.send(first);
                peer.serve().unwrap();
                peer.send_with(second, &[file(5).as_fd()]);
            } else {
                peer.send_with(first, &[file(5).as_fd()]);
                peer.serve().unwrap();
                peer.send(second);
            }
            // Another one right behind has none.
            let id = peer.id();
            peer.send(&message(id, DMA_MAP, 0, &bytes![32_u32, 3_u32, 0_u64, 0_u64, 0x1000_u64]));
            peer.serve().unwrap();
            let expected = (vec![(0x1000, true), (0, false)], vec![5]);
            assert_eq!(maps(&peer), expected, "cut at {cut}");
            assert_eq!(peer.replies().len(), 2);
            peer.target.calls.clear();
            peer.target.kept.clear();
        }
    }
}

#[test]
fn the_rest_of_one_message_and_the_next_each_with_theirs() {
    let mut peer = Peer::new();
    let (one, two) = (message(1, DMA_MAP, 0, &map(0x1000)), message(2, DMA_MAP, 0, &map(0x2000)));
    peer.send_with(&one[..20], &[file(1).as_fd()]);
    peer.serve().unwrap();
    peer.send(&one[20..]);
    peer.send_with(&two, &[file(2).as_fd()]);
    peer.serve().unwrap();
    assert_eq!(maps(&peer), (vec![(0x1000, true), (0x2000, true)], vec![1, 2]));
}

#[test]
fn parts_of_a_message_that_each_bring_some() {
    let mut peer = Peer::new();
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let set = |count: u32| bytes![20_u32, 0x24_u32, MSIX, 0_u32, count];
    let id = peer.id();
    let whole = message(id, DEVICE_SET_IRQS, 0, &set(16));
    for part in [0..9, 9..18, 18..27, 27..36] {
        peer.send_with(&whole[part], &[event.as_fd(); 4]);
        peer.serve().unwrap();
    }
    assert_eq!(peer.only_reply(id, DEVICE_SET_IRQS), Ok(vec![]));
    assert_eq!(peer.target.calls, [Call::Assign { index: MSIX, first: 0, count: 16 }]);
}

#[test]
fn however_many_come_few_are_held() {
    let mut peer = Peer::new();
    let id = peer.id();
    let whole = message(id, DEVICE_SET_IRQS, 0, &bytes![20_u32, 0x24_u32, MSIX, 0_u32, 36_u32]);
    let mut given: Vec<_> = whole.iter().map(|_| Watched::new()).collect();
    let (last, parts) = whole.split_last().unwrap();
    for (byte, watched) in parts.iter().zip(&given) {
        peer.send_with(&[*byte], &[watched.fd()]);
        peer.serve().unwrap();
    }
    let held = given[..35].iter_mut().map(Watched::is_closed).filter(|closed| !closed);
    assert!(held.count() <= 17);
    peer.send(&[*last]);
    peer.serve().unwrap();
    let error = Err(Errno::MFILE.raw_os_error() as u32);
    assert_eq!(peer.only_reply(id, DEVICE_SET_IRQS), error);
    assert!(given.iter_mut().all(Watched::is_closed));
    peer.in_step();
}

const CHILD: &str = "VFIO_USER_TEST_FEW_DESCRIPTORS";

/// Does nothing unless it runs as the child of the test below.
#[test]
fn child_that_may_open_few() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let mut peer = Peer::new();
    let mut watched = Watched::new();
    let mut taken = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file);
    }
    for free in 0..3 {
        let set = bytes![20_u32, 0x24_u32, MSIX, 0_u32, 3_u32];
        let answer = peer.ask_with(DEVICE_SET_IRQS, &set, &[watched.fd(); 3]);
        assert_eq!(answer, Err(Errno::MFILE.raw_os_error() as u32), "room for {free}");
        peer.in_step();
        assert_eq!(peer.target.calls, []);
        taken.pop();
    }
    assert!(watched.is_closed());
}

#[test]
fn when_the_process_may_open_no_more() {
    let status = std::process::Command::new("sh")
        .args(["-c", "ulimit -n 100 && exec \"$0\" --exact descriptors::child_that_may_open_few"])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, "1")
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn messages_that_take_none_have_them_closed() {
    let mut peer = Peer::new();
    for count in [1, 16, 17, 253] {
        let mut watched = Watched::new();
        let body = bytes![16_u32, 0_u32, 0_u32, 0_u32];
        let info = peer.ask_with(DEVICE_GET_INFO, &body, &vec![watched.fd(); count]);
        assert!(info.is_ok(), "{count} descriptors");
        assert!(watched.is_closed(), "{count} descriptors");
    }
}

#[test]
fn an_unfinished_message_s_are_closed_at_the_end() {
    let mut peer = Peer::new();
    let mut watched = Watched::new();
    let id = peer.id();
    peer.send_with(&message(id, DMA_MAP, 0, &map(0))[..30], &[watched.fd()]);
    peer.serve().unwrap();
    drop(peer);
    assert!(watched.is_closed());
}

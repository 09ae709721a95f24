//! DMA_MAP.

use std::os::fd::{AsFd, OwnedFd};

use device::memory::Rights;
use device::vfio_user::Errno;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::bytes;
use crate::peer::{Call, DMA_MAP, NO_REPLY, Peer, Watched, message};

fn map(argsz: u32, flags: u32, offset: u64, address: u64, size: u64) -> Vec<u8> {
    bytes![argsz, flags, offset, address, size]
}

fn memfd() -> OwnedFd {
    memfd_create("guest", MemfdFlags::CLOEXEC).unwrap()
}

#[test]
fn a_descriptor_comes_with_its_offset_and_rights() {
    let mut peer = Peer::new();
    let file = memfd();
    for (flags, rights) in [(1, Rights::READ), (2, Rights::WRITE), (3, Rights::READ_WRITE)] {
        let body = map(32, flags, 0x2000, 0x100_0000, 0x4000);
        assert_eq!(peer.ask_with(DMA_MAP, &body, &[file.as_fd()]), Ok(vec![]));
        let call = Call::Map { address: 0x100_0000, size: 0x4000, rights, offset: Some(0x2000) };
        assert_eq!(std::mem::take(&mut peer.target.calls), [call]);
    }
    // It is the same file, and not inherited by programs that we start.
    for kept in &peer.target.kept {
        let (ours, theirs) = (rustix::fs::fstat(kept).unwrap(), rustix::fs::fstat(&file).unwrap());
        assert_eq!((ours.st_dev, ours.st_ino), (theirs.st_dev, theirs.st_ino));
        let flags = rustix::io::fcntl_getfd(kept).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
    assert_eq!(peer.target.kept.len(), 3);
}

#[test]
fn without_a_descriptor_it_is_mapped_all_the_same() {
    let mut peer = Peer::new();
    assert_eq!(peer.ask(DMA_MAP, &map(32, 1, 0, 0xc0000, 0x20000)), Ok(vec![]));
    let call = Call::Map { address: 0xc0000, size: 0x20000, rights: Rights::READ, offset: None };
    assert_eq!(peer.target.calls, [call]);
}

#[test]
fn what_the_target_says_is_answered() {
    let mut peer = Peer::new();
    for error in [Errno::EXIST, Errno::NOSPC, Errno::INVAL] {
        peer.target.refuse = Some(error);
        let mut watched = Watched::new();
        let answer = peer.ask_with(DMA_MAP, &map(32, 3, 0, 0, 0x1000), &[watched.fd()]);
        assert_eq!(answer, Err(error.raw_os_error() as u32));
        assert!(watched.is_closed());
    }
    peer.in_step();
}

#[test]
fn malformed_ones_are_refused_and_their_descriptors_closed() {
    let mut peer = Peer::new();
    let cases = [
        ("no body", Vec::new()),
        ("one byte less", map(32, 3, 0, 0x1000, 0x1000)[..31].to_vec()),
        ("a size that is too small", map(31, 3, 0, 0x1000, 0x1000)),
        ("a flag that nobody knows", map(32, 7, 0, 0x1000, 0x1000)),
        ("all flags", map(32, u32::MAX, 0, 0x1000, 0x1000)),
    ];
    for (what, body) in cases {
        peer.refused(what, DMA_MAP, &body, Errno::INVAL);
        let mut watched = Watched::new();
        let answer = peer.ask_with(DMA_MAP, &body, &[watched.fd()]);
        assert_eq!(answer, Err(Errno::INVAL.raw_os_error() as u32), "{what}");
        assert!(watched.is_closed(), "{what}");
        let mut watched = Watched::new();
        let id = peer.id();
        peer.send_with(&message(id, DMA_MAP, NO_REPLY, &body), &[watched.fd()]);
        peer.in_step();
        assert!(watched.is_closed(), "{what}");
    }
}

#[test]
fn more_than_one_descriptor_is_refused() {
    let mut peer = Peer::new();
    let body = map(32, 3, 0, 0x1000, 0x1000);
    for (count, error) in
        [(2, Errno::INVAL), (16, Errno::INVAL), (17, Errno::MFILE), (253, Errno::MFILE)]
    {
        let mut watched = Watched::new();
        let answer = peer.ask_with(DMA_MAP, &body, &vec![watched.fd(); count]);
        assert_eq!(answer, Err(error.raw_os_error() as u32), "{count} descriptors");
        assert!(watched.is_closed(), "{count} descriptors");
        peer.in_step();
    }
    assert_eq!(peer.target.calls, []);
}

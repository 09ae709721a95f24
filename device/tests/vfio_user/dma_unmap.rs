//! DMA_UNMAP.

use device::vfio_user::Errno;

use crate::bytes;
use crate::peer::{Call, DMA_UNMAP, Peer};

fn unmap(argsz: u32, flags: u32, address: u64, size: u64) -> Vec<u8> {
    bytes![argsz, flags, address, size]
}

#[test]
fn one_range_or_all_is_answered_with_the_request() {
    let mut peer = Peer::new();
    let one = unmap(24, 0, 0x10_0000, 0x2000);
    assert_eq!(peer.ask(DMA_UNMAP, &one), Ok(one));
    let all = unmap(24, 2, 0, 0);
    assert_eq!(peer.ask(DMA_UNMAP, &all), Ok(all));
    let calls = [Call::Unmap { address: 0x10_0000, size: 0x2000 }, Call::UnmapAll];
    assert_eq!(peer.target.calls, calls);
}

#[test]
fn what_the_target_says_is_answered() {
    let mut peer = Peer::new();
    peer.target.refuse = Some(Errno::NOENT);
    for body in [unmap(24, 0, 0, 0x1000), unmap(24, 2, 0, 0)] {
        assert_eq!(peer.ask(DMA_UNMAP, &body), Err(Errno::NOENT.raw_os_error() as u32));
    }
    peer.in_step();
}

#[test]
fn malformed_ones_are_refused() {
    let mut peer = Peer::new();
    for (what, body) in [
        ("no body", Vec::new()),
        ("one byte less", unmap(24, 0, 0x1000, 0x1000)[..23].to_vec()),
        ("room for less than the reply", unmap(23, 0, 0x1000, 0x1000)),
        ("dirty pages", unmap(24, 1, 0x1000, 0x1000)),
        ("a flag that nobody knows", unmap(24, 4, 0x1000, 0x1000)),
        ("all, from somewhere", unmap(24, 2, 0x1000, 0)),
        ("all, of some size", unmap(24, 2, 0, 0x1000)),
        ("all and dirty pages", unmap(24, 3, 0, 0)),
    ] {
        peer.refused(what, DMA_UNMAP, &body, Errno::INVAL);
    }
}

//! DEVICE_RESET.

use device::vfio_user::Errno;

use crate::peer::{Call, DEVICE_RESET, NO_REPLY, Peer, message};

#[test]
fn resets_and_answers() {
    let mut peer = Peer::new();
    assert_eq!(peer.ask(DEVICE_RESET, &[]), Ok(vec![]));
    peer.send(&message(1, DEVICE_RESET, NO_REPLY, &[]));
    peer.in_step();
    assert_eq!(peer.target.calls, [Call::Reset, Call::Reset]);
    peer.target.refuse = Some(Errno::BUSY);
    assert_eq!(peer.ask(DEVICE_RESET, &[]), Err(Errno::BUSY.raw_os_error() as u32));
    peer.in_step();
}

#[test]
fn nothing_comes_with_it() {
    let mut peer = Peer::new();
    peer.refused("a byte", DEVICE_RESET, &[0], Errno::INVAL);
    peer.refused("many", DEVICE_RESET, &[0; 1000], Errno::INVAL);
}

#[test]
fn half_a_header_resets_nothing() {
    let mut peer = Peer::new();
    let id = peer.id();
    let reset = message(id, DEVICE_RESET, 0, &[]);
    peer.send(&reset[..8]);
    peer.serve().unwrap();
    assert_eq!((peer.replies(), peer.target.calls.len()), (vec![], 0));
    peer.send(&reset[8..]);
    peer.serve().unwrap();
    assert_eq!(peer.only_reply(id, DEVICE_RESET), Ok(vec![]));
}

//! Commands that are the server's to send, that we don't support, or that nobody knows.

use device::vfio_user::Errno;

use crate::peer::{Peer, Watched};

/// Not in the protocol, or not implemented: DMA_READ, DMA_WRITE, DIRTY_PAGES, DEVICE_FEATURE,
/// MIG_DATA_READ, MIG_DATA_WRITE, and what lies between and behind.
const COMMANDS: [u16; 11] = [0, 11, 12, 14, 16, 17, 18, 19, 0x7fff, 0x8000, 0xffff];

#[test]
fn they_are_refused_with_any_body() {
    let mut peer = Peer::new();
    for command in COMMANDS {
        for len in [0, 1, 16, 100] {
            peer.refused("unsupported", command, &vec![0xa5; len], Errno::OPNOTSUPP);
        }
        let mut watched = Watched::new();
        let answer = peer.ask_with(command, &[1, 2, 3], &[watched.fd(), watched.fd()]);
        assert_eq!(answer, Err(Errno::OPNOTSUPP.raw_os_error() as u32));
        assert!(watched.is_closed());
        peer.in_step();
    }
}

//! DEVICE_GET_IRQ_INFO.

use device::vfio_user::Errno;

use crate::bytes;
use crate::peer::{DEVICE_GET_IRQ_INFO, Peer};

#[test]
fn tells_count_and_what_can_be_done() {
    let mut peer = Peer::new();
    // Descriptors can be given where there is an interrupt; the first kind can be masked.
    for (index, (flags, count)) in (0_u32..).zip([(3, 1), (0, 0), (1, 64), (1, 1), (0, 0)]) {
        let info = peer.ask(DEVICE_GET_IRQ_INFO, &bytes![16_u32, 0_u32, index, 0_u32]);
        assert_eq!(info, Ok(bytes![16_u32, flags as u32, index, count as u32]), "kind {index}");
    }
}

#[test]
fn malformed_ones_are_refused() {
    let mut peer = Peer::new();
    for (what, body) in [
        ("no body", Vec::new()),
        ("one byte less", bytes![16_u32, 0_u32, 2_u32, 0_u16, 0_u8]),
        ("room for less than the reply", bytes![15_u32, 0_u32, 2_u32, 0_u32]),
        ("no such kind", bytes![16_u32, 0_u32, 5_u32, 0_u32]),
        ("far from any kind", bytes![16_u32, 0_u32, u32::MAX, 0_u32]),
    ] {
        peer.refused(what, DEVICE_GET_IRQ_INFO, &body, Errno::INVAL);
    }
}

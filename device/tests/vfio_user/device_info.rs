//! DEVICE_GET_INFO.

use device::vfio_user::Errno;

use crate::bytes;
use crate::peer::{DEVICE_GET_INFO, Peer};

#[test]
fn tells_of_reset_pci_regions_and_interrupts() {
    let mut peer = Peer::new();
    peer.in_step();
    // The vfio_user crate counts the header too.
    let info = peer.ask(DEVICE_GET_INFO, &bytes![32_u32, 0_u32, 0_u32, 0_u32]);
    assert_eq!(info, Ok(bytes![16_u32, 3_u32, 9_u32, 5_u32]));
    // A client that knows a longer structure.
    let info = peer.ask(DEVICE_GET_INFO, &bytes![24_u32, 0_u32, 0_u32, 0_u32, 0_u64]);
    assert_eq!(info, Ok(bytes![16_u32, 3_u32, 9_u32, 5_u32]));
}

#[test]
fn malformed_ones_are_refused() {
    let mut peer = Peer::new();
    for (what, body) in [
        ("no body", Vec::new()),
        ("half a size", bytes![16_u16]),
        ("a size alone", bytes![16_u32]),
        ("one byte less", bytes![16_u32, 0_u64, 0_u16, 0_u8]),
        ("room for less than the reply", bytes![15_u32, 0_u32, 0_u32, 0_u32]),
        ("no room", bytes![0_u32, 0_u32, 0_u32, 0_u32]),
    ] {
        peer.refused(what, DEVICE_GET_INFO, &body, Errno::INVAL);
    }
}

//! DEVICE_GET_REGION_INFO and DEVICE_GET_REGION_IO_FDS.

use device::vfio_user::Errno;

use crate::bytes;
use crate::peer::{BAR, DEVICE_GET_REGION_INFO, DEVICE_GET_REGION_IO_FDS, Peer};

fn asked(argsz: u32, index: u32) -> Vec<u8> {
    bytes![argsz, 0_u32, index, 0_u32, 0_u64, 0_u64]
}

#[test]
fn tells_size_and_rights() {
    let mut peer = Peer::new();
    let regions =
        [(BAR, 3), (0, 0), (0x1000, 1), (0x1000, 2), (0, 0), (0, 0), (0, 0), (0x1000, 3), (0, 0)];
    for (index, (size, flags)) in (0_u32..).zip(regions) {
        for argsz in [32, 33, 4096] {
            let info = peer.ask(DEVICE_GET_REGION_INFO, &asked(argsz, index));
            let expected = bytes![32_u32, flags as u32, index, 0_u32, size, 0_u64];
            assert_eq!(info, Ok(expected), "region {index}");
        }
    }
}

#[test]
fn malformed_ones_are_refused() {
    let mut peer = Peer::new();
    for (what, body) in [
        ("no body", Vec::new()),
        ("one byte less", asked(32, 0)[..31].to_vec()),
        ("room for less than the reply", asked(31, 0)),
        ("no room", asked(0, 0)),
        ("no such region", asked(32, 9)),
        ("far from any region", asked(32, u32::MAX)),
    ] {
        peer.refused(what, DEVICE_GET_REGION_INFO, &body, Errno::INVAL);
    }
}

#[test]
fn there_are_no_descriptors_for_regions() {
    let mut peer = Peer::new();
    for (what, body, error) in [
        ("a region", bytes![16_u32, 0_u32, 0_u32, 0_u32], Errno::OPNOTSUPP),
        ("no such region", bytes![16_u32, 0_u32, 9_u32, 0_u32], Errno::INVAL),
        ("no room", bytes![15_u32, 0_u32, 0_u32, 0_u32], Errno::INVAL),
        ("half a message", bytes![16_u32, 0_u32], Errno::INVAL),
    ] {
        peer.refused(what, DEVICE_GET_REGION_IO_FDS, &body, error);
    }
}

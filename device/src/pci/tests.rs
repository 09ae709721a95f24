use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const SERIAL: u64 = 0x0200_1122_3344_5566;

fn read<const N: usize>(space: &ConfigSpace, at: u64) -> [u8; N] {
    let mut bytes = [0; N];
    space.read(at, &mut bytes).unwrap();
    bytes
}

fn read16(space: &ConfigSpace, at: u64) -> u16 {
    u16::from_le_bytes(read(space, at))
}

fn read32(space: &ConfigSpace, at: u64) -> u32 {
    u32::from_le_bytes(read(space, at))
}

fn write(space: &mut ConfigSpace, at: u64, data: &[u8]) {
    assert_eq!(space.write(at, data).unwrap(), Effect::None);
}

/// Finds the capabilities as a driver does: by following the links.
fn capabilities(space: &ConfigSpace) -> BTreeMap<u8, u64> {
    let mut found = BTreeMap::new();
    let mut at = u64::from(read::<1>(space, 0x34)[0]);
    while at != 0 {
        assert!((0x40..0x100).contains(&at) && at.is_multiple_of(4), "{at:#x}");
        let [id, next] = read(space, at);
        assert!(found.insert(id, at).is_none(), "capability {id:#x} twice");
        at = u64::from(next);
    }
    found
}

fn extended_capabilities(space: &ConfigSpace) -> BTreeMap<u32, u64> {
    let mut found = BTreeMap::new();
    let mut at = 0x100;
    while at != 0 {
        let head = read32(space, at);
        assert!(found.insert(head & 0xffff, at).is_none(), "capability {head:#x} twice");
        at = u64::from(head >> 20);
    }
    found
}

#[test]
fn identity() {
    let space = ConfigSpace::new(SERIAL);
    assert_eq!(read32(&space, 0), 0x101b_15b3);
    assert_eq!(read32(&space, 0x08), 0x0207_0000);
    assert_eq!(read16(&space, 0x2c), 0x15b3);
    assert_eq!(read::<1>(&space, 0x0e), [0], "one function, plain header");
    assert_eq!(read::<1>(&space, 0x3d), [0], "no interrupt pin");
    assert_ne!(read16(&space, 0x06) & 0x10, 0, "there is a capability list");
}

#[test]
fn a_driver_finds_what_it_looks_for() {
    let space = ConfigSpace::new(SERIAL);
    let found = capabilities(&space);
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [0x01, 0x10, 0x11]);

    let express = found[&0x10];
    assert_eq!(read16(&space, express + 2), 0x0002, "version 2, endpoint");
    let device = read32(&space, express + 4);
    assert_eq!(device & 7, 2, "payload of 512");
    assert_ne!(device & 1 << 28, 0, "function-level reset");
    let (capability, state) = (read32(&space, express + 0x0c), read16(&space, express + 0x12));
    for (what, speed, width) in [
        ("capability", capability & 15, capability >> 4 & 0x3f),
        ("status", u32::from(state & 15), u32::from(state >> 4 & 0x3f)),
    ] {
        assert_eq!((speed, width), (4, 16), "link {what}: Gen4 x16");
    }

    let msix = found[&0x11];
    assert_eq!(read16(&space, msix + 2) & 0x7ff, MSIX_VECTORS - 1);
    let (table, pending) = (read32(&space, msix + 4), read32(&space, msix + 8));
    assert_eq!((table & 7, pending & 7), (MSIX_BAR, MSIX_BAR));
    let table = u64::from(table & !7)..u64::from(table & !7) + u64::from(MSIX_VECTORS) * 16;
    let pending = u64::from(pending & !7)..u64::from(pending & !7) + u64::from(MSIX_VECTORS) / 8;
    assert!(table.end <= pending.start && pending.end <= MSIX_BAR_SIZE);

    let extended = extended_capabilities(&space);
    assert_eq!(extended.keys().copied().collect::<Vec<_>>(), [0x0001, 0x0003]);
    assert_eq!(u64::from_le_bytes(read(&space, extended[&3] + 4)), SERIAL);
}

#[test]
fn registers_do_not_overlap_and_say_what_they_can_do() {
    let mut taken = [false; CONFIG_SIZE];
    for register in TABLE {
        assert!(matches!(register.size, 1 | 2 | 4));
        assert_eq!(register.at % usize::from(register.size), 0, "{:#x}", register.at);
        assert_eq!(register.writable & register.clearing, 0, "{:#x}", register.at);
        let unused = u32::MAX.checked_shl(8 * u32::from(register.size)).unwrap_or(0);
        // A BAR's mask is made from a 64-bit size.
        assert_eq!((register.reset | register.clearing) & unused, 0, "{:#x}", register.at);
        for byte in &mut taken[register.at..register.at + usize::from(register.size)] {
            assert!(!std::mem::replace(byte, true), "two registers at {:#x}", register.at);
        }
    }
}

#[test]
fn bars_are_sized_as_firmware_does_it() {
    let mut space = ConfigSpace::new(SERIAL);
    let mut sizes = Vec::new();
    let mut number = 0;
    while number < 6 {
        let at = 0x10 + 4 * number;
        let flags = read32(&space, at) & 0xf;
        write(&mut space, at, &[0xff; 4]);
        write(&mut space, at + 4, &[0xff; 4]);
        let mask = u64::from_le_bytes(read(&space, at));
        if mask as u32 == 0 {
            assert_eq!(mask, 0, "an absent BAR takes no bits");
            number += 1;
            continue;
        }
        assert_eq!(flags, 0b1100, "64-bit, prefetchable");
        sizes.push((number, (!(mask & !0xf)).wrapping_add(1)));
        let place = 0x12_3456_7800_0000_u64 & mask | u64::from(flags);
        write(&mut space, at, &place.to_le_bytes());
        assert_eq!(u64::from_le_bytes(read(&space, at)), place);
        number += 2;
    }
    assert_eq!(sizes, [(0, function::BAR0_SIZE), (2, MSIX_BAR_SIZE)]);
    assert_eq!(read32(&space, 0x30), 0, "no expansion ROM");
}

#[test]
fn command_register() {
    let mut space = ConfigSpace::new(SERIAL);
    assert!(!space.memory_enabled() && !space.bus_master());
    write(&mut space, 0x04, &[0xff, 0xff]);
    assert_eq!(read16(&space, 0x04), 0x0146);
    assert!(space.memory_enabled() && space.bus_master());
    write(&mut space, 0x04, &[0x02]);
    assert!(space.memory_enabled() && !space.bus_master());
}

#[test]
fn a_sleeping_function_does_nothing() {
    let mut space = ConfigSpace::new(SERIAL);
    let control = capabilities(&space)[&0x01] + 4;
    write(&mut space, 0x04, &[0x06]);
    write(&mut space, control, &[0x03]);
    assert!(!space.memory_enabled() && !space.bus_master());
    for unsupported in [1, 2] {
        write(&mut space, control, &[unsupported]);
        assert_eq!(read::<1>(&space, control)[0] & 3, 3, "D{unsupported} does not exist");
    }
    write(&mut space, control, &[0x00]);
    assert!(space.memory_enabled() && space.bus_master(), "nothing was lost");
}

#[test]
fn status_bits_are_cleared_by_ones_and_by_nothing_else() {
    let mut space = ConfigSpace::new(SERIAL);
    space.value[0x07] = 0xf9;
    write(&mut space, 0x06, &[0x00, 0x00]);
    assert_eq!(read16(&space, 0x06), 0xf910);
    write(&mut space, 0x06, &[0xff, 0x80]);
    assert_eq!(read16(&space, 0x06), 0x7910);
}

#[test]
fn reset_bit_acts_and_reads_as_zero() {
    let mut space = ConfigSpace::new(SERIAL);
    let control = capabilities(&space)[&0x10] + 8;
    let before = read16(&space, control);
    let asked = (before | 0x8000).to_le_bytes();
    assert_eq!(space.write(control, &asked), Ok(Effect::Reset));
    assert_eq!(read16(&space, control), before);
    // The same as one byte, and as a write that begins before it.
    assert_eq!(space.write(control + 1, &asked[1..]), Ok(Effect::Reset));
    assert_eq!(space.write(control - 4, &[0, 0, 0, 0, asked[0], asked[1]]), Ok(Effect::Reset));
    write(&mut space, control, &before.to_le_bytes());
}

#[test]
fn reset_is_as_new() {
    let mut space = ConfigSpace::new(SERIAL);
    let new = space.value.clone();
    let _ = space.write(0, &[0xff; CONFIG_SIZE]).unwrap();
    assert_ne!(space.value, new);
    space.reset();
    assert_eq!(space.value, new);
}

#[test]
fn msix_is_switched_on_and_off() {
    let mut space = ConfigSpace::new(SERIAL);
    let control = capabilities(&space)[&0x11] + 2;
    assert!(!space.msix_enabled());
    write(&mut space, control, &[0xff, 0xff]);
    assert_eq!(read16(&space, control), 0xc000 | (MSIX_VECTORS - 1));
    assert!(space.msix_enabled());
    write(&mut space, control, &[0, 0]);
    assert!(!space.msix_enabled());
}

#[test]
fn accesses_outside_are_refused() {
    let mut space = ConfigSpace::new(SERIAL);
    for (offset, len) in [(4096, 1), (4095, 2), (4093, 4), (u64::MAX, 1), (u64::MAX - 1, 8)] {
        let refused = OutOfRange { offset, len };
        assert_eq!(space.read(offset, &mut vec![0; len]), Err(refused));
        assert_eq!(space.write(offset, &vec![0; len]), Err(refused));
    }
    assert_eq!(space.read(4096, &mut []), Ok(()));
    assert_eq!(read::<1>(&space, 4095), [0]);
}

type Writes = Vec<(u64, Vec<u8>)>;

fn writes() -> impl Strategy<Value = Writes> {
    prop::collection::vec((0u64..4096, prop::collection::vec(any::<u8>(), 0..64)), 0..50)
}

proptest! {
    /// Whatever is written, in whatever pieces: what is fixed stays, and reads agree with each other.
    #[test]
    fn writes_change_only_what_they_may(writes in writes()) {
        let new = ConfigSpace::new(SERIAL);
        let mut space = ConfigSpace::new(SERIAL);
        for (offset, data) in &writes {
            let fits = *offset as usize + data.len() <= CONFIG_SIZE;
            prop_assert_eq!(space.write(*offset, data).is_ok(), fits);
        }
        let mut whole = vec![0; CONFIG_SIZE];
        space.read(0, &mut whole).unwrap();
        for (at, &byte) in whole.iter().enumerate() {
            prop_assert_eq!(byte, read::<1>(&space, at as u64)[0]);
            prop_assert_eq!((byte ^ new.value[at]) & !new.writable[at], 0);
        }
        prop_assert_eq!(capabilities(&space).len(), 3);
    }
}

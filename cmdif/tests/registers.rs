//! The initialization segment: values, clocks, and accesses of every width at every offset.

mod common;

use cmdif::{Limits, SEGMENT_SIZE};
use common::Bench;
use proptest::prelude::*;

fn bench() -> Bench {
    Bench::bare(Limits::default())
}

const SECOND: u64 = 1_000_000_000;
/// A driver can reset the card.
const RESETTABLE: u32 = 1 << 30;

#[test]
fn values_after_power_on() {
    let mut bench = bench();
    for (offset, value) in [
        (0x000, 0x002b_0014), // 20.43
        (0x004, 0x0005_03f6), // interface revision 5, .1014
        (0x010, 0),
        (0x014, 0x56),
        (0x018, 0),
        (0x1fc, RESETTABLE), // not initializing
        (0x23c, 0),          // healthy
        (0xffc, 0),          // timeouts are the driver's own
    ] {
        assert_eq!(bench.read32(0, offset), value, "at {offset:#x}");
    }
    assert_ne!(bench.read32(0, 0x230), u32::MAX, "health buffer's firmware version");
    assert!(bench.probe.touched().is_empty() && bench.mistakes().is_empty());
}

#[test]
fn the_timer_runs_at_its_frequency() {
    let mut bench = bench();
    let mut timer =
        |now| (u64::from(bench.read32(now, 0x1000)) << 32) | u64::from(bench.read32(now, 0x1004));
    assert_eq!(timer(0), 0);
    assert_eq!(timer(SECOND), 156_250_000);
    assert_eq!(timer(SECOND * 60), 156_250_000 * 60);
    assert_eq!(timer(u64::MAX), (u128::from(u64::MAX) * 156_250 / 1_000_000) as u64);
}

#[test]
fn the_health_counter_moves_between_any_two_looks() {
    let mut bench = bench();
    // 2 s and more between looks; twelve days, so that it wraps.
    let looks: Vec<u32> = (0..5000).map(|n| bench.read32(n * 211 * SECOND, 0x1010)).collect();
    assert!(looks.windows(2).all(|pair| pair[0] != pair[1]));
    assert!(looks.iter().all(|&count| count != 0 && count < 1 << 24));
}

#[test]
fn health_and_start_can_be_shown() {
    let mut bench = bench();
    bench.interface.segment.health().set_synd(0x0e);
    bench.interface.segment.set_initializing(true);
    assert_eq!(bench.read32(0, 0x23c), 0x000e_0000);
    assert_eq!(bench.read32(0, 0x1fc), 1 << 31 | RESETTABLE);
    bench.interface.reset();
    assert_eq!(bench.read32(0, 0x23c), 0);
    assert_eq!(bench.read32(0, 0x1fc), RESETTABLE);
}

#[test]
fn the_queue_address_reads_back_with_the_interface_state() {
    let mut bench = bench();
    bench.write32(0x10, 0x1234_5678);
    bench.write32(0x14, 0x9abc_d7ff);
    assert_eq!(bench.read32(0, 0x10), 0x1234_5678);
    assert_eq!(bench.read32(0, 0x14), 0x9abc_d756);
    // Its interface state is a driver's wish for a reset, until something else is written.
    assert!(bench.interface.segment.reset_is_wanted());
    bench.interface.segment.wait_for_driver();
    assert_eq!(bench.read32(0, 0x14), 0x9abc_d156);
    assert_eq!(bench.interface.segment.queue_address(), Some(0x1234_5678_9abc_d000));
    // One access for both, and one byte alone.
    bench.interface.write(&bench.probe, 0x10, &[0, 0, 0, 1, 0, 0, 0x20, 0], false);
    assert_eq!(bench.interface.segment.queue_address(), Some(0x1_0000_2000));
    bench.interface.write(&bench.probe, 0x13, &[7], false);
    assert_eq!(bench.interface.segment.queue_address(), Some(0x7_0000_2000));
    assert!(bench.mistakes().is_empty());
}

#[test]
fn a_doorbell_of_any_width_names_its_slots() {
    for (offset, data, slots) in [
        (0x18, &[0x80, 0, 0, 0][..], vec![31]),
        (0x1b, &[0b101], vec![0, 2]),
        (0x19, &[1, 0], vec![16]),
        (0x14, &[0, 0, 0x10, 0, 0, 0, 0, 2], vec![1]),
    ] {
        let mut bench = Bench::new();
        bench.interface.write(&bench.probe, offset, data, false);
        let named: Vec<u8> = bench.run().iter().map(|done| done.slot).collect();
        assert_eq!(named, slots, "{data:?} at {offset:#x}");
    }
}

#[test]
fn what_can_not_be_written_stays_and_is_noted() {
    let mut bench = bench();
    bench.write32(0x000, 0xdead_beef);
    bench.write32(0x1fc, u32::MAX);
    bench.write32(0x300, 1);
    assert_eq!(bench.read32(0, 0x000), 0x002b_0014);
    assert_eq!(bench.read32(0, 0x1fc), RESETTABLE);
    assert_eq!(bench.mistakes(), [("write to a read-only register", 2)].into());
    let touched = bench.probe.touched();
    assert_eq!(touched["register write 0x300 of the initialization segment"], 1);
    assert!(!bench.interface.pending());
}

#[test]
fn reads_of_nothing_are_zero_and_noted() {
    let mut bench = bench();
    assert_eq!(bench.read32(0, 0x300), 0);
    assert_eq!(bench.read32(0, 0x2010), 0);
    assert_eq!(bench.read32(0, u64::MAX), 0);
    assert_eq!(bench.probe.touched().len(), 3);
}

/// The same bytes come whatever the accesses are that read them.
#[test]
fn every_width_at_every_offset_reads_the_same_bytes() {
    let now = 123 * SECOND;
    let mut bench = bench();
    let mut whole = vec![0; SEGMENT_SIZE + 8];
    bench.interface.read(now, &bench.probe, 0, &mut whole[..SEGMENT_SIZE]);
    for offset in 0..SEGMENT_SIZE {
        for width in 1..=8 {
            let mut data = [0xee; 8];
            bench.interface.read(now, &bench.probe, offset as u64, &mut data[..width]);
            assert_eq!(data[..width], whole[offset..offset + width], "{width} at {offset:#x}");
        }
    }
}

/// A write of any width at any offset changes nothing but the command queue's address.
#[test]
fn every_width_at_every_offset_writes_only_what_can_be_written() {
    let mut bench = bench();
    let mut before = vec![0; SEGMENT_SIZE];
    bench.interface.read(0, &bench.probe, 0, &mut before);
    for offset in 0..SEGMENT_SIZE as u64 + 8 {
        for width in 1..=8 {
            bench.interface.write(&bench.probe, offset, &[0xff; 8][..width], false);
        }
    }
    let mut after = vec![0; SEGMENT_SIZE];
    bench.interface.read(0, &bench.probe, 0, &mut after);
    let changed: Vec<usize> = (0..SEGMENT_SIZE).filter(|&at| before[at] != after[at]).collect();
    assert_eq!(changed, (0x10..0x17).collect::<Vec<_>>());
    assert_eq!(after[0x16], 0xf7, "bit 11 is reserved");
    assert_eq!(bench.run().len(), 32);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Any sequence of accesses: the queue's address is what was written last, byte by byte.
    #[test]
    fn any_sequence_of_writes(
        writes in prop::collection::vec((0u64..0x24, prop::collection::vec(any::<u8>(), 0..16)), 0..20)
    ) {
        let mut bench = bench();
        let mut model = [0u8; 0x40];
        for (offset, data) in &writes {
            bench.interface.write(&bench.probe, *offset, data, false);
            model[*offset as usize..][..data.len()].copy_from_slice(data);
        }
        let mut now = vec![0; 8];
        bench.interface.read(0, &bench.probe, 0x10, &mut now);
        prop_assert_eq!(&now[..6], &model[0x10..0x16]);
        prop_assert_eq!(now[6], model[0x16] & 0xf7);
        prop_assert_eq!(now[7], 0x56);
    }
}

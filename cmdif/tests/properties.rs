//! Whatever a guest writes: the interface never stops, and every named slot either goes back with a
//! status or stays as it was.

mod common;

use cmdif::Outcome;
use common::{Bench, MAILBOXES, MEMORY, QUEUE, pattern};
use dma::Dma;
use proptest::prelude::*;

/// Checks every slot that was named against what it was before.
fn check(bench: &mut Bench, slots: u32) {
    let before: Vec<[u8; 64]> = (0..32).map(|slot| bench.entry(slot)).collect();
    let executed = bench.echo.inputs.len();
    let done = bench.ring(slots);
    assert_eq!(done.iter().fold(0, |mask, done| mask | 1u32 << done.slot), slots);
    assert_eq!(done.len() as u32, slots.count_ones(), "each slot once");
    let mut carried_out = 0;
    for done in done {
        let slot = u64::from(done.slot);
        let (was, is) = (before[slot as usize], bench.entry(slot));
        match done.outcome {
            Outcome::Completed(status) => {
                assert_eq!(was[0x3f] & 1, 1, "only the device's slots are handed back");
                assert_eq!(is[0x3f], status.0 << 1);
                carried_out += usize::from(status.0 == 0);
            }
            Outcome::Untouched => assert_eq!(was, is),
        }
    }
    // A command whose output can't be written is the only one that is carried out and fails; in
    // this memory everything that could be read can be written.
    assert_eq!(bench.echo.inputs.len() - executed, carried_out);
}

/// Bytes that come from a hostile guest: mostly those that get past the first checks.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![3 => Just(0), 1 => Just(0xff), 2 => any::<u8>()]
}

/// A place in the part of memory that holds mailboxes, mostly aligned.
fn pointer() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => (0u64..64).prop_map(|n| MAILBOXES + n * 1024),
        1 => any::<u64>(),
        1 => (0u64..4).prop_map(|n| MEMORY as u64 - 1024 + n * 512),
        1 => Just(0),
    ]
}

/// A length, mostly one that a few mailboxes hold.
fn length() -> impl Strategy<Value = u32> {
    prop_oneof![5 => 0u32..3000, 1 => any::<u32>(), 1 => Just(16), 1 => 0u32..(1 << 21)]
}

fn entry() -> impl Strategy<Value = [u8; 64]> {
    (
        length(),
        pointer(),
        pointer(),
        length(),
        0u8..3,
        prop::collection::vec((0usize..64, byte()), 0..3),
    )
        .prop_map(|(inlen, in_ptr, out_ptr, outlen, token, spoilt)| {
            let mut entry = [0; 64];
            entry[0] = 7;
            entry[0x04..0x08].copy_from_slice(&inlen.to_be_bytes());
            entry[0x08..0x10].copy_from_slice(&in_ptr.to_be_bytes());
            entry[0x30..0x38].copy_from_slice(&out_ptr.to_be_bytes());
            entry[0x38..0x3c].copy_from_slice(&outlen.to_be_bytes());
            entry[0x3c] = token;
            entry[0x3f] = 1;
            for (at, byte) in spoilt {
                entry[at] = byte;
            }
            entry
        })
}

/// The 64 mailboxes of [`pointer`]: each with any next pointer, a low number and token.
fn mailboxes() -> impl Strategy<Value = Vec<(u64, u32, u8)>> {
    prop::collection::vec((pointer(), 0u32..4, 0u8..3), 64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    /// Entries and chains that are nearly right.
    #[test]
    fn nearly_right_commands(
        entries in prop::collection::vec((0u64..32, entry()), 1..8),
        mailboxes in mailboxes(),
        checksum in any::<bool>(),
        doorbells in prop::collection::vec(any::<u32>(), 1..4),
    ) {
        let mut bench = Bench::new();
        bench.interface.set_checksum(checksum);
        for (n, (next, number, token)) in mailboxes.into_iter().enumerate() {
            let at = MAILBOXES + n as u64 * 1024;
            bench.memory.write(at, &common::block(&[n as u8; 512], next, number, token)).unwrap();
        }
        for (slot, entry) in entries {
            bench.memory.write(QUEUE + slot * 64, &entry).unwrap();
        }
        for slots in doorbells {
            check(&mut bench, slots);
        }
    }

    /// Anything at all in the queue's page.
    #[test]
    fn random_pages(page in prop::collection::vec(any::<u8>(), 2048), slots in any::<u32>()) {
        let mut bench = Bench::new();
        bench.memory.write(QUEUE, &page).unwrap();
        check(&mut bench, slots);
    }

    /// What was rightly put there arrives whole, in whatever lengths and slots.
    #[test]
    fn right_commands(
        commands in prop::collection::btree_map(0u64..32, (16usize..4000, 8usize..4000, 1u8..), 1..12),
        checksum in any::<bool>(),
    ) {
        let mut bench = Bench::new();
        bench.interface.set_checksum(checksum);
        let mut slots = 0;
        let mut messages = Vec::new();
        for (&slot, &(inlen, outlen, token)) in &commands {
            slots |= 1 << slot;
            messages.push(bench.put(slot, token, &pattern(inlen), outlen));
        }
        check(&mut bench, slots);
        let inputs: Vec<_> = commands.values().map(|&(inlen, ..)| pattern(inlen)).collect();
        prop_assert_eq!(&bench.echo.inputs, &inputs);
        for message in messages {
            let expected: Vec<u8> = (0..message.outlen).map(common::answer).collect();
            prop_assert_eq!(bench.output(&message), expected);
        }
    }
}

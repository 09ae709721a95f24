//! Commands that can be checked by hand, and what becomes of them.

mod common;

use cmdif::{Completion, Limits, Outcome};
use common::{Bench, QUEUE, answer, pattern, xor};
use dma::Dma;
use layouts::DeliveryStatus;

const DONE: Outcome = Outcome::Completed(DeliveryStatus::OK);

fn answers(len: usize) -> Vec<u8> {
    (0..len).map(answer).collect()
}

/// The first command of every driver, as bytes.
#[test]
fn enable_hca_in_slot_0() {
    let mut bench = Bench::new();
    let mut entry = [0; 64];
    entry[0x00..0x01].copy_from_slice(&[0x07]);
    entry[0x04..0x08].copy_from_slice(&[0x00, 0x00, 0x00, 0x10]);
    entry[0x10..0x14].copy_from_slice(&[0x01, 0x04, 0x00, 0x00]);
    entry[0x38..0x3c].copy_from_slice(&[0x00, 0x00, 0x00, 0x0c]);
    entry[0x3c] = 0x01;
    entry[0x3f] = 0x01;
    bench.memory.write(QUEUE, &entry).unwrap();
    let done = bench.ring(0x0000_0001);
    assert_eq!(
        done,
        [Completion { slot: 0, outcome: DONE, events: false, twice: false, bytes: 0x10 + 0x0c }]
    );
    assert_eq!(bench.echo.inputs, [entry[0x10..0x20].to_vec()]);

    // Only the output's 12 bytes and the last byte have changed.
    let mut expected = entry;
    expected[0x20..0x2c].copy_from_slice(&answers(12));
    expected[0x3f] = 0;
    assert_eq!(bench.entry(0), expected);
    assert!(bench.mistakes().is_empty());
}

#[test]
fn the_queue_has_32_entries_of_64_bytes() {
    let mut bench = Bench::bare(Limits::default());
    assert_eq!(bench.read32(0, 0x14), 0x0000_0056);
    bench.write32(0x10, 0);
    bench.write32(0x14, QUEUE as u32);
    assert_eq!(bench.read32(0, 0x14), QUEUE as u32 | 0x56, "size and stride stay");
    bench.put(31, 9, &[1; 16], 16);
    assert_eq!(bench.ring(1 << 31)[0].slot, 31);
    assert_eq!(bench.status(31), Some(0));
}

/// QUERY_HCA_CAP: nothing but the entry in, 8 blocks out.
#[test]
fn a_long_output_goes_to_mailboxes() {
    let mut bench = Bench::new();
    let message =
        bench.put(3, 0x21, &[0x01, 0x00, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], 0x1010);
    assert_eq!(message.out_chain.len(), 8);
    assert_eq!(bench.ring(1 << 3)[0].outcome, DONE);
    assert_eq!(bench.output(&message), answers(0x1010));
}

/// SET_HCA_CAP: 8 blocks in.
#[test]
fn a_long_input_comes_from_mailboxes() {
    let mut bench = Bench::new();
    let input = pattern(0x1010);
    let message = bench.put(0, 0x21, &input, 16);
    assert_eq!(message.in_chain.len(), 8);
    assert_eq!(bench.ring(1)[0].outcome, DONE);
    assert_eq!(bench.echo.inputs, [input]);
}

/// Every length around the sizes at which something changes.
#[test]
fn every_length_is_carried_whole() {
    for len in [16, 17, 272, 527, 528, 529, 1040, 1041, 16 + 512 * 16, 100_000] {
        let mut bench = Bench::new();
        let input = pattern(len);
        let message = bench.put(0, 5, &input, len);
        assert_eq!(bench.ring(1)[0].outcome, DONE, "{len} bytes");
        assert_eq!(bench.echo.inputs, [input], "{len} bytes");
        assert_eq!(bench.output(&message), answers(len), "{len} bytes");
        assert!(!bench.echo.dirty, "{len} bytes");
    }
}

/// The output's last block is written as far as the output goes.
#[test]
fn nothing_is_written_behind_an_output() {
    let mut bench = Bench::new();
    let message = bench.put(0, 5, &[0; 16], 16 + 100);
    bench.memory.write(message.out_chain[0] + 100, &[0xee; 412]).unwrap();
    bench.ring(1);
    let mut rest = [0; 412];
    bench.memory.read(message.out_chain[0] + 100, &mut rest).unwrap();
    assert_eq!(rest, [0xee; 412]);
}

/// A driver that reuses chains leaves the blocks that it does not need as they were.
#[test]
fn blocks_behind_an_input_are_not_looked_at() {
    let mut bench = Bench::new();
    let message = bench.put(0, 5, &pattern(16 + 1024), 16);
    let last = message.in_chain[1];
    // A block with another token, and behind it one that is nowhere.
    bench.memory.write(last, &common::block(&pattern(16 + 1024)[528..], 0x20000, 1, 5)).unwrap();
    bench.memory.write(0x20000, &common::block(&[0; 512], 0xffff_ffff_ffff_fc00, 7, 0x77)).unwrap();
    assert_eq!(bench.ring(1)[0].outcome, DONE);
    assert_eq!(bench.echo.inputs, [pattern(16 + 1024)]);
}

/// An output buffer that was used before is zero again.
#[test]
fn buffers_are_clean_for_the_next_command() {
    let mut bench = Bench::new();
    bench.put(0, 5, &pattern(5000), 5000);
    bench.put(1, 6, &pattern(40), 700);
    bench.ring(0b11);
    assert_eq!(bench.echo.inputs, [pattern(5000), pattern(40)]);
    assert!(!bench.echo.dirty);
}

#[test]
fn slots_are_taken_in_the_order_in_which_they_were_named() {
    let mut bench = Bench::new();
    for slot in [0, 4, 9, 31] {
        bench.put(slot, 5, &[slot as u8; 16], 16);
    }
    bench.write32(0x18, 1 << 9);
    bench.write32(0x18, 1 << 31 | 1 << 4);
    bench.write32(0x18, 1 << 0 | 1 << 9);
    let slots: Vec<u8> = bench.run().iter().map(|done| done.slot).collect();
    assert_eq!(slots, [9, 4, 31, 0], "slot 9 was named twice before it was taken");
    assert!(!bench.interface.pending());
}

/// Whoever rings without end for one slot does not keep another from its turn.
#[test]
fn no_slot_starves_another() {
    let mut bench = Bench::new();
    bench.put(31, 5, &[31; 16], 16);
    bench.put(0, 5, &[0; 16], 16);
    bench.write32(0x18, 1 << 0);
    bench.write32(0x18, 1 << 31);
    let mut order = Vec::new();
    for _ in 0..4 {
        let Bench { interface, memory, probe, echo, .. } = &mut bench;
        order.extend(interface.run_one(memory, probe, echo).map(|done| done.slot));
        bench.put(0, 5, &[0; 16], 16);
        bench.write32(0x18, 1 << 0);
    }
    assert_eq!(order, [0, 31, 0, 0]);
}

/// What the doorbell said about events is said of every slot again, each by its own doorbell.
#[test]
fn completions_say_whether_an_event_is_due() {
    let mut bench = Bench::new();
    for slot in 0..2 {
        bench.put(slot, 5, &[0; 16], 16);
    }
    bench.interface.write(&bench.probe, 0x18, &[0, 0, 0, 1], false);
    bench.interface.write(&bench.probe, 0x18, &[0, 0, 0, 3], true);
    let events: Vec<_> = bench.run().iter().map(|done| (done.slot, done.events)).collect();
    assert_eq!(events, [(0, false), (1, true)]);
    bench.put(1, 5, &[0; 16], 16);
    assert!(!bench.ring(2)[0].events, "not a leftover of the time before");
}

#[test]
fn with_signatures_replies_are_signed() {
    let mut bench = Bench::new();
    bench.interface.set_checksum(true);
    let message = bench.put(0, 5, &pattern(700), 16 + 512 + 30);
    assert_eq!(bench.ring(1)[0].outcome, DONE);
    assert_eq!(bench.output(&message), answers(16 + 512 + 30));
    assert_eq!(xor(&bench.entry(0)), 0xff);
    for at in message.out_chain {
        let mut block = [0; 576];
        bench.memory.read(at, &mut block).unwrap();
        assert_eq!(xor(&block[0x200..0x23f]), 0xff, "control part");
        assert_eq!(xor(&block), 0xff, "whole block");
    }
}

#[test]
fn a_reset_forgets_queue_slots_and_signatures() {
    let mut bench = Bench::new();
    bench.interface.set_checksum(true);
    bench.put(0, 5, &pattern(700), 16);
    bench.write32(0x18, 1);
    bench.interface.reset();
    assert_eq!(bench.run(), []);
    assert_eq!(bench.read32(0, 0x14), 0x56);
    bench.write32(0x14, QUEUE as u32);
    bench.poke(0, 0x3d, 0);
    assert_eq!(bench.ring(1)[0].outcome, DONE, "a wrong signature does not matter any more");
}

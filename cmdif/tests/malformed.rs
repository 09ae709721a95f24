//! Each way in which an entry or a mailbox can be malformed, and its delivery status.

mod common;

use cmdif::{Limits, Outcome};
use common::{Bench, MEMORY, Message, QUEUE, block, pattern};
use dma::Dma;
use layouts::DeliveryStatus;

/// A command of 16 + 1000 bytes that wants an answer of 16 + 600: two blocks either way.
fn command(bench: &mut Bench) -> Message {
    bench.put(2, 0x33, &pattern(1016), 616)
}

/// Runs the command in slot 2 and expects it to be refused with `status`, and not carried out.
#[track_caller]
fn refused(bench: &mut Bench, status: u8) {
    let before = bench.entry(2);
    let done = bench.ring(1 << 2);
    assert_eq!(done.len(), 1);
    assert_eq!(done[0].outcome, Outcome::Completed(DeliveryStatus(status)));
    let mut expected = before;
    expected[0x3f] = status << 1;
    assert_eq!(bench.entry(2), expected, "only the last byte changes");
    assert_eq!(bench.echo.inputs.len(), 0, "it is not carried out");
    assert_eq!(bench.mistakes(), [("malformed command", 1)].into());
}

/// The same for one changed byte of the entry.
#[track_caller]
fn entry_byte(at: u64, byte: u8, status: u8) {
    let mut bench = Bench::new();
    command(&mut bench);
    bench.poke(2, at, byte);
    refused(&mut bench, status);
}

/// Writes a big-endian word into the entry.
fn poke_word(bench: &Bench, at: u64, word: &[u8]) {
    bench.memory.write(QUEUE + 2 * 64 + at, word).unwrap();
}

#[test]
fn type_is_7() {
    entry_byte(0x00, 6, 0x10);
    entry_byte(0x00, 0, 0x10);
}

#[test]
fn reserved_bytes_are_zero() {
    for at in [0x01, 0x02, 0x03, 0x3e] {
        entry_byte(at, 0x80, 9);
    }
}

#[test]
fn input_lengths_have_bounds() {
    for len in [0u32, 1, 15, u32::MAX, 1 << 31, 0x110 + (64 << 20) * 8 + 1] {
        let mut bench = Bench::new();
        command(&mut bench);
        poke_word(&bench, 0x04, &len.to_be_bytes());
        refused(&mut bench, 7);
    }
}

#[test]
fn output_lengths_have_bounds() {
    for len in [0u32, 7, u32::MAX, (1 << 20) + 1] {
        let mut bench = Bench::new();
        command(&mut bench);
        poke_word(&bench, 0x38, &len.to_be_bytes());
        refused(&mut bench, 8);
    }
}

#[test]
fn bounds_can_be_set() {
    for (limits, status) in
        [(Limits { input: 1015, output: 616 }, 7), (Limits { input: 1016, output: 615 }, 8)]
    {
        let mut bench = Bench::bare(limits);
        bench.write32(0x14, QUEUE as u32);
        command(&mut bench);
        refused(&mut bench, status);
    }
}

#[test]
fn pointers_are_aligned() {
    for low in [1u8, 0x40] {
        entry_byte(0x0f, low, 5);
        entry_byte(0x37, low, 4);
    }
    entry_byte(0x0e, 0x02, 5);
    entry_byte(0x36, 0x02, 4);
}

#[test]
fn unused_pointers_are_not_looked_at() {
    let mut bench = Bench::new();
    bench.put(2, 0x33, &[0; 16], 16);
    poke_word(&bench, 0x08, &[0xff; 8]);
    poke_word(&bench, 0x30, &[0xff; 8]);
    assert_eq!(bench.ring(1 << 2)[0].outcome, Outcome::Completed(DeliveryStatus::OK));
}

#[test]
fn pointers_that_lead_out_of_memory_or_around_its_end() {
    for pointer in [MEMORY as u64, u64::MAX - 1023, 1 << 63] {
        for (at, status) in [(0x08, 5), (0x30, 4)] {
            let mut bench = Bench::new();
            command(&mut bench);
            poke_word(&bench, at, &pointer.to_be_bytes());
            refused(&mut bench, status);
        }
    }
}

#[test]
fn chains_that_are_too_short() {
    for (at, status) in [(0x08, 7), (0x30, 8)] {
        let mut bench = Bench::new();
        command(&mut bench);
        poke_word(&bench, at, &[0; 8]);
        refused(&mut bench, status);
    }
    let mut bench = Bench::new();
    let message = command(&mut bench);
    bench.memory.write(message.in_chain[0] + 0x230, &[0; 8]).unwrap();
    refused(&mut bench, 7);
    let mut bench = Bench::new();
    let message = command(&mut bench);
    bench.memory.write(message.out_chain[0] + 0x230, &[0; 8]).unwrap();
    refused(&mut bench, 8);
}

/// Changes one byte of a block, by chain and number, and expects a status.
#[track_caller]
fn block_byte(output: bool, number: usize, at: u64, byte: u8, status: u8) {
    let mut bench = Bench::new();
    let message = command(&mut bench);
    let chain = if output { message.out_chain } else { message.in_chain };
    bench.memory.write(chain[number] + at, &[byte]).unwrap();
    refused(&mut bench, status);
}

#[test]
fn tokens_match() {
    for number in 0..2 {
        block_byte(false, number, 0x23d, 0x34, 2);
        block_byte(true, number, 0x23d, 0x34, 2);
    }
}

#[test]
fn blocks_are_numbered() {
    for number in 0..2 {
        block_byte(false, number, 0x23b, 7, 3);
        block_byte(true, number, 0x23b, 7, 3);
        block_byte(false, number, 0x238, 1, 3);
    }
}

#[test]
fn next_pointers_are_aligned_and_lead_somewhere() {
    block_byte(false, 0, 0x237, 1, 5);
    block_byte(true, 0, 0x237, 1, 4);
    block_byte(false, 0, 0x230, 0xff, 5);
    block_byte(true, 0, 0x230, 0xff, 4);
}

#[test]
fn a_walk_in_circles_ends() {
    let mut bench = Bench::new();
    let message = bench.put(2, 0x33, &pattern(16 + 512 * 100), 16);
    let first = message.in_chain[0];
    bench.memory.write(first, &block(&[0; 512], first, 0, 0x33)).unwrap();
    refused(&mut bench, 3);
}

/// A length that memory could not hold is noticed at the first block that is not there, not by
/// making room for it.
#[test]
fn a_claimed_length_is_not_believed() {
    let mut bench = Bench::new();
    command(&mut bench);
    poke_word(&bench, 0x04, &0x2000_0000u32.to_be_bytes());
    refused(&mut bench, 7);
}

#[test]
fn signatures_count_only_when_they_are_on() {
    type Spoil<'a> = &'a dyn Fn(&Bench, &Message);
    let spoilt = |on: bool, spoil: Spoil| {
        let mut bench = Bench::new();
        bench.interface.set_checksum(on);
        let message = command(&mut bench);
        spoil(&bench, &message);
        let done = bench.ring(1 << 2);
        assert_eq!(
            common::xor(&bench.entry(2)) == 0xff,
            on,
            "a reply is signed if signatures are on"
        );
        done[0].outcome
    };
    let flip = |bench: &Bench, at: u64| {
        let mut byte = [0];
        bench.memory.read(at, &mut byte).unwrap();
        bench.memory.write(at, &[byte[0] ^ 0x40]).unwrap();
    };
    let spoils: [Spoil; 6] = [
        &|bench, _| flip(bench, QUEUE + 2 * 64 + 0x3d),
        &|bench, _| flip(bench, QUEUE + 2 * 64 + 0x17),
        &|bench, message| flip(bench, message.in_chain[1] + 5),
        &|bench, message| flip(bench, message.in_chain[0] + 0x23f),
        &|bench, message| flip(bench, message.in_chain[0] + 0x23e),
        &|bench, message| flip(bench, message.out_chain[1] + 0x210),
    ];
    for (n, spoil) in spoils.iter().enumerate() {
        let on = spoilt(true, spoil);
        assert_eq!(on, Outcome::Completed(DeliveryStatus::SIGNATURE_ERR), "case {n}");
        assert_eq!(spoilt(false, spoil), Outcome::Completed(DeliveryStatus::OK), "case {n}");
    }
}

/// Both parts of a block are signed: a control part that was changed so that the whole still
/// agrees is noticed.
#[test]
fn the_control_part_has_its_own_signature() {
    let mut bench = Bench::new();
    bench.interface.set_checksum(true);
    let message = command(&mut bench);
    let at = message.in_chain[0];
    let mut bytes = [0; 576];
    bench.memory.read(at, &mut bytes).unwrap();
    bytes[0x210] ^= 1;
    bytes[0] ^= 1;
    bench.memory.write(at, &bytes).unwrap();
    assert_eq!(common::xor(&bytes), 0xff);
    let done = bench.ring(1 << 2);
    assert_eq!(done[0].outcome, Outcome::Completed(DeliveryStatus::SIGNATURE_ERR));
}

/// A slot that the driver has not handed over is not the device's to write.
#[test]
fn slots_of_the_driver_are_left_alone() {
    let mut bench = Bench::new();
    command(&mut bench);
    bench.poke(2, 0x3f, 0);
    let before = bench.entry(2);
    assert_eq!(bench.ring(1 << 2)[0].outcome, Outcome::Untouched);
    assert_eq!(bench.entry(2), before);
    assert_eq!(bench.mistakes(), [("command slot not handed over", 1)].into());
}

#[test]
fn a_queue_out_of_reach_answers_nothing() {
    let mut bench = Bench::bare(Limits::default());
    bench.write32(0x10, 0xffff_ffff);
    bench.write32(0x14, 0xffff_f000);
    let done = bench.ring(u32::MAX);
    assert_eq!(done.len(), 32);
    assert!(done.iter().all(|done| done.outcome == Outcome::Untouched));
    assert_eq!(bench.mistakes(), [("command queue out of reach", 32)].into());
}

#[test]
fn a_doorbell_before_the_queue_is_nothing() {
    let mut bench = Bench::bare(Limits::default());
    assert_eq!(bench.ring(1)[0].outcome, Outcome::Untouched);
    assert_eq!(bench.mistakes(), [("command without a queue", 1)].into());
}

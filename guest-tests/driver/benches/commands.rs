//! How fast the card's command side is, in process, and how that compares with copying the same
//! bytes. Medians of many rounds; what a driver does is not in the time of a round.
#![allow(missing_docs)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::{Duration, Instant};

use common::{FunctionCard, MEMORY, TestDriver, driver};
use dma::TestMemory;
use driver::mkey::{Access, Region, mtt_key_command};
use driver::{Card, Driver, InProcess};
use function::{Config, Function};
use layouts::{CreateMkeyOut, Opcode};

const ROUNDS: usize = 2000;
/// All slots but that of page commands and one for the commands between rounds.
const IN_FLIGHT: usize = 30;
/// Blocks of a CREATE_MKEY with 512 entries: 0x110 + 512 * 8 bytes, of which 16 are in the entry.
const ENTRIES: usize = 512;
const BLOCKS: usize = (0x110 + ENTRIES * 8 - 16usize).div_ceil(512);
const BLOCK: usize = 576;

fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples[samples.len() / 2]
}

fn main() {
    // `cargo test --benches` only asks whether it runs.
    let rounds = if std::env::args().any(|arg| arg == "--bench") { ROUNDS } else { 3 };
    let copying = memcpy(rounds);
    println!("memcpy of {BLOCKS} mailboxes of {BLOCK} bytes: {copying:?}");
    for in_flight in [1, IN_FLIGHT] {
        let one = create_mkey(rounds, in_flight);
        println!(
            "CREATE_MKEY of {ENTRIES} entries, doorbell to completion, {in_flight} at a time: {one:?}, \
             {:.0} per second, {:.1} x memcpy",
            1.0 / one.as_secs_f64(),
            one.as_secs_f64() / copying.as_secs_f64(),
        );
    }
    let (boot, device) = power_on(rounds.min(200));
    println!("power-on to RDMA device: {boot:?} with the driver's part, {device:?} of it the card");
}

/// Copying the mailboxes of as many commands as are in flight, out of as much memory; for one.
fn memcpy(rounds: usize) -> Duration {
    let source = vec![1u8; IN_FLIGHT * BLOCKS * 1024];
    let mut target = vec![0u8; BLOCKS * BLOCK];
    let samples = (0..rounds).map(|_| {
        let start = Instant::now();
        for command in black_box(&source).chunks_exact(BLOCKS * 1024) {
            for (to, from) in target.chunks_exact_mut(BLOCK).zip(command.chunks_exact(1024)) {
                to.copy_from_slice(&from[..BLOCK]);
            }
            black_box(&mut target);
        }
        start.elapsed() / IN_FLIGHT as u32
    });
    median(samples.collect())
}

/// One CREATE_MKEY of many in flight.
fn create_mkey(rounds: usize, in_flight: usize) -> Duration {
    let mut driver = driver(&Config::default());
    driver.power_on().expect("a device");
    let pd = driver.alloc_pd().expect("a domain");
    let pages = (0..ENTRIES as u64).map(|n| n << 12).collect();
    let len = (ENTRIES as u64) << 12;
    let region = Region { start: 0, len, log_page_size: 12, pages, pd, access: Access::ALL };
    let input = mtt_key_command(&region);
    let slots: Vec<u8> = (0..in_flight)
        .map(|_| driver.prepare(&input, CreateMkeyOut::SIZE).expect("a slot"))
        .collect();
    let mask = slots.iter().fold(0, |mask, slot| mask | 1 << slot);
    let samples = (0..rounds).map(|_| {
        let start = Instant::now();
        driver.ring(mask).expect("a doorbell");
        let keys: Vec<_> = slots
            .iter()
            .map(|&slot| driver.complete_in_place(slot).expect("a key"))
            .map(|output| CreateMkeyOut(output).mkey_index())
            .collect();
        let elapsed = start.elapsed() / in_flight as u32;
        destroy(&mut driver, &keys);
        slots.iter().for_each(|&slot| driver.again(slot).expect("a slot"));
        elapsed
    });
    median(samples.collect())
}

/// Destroys keys, in the slot that is left.
fn destroy(driver: &mut TestDriver, keys: &[u32]) {
    for &index in keys {
        let mut input = [0; layouts::DestroyMkeyIn::SIZE];
        let mut view = layouts::DestroyMkeyIn(&mut input[..]);
        view.set_opcode(Opcode::DESTROY_MKEY.0);
        view.set_mkey_index(index);
        driver.command(&input, layouts::DestroyMkeyOut::SIZE).expect("a key to destroy");
    }
}

/// A card that notes how long it works.
struct Timed {
    card: FunctionCard,
    spent: Duration,
}

impl Timed {
    fn time<T>(&mut self, work: impl FnOnce(&mut FunctionCard) -> T) -> T {
        let start = Instant::now();
        let result = work(&mut self.card);
        self.spent += start.elapsed();
        result
    }
}

impl Card for Timed {
    fn read(&mut self, now: u64, offset: u64, data: &mut [u8]) {
        self.time(|card| card.read(now, offset, data));
    }

    fn write(&mut self, now: u64, memory: &TestMemory, offset: u64, data: &[u8]) {
        self.time(|card| card.write(now, memory, offset, data));
    }

    fn poll(&mut self, now: u64, memory: &TestMemory) -> Option<u64> {
        self.time(|card| card.poll(now, memory))
    }
}

/// From power-on to a device that programs can open: all of it, and the card's share.
fn power_on(rounds: usize) -> (Duration, Duration) {
    let mut shares = Vec::new();
    let samples = (0..rounds).map(|_| {
        let card =
            Timed { card: FunctionCard(Function::new(&Config::default())), spent: Duration::ZERO };
        let mut driver = Driver::new(InProcess::new(card, MEMORY));
        let start = Instant::now();
        driver.power_on().expect("a device");
        shares.push(driver.port.card.spent);
        start.elapsed()
    });
    let whole = median(samples.collect());
    (whole, median(shares))
}

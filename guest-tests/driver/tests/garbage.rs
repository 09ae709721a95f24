//! A guest that writes nonsense: to every register, into every command, into memory that the card
//! reads. The card answers or ignores it, does not stop, and a reset makes it as new.

mod common;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use common::{MEMORY, TestDriver, driver, objects, region};
use dma::Dma;
use driver::{Driver, Error, RdmaDevice};
use function::Config;
use layouts::{COMMANDS, MboxIn, Opcode};
use proptest::prelude::*;

/// Most of the guest's memory is out of the way of what these tests write.
const LOW: u64 = 4 << 20;

/// Commands as a driver sends them, a few of each kind.
static SENSE: LazyLock<Vec<(Vec<u8>, usize)>> = LazyLock::new(|| {
    let mut sent: BTreeMap<u16, Vec<_>> = BTreeMap::new();
    for config in common::configs() {
        let mut driver = driver(&config);
        driver.history = Some(Vec::new());
        let mut device = driver.power_on().unwrap();
        let pd = driver.alloc_pd().unwrap();
        let region = region(&mut driver, pd, 0x1000, 64);
        let registered = driver.register(&mut device, &region).unwrap();
        driver.query_mkey(registered.key).unwrap();
        driver.deregister(&mut device, registered).unwrap();
        driver.power_off(device).unwrap();
        for command in driver.history.take().unwrap_or_default() {
            sent.entry(MboxIn(&command.0[..]).opcode()).or_default().push(command);
        }
    }
    for ending in ENDINGS {
        sent.remove(&ending.0);
    }
    sent.into_values().flat_map(|commands| commands.into_iter().take(4)).collect()
});

/// Commands that take the device out of the state in which the others mean something: rare.
const ENDINGS: [Opcode; 2] = [Opcode::TEARDOWN_HCA, Opcode::DISABLE_HCA];

#[derive(Debug, Clone)]
enum Deed {
    /// Writes bytes anywhere in BAR0.
    Write(u64, Vec<u8>),
    /// Reads bytes anywhere in BAR0.
    Read(u64, usize),
    /// Issues a command whose input is nonsense but for its opcode.
    Command { opcode: u16, op_mod: u16, input: Vec<u8>, outlen: usize },
    /// Changes memory that the card may read.
    Memory(u64, Vec<u8>),
    /// Lets time go on.
    Wait(u64),
}

/// Offsets at which there is something: registers, doorbells of the first pages; and all others.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => (16u64..24, prop::sample::select(vec![0x20, 0x24, 0x40, 0x48, 0x800, 0x804, 0x900, 0xa00]))
            .prop_map(|(page, at)| page * 4096 + at),
        1 => 0u64..0x40,
        1 => 0u64..0x3000,
        1 => 0u64..function::BAR0_SIZE,
    ]
}

/// Words that are often small: numbers of objects that exist, sizes that are possible.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        4 => Just(0u32),
        3 => 1u32..32,
        2 => (0u32..32).prop_map(|bit| 1 << bit),
        1 => any::<u32>(),
    ];
    let bytes = |words: Vec<u32>| words.into_iter().flat_map(u32::to_be_bytes).collect();
    prop::collection::vec(word, 4..90).prop_map(bytes)
}

fn command() -> impl Strategy<Value = Deed> {
    let known: Vec<u16> =
        COMMANDS.iter().filter(|(op, ..)| !ENDINGS.contains(op)).map(|(op, ..)| op.0).collect();
    let opcode = prop_oneof![
        60 => prop::sample::select(known),
        1 => prop::sample::select(ENDINGS.map(|op| op.0).to_vec()),
        3 => 0x100u16..0x1000,
    ];
    (opcode, 0u16..4, words(), prop_oneof![Just(16usize), Just(0x110), 8usize..0x1200])
        .prop_map(|(opcode, op_mod, input, outlen)| Deed::Command { opcode, op_mod, input, outlen })
}

/// A command as a driver sends it, but for some words and for its length.
fn nearly_right() -> impl Strategy<Value = Deed> {
    let word =
        prop_oneof![4 => 0u32..64, 2 => (0u32..32).prop_map(|bit| 1 << bit), 1 => any::<u32>()];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), word), 0..4);
    let cut = prop_oneof![8 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)];
    (any::<prop::sample::Index>(), changes, cut).prop_map(|(which, changes, cut)| {
        let (mut input, outlen) = SENSE[which.index(SENSE.len())].clone();
        let header = MboxIn(&input[..]);
        let (opcode, op_mod) = (header.opcode(), header.op_mod());
        for (at, word) in changes {
            let words = input.as_chunks_mut::<4>().0;
            words[at.index(words.len())] = word.to_be_bytes();
        }
        if let Some(cut) = cut {
            input.truncate(16 + cut.index(input.len() - 15));
        }
        Deed::Command { opcode, op_mod, input, outlen }
    })
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        2 => (offset(), prop::collection::vec(any::<u8>(), 1..9)).prop_map(|(at, data)| Deed::Write(at, data)),
        2 => (16u64..24, 0u32..1 << 12, 0u32..64).prop_map(|(uar, index, number)| {
            // A doorbell of a queue that may exist.
            let words = (u64::from(index) << 8) << 32 | u64::from(number << 8 | 9);
            Deed::Write(uar * 4096 + 0x800, words.to_be_bytes().to_vec())
        }),
        1 => (offset(), 1usize..64).prop_map(|(at, len)| Deed::Read(at, len)),
        2 => command(),
        6 => nearly_right(),
        1 => (0..LOW, prop::collection::vec(any::<u8>(), 1..600)).prop_map(|(at, data)| Deed::Memory(at, data)),
        1 => (0u64..10_000_000_000).prop_map(Deed::Wait),
    ]
}

/// Lets the card finish what it has. It must not go on without end.
fn settle(driver: &mut TestDriver) {
    let port = &mut driver.port;
    for _ in 0..100_000 {
        match driver::Card::poll(&mut port.card, port.now, &port.memory) {
            Some(at) if at <= port.now => {}
            _ => return,
        }
    }
    panic!("the card goes on without end");
}

fn carry_out(driver: &mut TestDriver, deed: Deed) {
    let port = &mut driver.port;
    match deed {
        // The command queue stays where it is: what is told apart here are commands.
        Deed::Write(0x10..0x18, _) => {}
        Deed::Write(at, data) => port.card.0.bar_write(port.now, &port.memory, at, &data),
        Deed::Read(at, len) => port.card.0.bar_read(port.now, at, &mut vec![0; len]),
        Deed::Memory(at, data) => port.memory.write(at, &data).unwrap(),
        Deed::Wait(ns) => port.now += ns,
        Deed::Command { opcode, op_mod, mut input, outlen } => {
            let mut header = MboxIn(&mut input[..]);
            header.set_opcode(opcode);
            header.set_op_mod(op_mod);
            header.set_uid(0);
            match driver.command(&input, outlen) {
                Ok(_) | Err(Error::Command { .. } | Error::Delivery { .. }) => {}
                // What was written over was the driver's own: its queue, an event, a mailbox.
                Err(Error::Protocol(_) | Error::Timeout { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    settle(driver);
}

fn booted() -> (TestDriver, RdmaDevice) {
    let mut driver = driver(&Config::default());
    let device = driver.power_on().unwrap();
    // By polling, so that nonsense can't keep commands from being completed for the driver.
    driver.use_polling();
    driver.destroy_eq(device.core.eqs[0]).unwrap();
    (driver, device)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn nonsense_is_survived(deeds in prop::collection::vec(deed(), 1..60)) {
        let (mut driver, _device) = booted();
        for deed in deeds {
            carry_out(&mut driver, deed);
        }
        let mut port = driver.port;
        port.card.0.reset();
        let mut driver = Driver::new(port);
        prop_assert_eq!(objects(&mut driver).values().sum::<u64>(), 0);
        let device = driver.power_on().unwrap();
        driver.power_off(device).unwrap();
    }

    /// Commands before the device is in any state for them.
    #[test]
    fn nonsense_right_after_power_on(deeds in prop::collection::vec(command(), 1..40)) {
        let mut driver = driver(&Config::default());
        driver.wait_fw_init().unwrap();
        driver.set_up_queue().unwrap();
        for deed in deeds {
            carry_out(&mut driver, deed);
        }
        prop_assert!(driver.memory.used() <= MEMORY as u64);
    }
}

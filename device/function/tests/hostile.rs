//! Whatever a guest writes to registers, commands and memory: the card answers, and afterwards it
//! can be reset and driven again.

use dma::{Dma, TestMemory};
use driver::{Card, Driver, InProcess};
use function::{BAR0_SIZE, Config, Function, Wake};
use layouts::{MboxIn, Opcode};
use proptest::prelude::*;

const MEMORY: usize = 16 << 20;

struct Host(Function);

impl Card for Host {
    fn read(&mut self, now: u64, offset: u64, data: &mut [u8]) {
        self.0.bar_read(now, offset, data);
    }

    fn write(&mut self, now: u64, memory: &TestMemory, offset: u64, data: &[u8]) {
        self.0.bar_write(now, memory, offset, data);
    }

    fn poll(&mut self, now: u64, memory: &TestMemory) -> Option<u64> {
        match self.0.poll(now, memory) {
            Wake::Now => Some(now),
            Wake::At(at) => Some(at),
            Wake::Idle => None,
        }
    }
}

fn machine() -> Driver<InProcess<Host>> {
    let config = Config::default();
    Driver::new(InProcess::new(Host(Function::new(&config)), MEMORY))
}

/// Polls until nothing is queued. Work that a guest can set going with a bounded number of writes
/// must be bounded too.
fn settle(driver: &mut Driver<InProcess<Host>>) {
    let port = &mut driver.port;
    for _ in 0..10_000 {
        if !matches!(port.card.0.poll(port.now, &port.memory), Wake::Now) {
            return;
        }
    }
    panic!("the card is still busy after 10 000 slices of work");
}

fn drives_again(driver: Driver<InProcess<Host>>) {
    let mut card = driver.port.card;
    card.0.reset();
    let mut driver = Driver::new(InProcess::new(card, MEMORY));
    let core = driver.boot().expect("boots after a reset");
    driver.shut_down(core).expect("shuts down after a reset");
}

/// Offsets that mean something, and any other.
fn offset() -> impl Strategy<Value = u64> {
    let named = prop::sample::select(vec![
        0x10u64,
        0x14,
        0x18,
        0x1fc,
        0x200,
        0x1000,
        0x1010,
        0x10020,
        0x10024,
        0x10040,
        0x10048,
        0x10800,
        0x10900,
        0x11020,
        0x11800,
        0x1f_fff0,
        BAR0_SIZE - 8,
    ]);
    prop_oneof![3 => named, 1 => 0..BAR0_SIZE]
}

/// Numbers that are often those of objects, small, or extreme.
fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 0u32..64,
        2 => any::<u32>(),
        1 => prop::sample::select(vec![u32::MAX, 0x7fff_ffff, 0x8000_0000, 0xff_ffff, 0x1000]),
        2 => (0u32..4096).prop_map(|page| page << 12),
    ]
}

/// A command: an opcode that exists (by far most of the time) and a body.
fn command() -> impl Strategy<Value = (u16, u16, u16, Vec<u32>, usize)> {
    let known: Vec<u16> = (0..0x1000).filter(|&code| Opcode(code).name().is_some()).collect();
    let opcode = prop_oneof![9 => prop::sample::select(known), 1 => any::<u16>()];
    let op_mod = prop_oneof![6 => 0u16..3, 1 => any::<u16>()];
    let uid = prop_oneof![6 => Just(0u16), 1 => 0u16..4, 1 => any::<u16>()];
    // Inputs below 16 bytes do not even reach the firmware.
    let body = prop::collection::vec(word(), 2..160);
    (opcode, op_mod, uid, body, 8usize..0x400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_register_access(
        booted in any::<bool>(),
        writes in prop::collection::vec((offset(), prop::collection::vec(any::<u8>(), 1..17)), 0..60),
        noise in prop::collection::vec((0usize..MEMORY, any::<u64>()), 0..60),
    ) {
        let mut driver = machine();
        if booted {
            driver.boot().unwrap();
        }
        for (at, value) in noise {
            let _ = driver.port.memory.write(at as u64, &value.to_be_bytes());
        }
        for (at, data) in writes {
            let port = &mut driver.port;
            port.now += 1000;
            port.card.0.bar_write(port.now, &port.memory, at, &data);
            let mut back = vec![0; data.len()];
            port.card.0.bar_read(port.now, at, &mut back);
            settle(&mut driver);
        }
        drives_again(driver);
    }

    #[test]
    fn any_command(commands in prop::collection::vec(command(), 1..40)) {
        let mut driver = machine();
        driver.boot().unwrap();
        for (opcode, op_mod, uid, body, outlen) in commands {
            // These take away what the driver waits for answers with.
            const LAST: [Opcode; 3] =
                [Opcode::TEARDOWN_HCA, Opcode::DISABLE_HCA, Opcode::DESTROY_EQ];
            if LAST.contains(&Opcode(opcode)) {
                continue;
            }
            let mut input = vec![0; 8];
            input.extend(body.iter().flat_map(|word| word.to_be_bytes()));
            let mut header = MboxIn(&mut input[..]);
            header.set_opcode(opcode);
            header.set_op_mod(op_mod);
            header.set_uid(uid);
            // Any status will do; an answer there must be.
            match driver.command(&input, outlen) {
                Ok(_) | Err(driver::Error::Command { .. }) => {}
                Err(other) => {
                    let what = format!("{}: {other}", Opcode(opcode));
                    return Err(TestCaseError::fail(what));
                }
            }
            settle(&mut driver);
        }
        drives_again(driver);
    }
}

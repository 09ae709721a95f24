//! A guest made of bytes: register writes, commands and memory, to a card that has been booted. It must
//! answer every command, stay bounded, and drive again after a reset. See README.md.
#![no_main]

use dma::{Dma, TestMemory};
use driver::{Card, Driver, Error, InProcess};
use function::{BAR0_SIZE, Config, Function, Wake};
use layouts::Opcode;
use libfuzzer_sys::fuzz_target;

const MEMORY: usize = 8 << 20;

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

/// Takes the next `N` bytes.
fn take<const N: usize>(data: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = data.split_first_chunk()?;
    *data = rest;
    Some(*head)
}

fn settle(port: &mut InProcess<Host>) {
    for _ in 0..10_000 {
        if port.card.0.poll(port.now, &port.memory) != Wake::Now {
            return;
        }
    }
    panic!("still busy after 10 000 slices of work");
}

/// One step of the guest; `None` when the bytes are used up.
fn step(driver: &mut Driver<InProcess<Host>>, data: &mut &[u8]) -> Option<()> {
    let [kind, length] = take(data)?;
    let body: Vec<u8> = data.iter().copied().take(usize::from(length) * 2).collect();
    *data = &data[body.len()..];
    match kind % 4 {
        // Registers that mean something are in the first pages.
        0 | 1 => {
            let [a, b, c] = take(data)?;
            let offset = u64::from_be_bytes([0, 0, 0, 0, 0, a & 1, b, c]);
            let offset = if kind & 0x80 == 0 { offset } else { offset << 8 } % BAR0_SIZE;
            driver.port.card.0.bar_write(driver.port.now, &driver.port.memory, offset, &body);
        }
        2 => {
            let at = u64::from(u32::from_be_bytes(take(data)?)) % MEMORY as u64;
            let _ = driver.port.memory.write(at, &body);
        }
        _ => {
            let mut input = body;
            input.resize(input.len().max(16), 0);
            let opcode = Opcode(u16::from_be_bytes([input[0], input[1]]));
            // These take away what the driver waits for answers with.
            const LAST: [Opcode; 3] =
                [Opcode::TEARDOWN_HCA, Opcode::DISABLE_HCA, Opcode::DESTROY_EQ];
            if LAST.contains(&opcode) {
                return Some(());
            }
            match driver.command(&input, 0x210) {
                // Noise in its own memory can confuse the driver; the card is another matter.
                Ok(_)
                | Err(Error::Command { .. } | Error::Delivery { .. } | Error::Protocol(_)) => {}
                Err(_) => return None,
            }
        }
    }
    settle(&mut driver.port);
    Some(())
}

fuzz_target!(|data: &[u8]| {
    let card = Host(Function::new(&Config::default()));
    let mut driver = Driver::new(InProcess::new(card, MEMORY));
    driver.boot().expect("boots");
    let mut data = data;
    while step(&mut driver, &mut data).is_some() {}
    let mut card = driver.port.card;
    card.0.reset();
    let mut driver = Driver::new(InProcess::new(card, MEMORY));
    driver.boot().expect("boots again after a reset");
});

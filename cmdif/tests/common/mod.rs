//! A command interface on a byte array, and commands written into it byte by byte, without the
//! layouts that the interface itself uses.
#![allow(dead_code, reason = "not every test file needs all of it")]

use std::collections::BTreeMap;

use cmdif::{CommandInterface, Completion, Executor, Identity, Limits};
use dma::{Bus, Dma, TestMemory};
use probe::Probe;

/// Size of guest memory.
pub const MEMORY: usize = 1 << 20;
/// Where the command queue is.
pub const QUEUE: u64 = 0x1000;
/// Where mailboxes are put, 1 KiB each.
pub const MAILBOXES: u64 = 0x10000;

/// A firmware that answers each command with fixed bytes, and keeps what it was sent.
#[derive(Default)]
pub struct Echo {
    /// The inputs that came, in order.
    pub inputs: Vec<Vec<u8>>,
    /// Whether every output that came was zero.
    pub dirty: bool,
}

/// Byte `i` of the answer to an input.
pub fn answer(i: usize) -> u8 {
    (i * 7 + 1) as u8
}

impl Executor for Echo {
    fn execute(&mut self, _bus: &dyn Bus, input: &[u8], output: &mut [u8]) {
        self.inputs.push(input.to_vec());
        self.dirty |= output.iter().any(|&byte| byte != 0);
        for (i, byte) in output.iter_mut().enumerate() {
            *byte = answer(i);
        }
    }
}

/// Interface, memory and firmware.
pub struct Bench {
    pub interface: CommandInterface,
    pub memory: TestMemory,
    pub probe: Probe,
    pub echo: Echo,
    next_mailbox: u64,
}

/// A card for tests.
pub fn identity() -> Identity {
    Identity { fw_version: (20, 43, 1014), timer_khz: 156_250, timeouts: None }
}

impl Bench {
    /// With a command queue at [`QUEUE`].
    pub fn new() -> Self {
        let mut bench = Self::bare(Limits::default());
        bench.write32(0x10, 0);
        bench.write32(0x14, QUEUE as u32);
        bench
    }

    /// Without a command queue.
    pub fn bare(limits: Limits) -> Self {
        Self {
            interface: CommandInterface::new(identity(), limits),
            memory: TestMemory::new(MEMORY),
            probe: Probe::new(),
            echo: Echo::default(),
            next_mailbox: MAILBOXES,
        }
    }

    pub fn read32(&mut self, now: u64, offset: u64) -> u32 {
        let mut data = [0; 4];
        self.interface.read(now, &self.probe, offset, &mut data);
        u32::from_be_bytes(data)
    }

    pub fn write32(&mut self, offset: u64, value: u32) {
        self.interface.write(&self.probe, offset, &value.to_be_bytes(), false);
    }

    /// Rings for some slots and runs everything.
    pub fn ring(&mut self, slots: u32) -> Vec<Completion> {
        self.write32(0x18, slots);
        self.run()
    }

    /// Runs everything that waits.
    pub fn run(&mut self) -> Vec<Completion> {
        let Self { interface, memory, probe, echo, .. } = self;
        std::iter::from_fn(|| interface.run_one(memory, probe, echo)).collect()
    }

    /// The entry in a slot.
    pub fn entry(&self, slot: u64) -> [u8; 64] {
        let mut bytes = [0; 64];
        self.memory.read(QUEUE + slot * 64, &mut bytes).unwrap();
        bytes
    }

    /// Changes one byte of the entry in a slot.
    pub fn poke(&self, slot: u64, at: u64, byte: u8) {
        self.memory.write(QUEUE + slot * 64 + at, &[byte]).unwrap();
    }

    /// The delivery status of a slot that was handed back; `None` if it was not.
    pub fn status(&self, slot: u64) -> Option<u8> {
        let status_own = self.entry(slot)[0x3f];
        (status_own & 1 == 0).then_some(status_own >> 1)
    }

    /// Writes a command with room for `outlen` bytes of output into a slot.
    pub fn put(&mut self, slot: u64, token: u8, input: &[u8], outlen: usize) -> Message {
        let in_chain = self.chain(token, input.get(16..).unwrap_or_default());
        let out_chain = self.chain(token, &vec![0; outlen.saturating_sub(16)]);
        let mut entry = [0; 64];
        entry[0] = 7;
        entry[4..8].copy_from_slice(&(input.len() as u32).to_be_bytes());
        entry[8..16].copy_from_slice(&in_chain.first().copied().unwrap_or(0).to_be_bytes());
        let inline = input.len().min(16);
        entry[16..16 + inline].copy_from_slice(&input[..inline]);
        entry[0x30..0x38].copy_from_slice(&out_chain.first().copied().unwrap_or(0).to_be_bytes());
        entry[0x38..0x3c].copy_from_slice(&(outlen as u32).to_be_bytes());
        entry[0x3c] = token;
        entry[0x3f] = 1;
        entry[0x3d] = !entry.iter().fold(0, |sum, byte| sum ^ byte);
        self.memory.write(QUEUE + slot * 64, &entry).unwrap();
        Message { slot, outlen, in_chain, out_chain }
    }

    /// Writes a chain of signed mailboxes with this data.
    fn chain(&mut self, token: u8, data: &[u8]) -> Vec<u64> {
        let count = data.len().div_ceil(512) as u64;
        let chain: Vec<u64> = (0..count).map(|n| self.next_mailbox + n * 1024).collect();
        self.next_mailbox += count * 1024;
        for (n, (part, &at)) in data.chunks(512).zip(&chain).enumerate() {
            let next = chain.get(n + 1).copied().unwrap_or(0);
            self.memory.write(at, &block(part, next, n as u32, token)).unwrap();
        }
        chain
    }

    /// The output of a command that was carried out.
    pub fn output(&self, message: &Message) -> Vec<u8> {
        let entry = self.entry(message.slot);
        let mut output = entry[0x20..0x20 + message.outlen.min(16)].to_vec();
        for &at in &message.out_chain {
            let mut data = [0; 512];
            self.memory.read(at, &mut data).unwrap();
            output.extend_from_slice(&data);
        }
        output.truncate(message.outlen);
        output
    }

    /// What the probe calls the guest's mistakes.
    pub fn mistakes(&self) -> BTreeMap<&'static str, u64> {
        self.probe.mistakes()
    }
}

/// Where a command was put.
pub struct Message {
    pub slot: u64,
    pub outlen: usize,
    pub in_chain: Vec<u64>,
    pub out_chain: Vec<u64>,
}

/// One mailbox, signed.
pub fn block(data: &[u8], next: u64, number: u32, token: u8) -> [u8; 576] {
    let mut block = [0; 576];
    block[..data.len()].copy_from_slice(data);
    block[0x230..0x238].copy_from_slice(&next.to_be_bytes());
    block[0x238..0x23c].copy_from_slice(&number.to_be_bytes());
    block[0x23d] = token;
    block[0x23e] = !block[0x200..0x23e].iter().fold(0, |sum, byte| sum ^ byte);
    block[0x23f] = !block[..0x23f].iter().fold(0, |sum, byte| sum ^ byte);
    block
}

/// XOR of all bytes: 0xff in a signed structure.
pub fn xor(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum ^ byte)
}

/// `len` bytes, of which any 512 in a row differ from their neighbours.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect()
}

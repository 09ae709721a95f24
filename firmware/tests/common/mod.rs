//! A function's firmware over a byte array, driven by whole commands.
#![allow(dead_code)]

mod world;

use cmdif::Executor;
use dma::TestMemory;
use firmware::dispatch::CommandExecutor;
use firmware::profile::Profile;
use firmware::{Firmware, Limits, port};
use layouts::*;
use probe::Probe;

#[allow(unused_imports)]
pub use world::World;

pub const IDENTITY: port::Identity = port::Identity {
    node_guid: 0x0200_0000_0000_0001,
    port_guid: 0x0200_0000_0000_0002,
    system_image_guid: 0x0200_0000_0000_0003,
    lid: 7,
};

pub struct Fixture {
    pub fw: Firmware,
    pub probe: Probe,
    pub memory: TestMemory,
}

impl Fixture {
    /// Before ENABLE_HCA.
    pub fn off() -> Self {
        let limits = Limits::default();
        Self {
            fw: Firmware::new(Profile::connectx6(&limits, true), limits, IDENTITY),
            probe: Probe::new(),
            memory: TestMemory::new(4 << 20),
        }
    }

    /// After INIT_HCA.
    pub fn ready() -> Self {
        let mut fixture = Self::off();
        fixture.ok(Opcode::ENABLE_HCA, 0, 0x10, 0xc, |_| {});
        fixture.ok(Opcode::INIT_HCA, 0, 0x20, 0x10, |_| {});
        fixture
    }

    /// Carries out one command; `fill` writes what follows the header.
    pub fn run(
        &mut self,
        opcode: Opcode,
        op_mod: u16,
        inlen: usize,
        outlen: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> (Status, Vec<u8>) {
        let mut input = vec![0; inlen];
        let mut header = MboxIn(&mut input[..]);
        header.set_opcode(opcode.0);
        header.set_op_mod(op_mod);
        fill(&mut input);
        let mut output = vec![0; outlen];
        CommandExecutor { firmware: &mut self.fw, probe: &self.probe }.execute(
            &self.memory,
            &input,
            &mut output,
        );
        (Status(MboxOut(&output).status()), output)
    }

    /// The same for a command that must succeed.
    pub fn ok(
        &mut self,
        opcode: Opcode,
        op_mod: u16,
        inlen: usize,
        outlen: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Vec<u8> {
        let (status, output) = self.run(opcode, op_mod, inlen, outlen, fill);
        assert_eq!(status, Status::OK, "{opcode}: {:?}", self.probe.mistakes());
        output
    }
}

//! The real card, in this process.
#![allow(dead_code, reason = "not every test file needs all of it")]

use dma::TestMemory;
use driver::mkey::{Access, Region};
use driver::{Card, Driver, InProcess};
use function::{Config, Function, Wake};

/// A function as the driver sees it.
pub struct FunctionCard(pub Function);

impl Card for FunctionCard {
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

/// The driver of a card in this process.
pub type TestDriver = Driver<InProcess<FunctionCard>>;

/// Guest memory.
pub const MEMORY: usize = 256 << 20;

/// A driver for a card that was just powered on.
pub fn driver(config: &Config) -> TestDriver {
    Driver::new(InProcess::new(FunctionCard(Function::new(config)), MEMORY))
}

/// Configurations under which everything must work: memory registered by work request and by
/// command.
pub fn configs() -> [Config; 2] {
    [Config::default(), Config { umr: false, ..Config::default() }]
}

/// What the card says over the control socket.
pub fn ask(driver: &mut TestDriver, request: control::Request) -> serde_json::Value {
    let InProcess { card: FunctionCard(function), memory, .. } = &mut driver.port;
    function.control(memory, &request).expect("the card answers")
}

/// How many objects of each kind there are.
pub fn objects(driver: &mut TestDriver) -> std::collections::BTreeMap<String, u64> {
    let status = ask(driver, control::Request::Status {});
    serde_json::from_value::<control::Status>(status).expect("a status").objects
}

/// `count` pages of guest memory, registered as a driver would at `start`.
pub fn region(driver: &mut TestDriver, pd: u32, start: u64, count: usize) -> Region {
    let pages = (0..count).map(|_| driver.memory.alloc(4096).expect("guest memory")).collect();
    let len = count as u64 * 4096 - (start & 4095);
    Region { start, len, log_page_size: 12, pages, pd, access: Access::ALL }
}

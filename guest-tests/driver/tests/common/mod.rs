//! The real card, in this process.
#![allow(dead_code, reason = "not every test file needs all of it")]

use dma::TestMemory;
use driver::cq::CompletionQueue;
use driver::mkey::{Access, Region};
use driver::qp::{QueuePair, Receive, Shape};
use driver::{Card, Driver, InProcess, RdmaDevice};
use function::{Config, Function, Wake};
use layouts::QpType;

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

/// `count` pages of guest memory, whatever is in it, no two neighbours in the list adjacent.
pub fn spread(pd: u32, start: u64, count: usize) -> Region {
    let pages = (0..count as u64).map(|n| ((n ^ 1) << 13) % MEMORY as u64).collect();
    let len = count as u64 * 4096 - (start & 4095);
    Region { start, len, log_page_size: 12, pages, pd, access: Access::ALL }
}

/// The pieces of memory that a region is, in order.
pub fn expected(region: &Region) -> Vec<(u64, u64)> {
    let head = region.start & 4095;
    let mut left = region.len;
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    for (n, &page) in region.pages.iter().enumerate() {
        let offset = if n == 0 { head } else { 0 };
        let len = left.min(4096 - offset);
        left -= len;
        pieces.push((page + offset, len));
    }
    pieces
}

/// What the card says that all of a region is through a key, or why it refuses.
pub fn translate(
    driver: &mut TestDriver,
    key: u32,
    region: &Region,
) -> Result<Vec<(u64, u64)>, String> {
    let mut all = Vec::new();
    loop {
        let reply = ask(
            driver,
            control::Request::Translate {
                key: control::Hex(key.into()),
                address: control::Hex(region.start),
                length: control::Hex(region.len),
                access: control::Access::LocalWrite,
                pd: Some(region.pd),
                skip: all.len() as u64,
                limit: 8192,
            },
        );
        match serde_json::from_value(reply).expect("a translation") {
            control::Translation::Pieces { pieces, more } => {
                all.extend(pieces.into_iter().map(|piece| (piece.address.0, piece.length.0)));
                if !more {
                    return Ok(all);
                }
            }
            control::Translation::Refused { reason, .. } => return Err(reason),
        }
    }
}

/// A queue pair and its completion queue.
pub fn create(
    driver: &mut TestDriver,
    device: &RdmaDevice,
    pd: u32,
    kind: QpType,
) -> (QueuePair, CompletionQueue) {
    let cq = driver.create_cq(device.uar, device.completion_eqn, 6).expect("the card makes it");
    let shape = Shape {
        kind,
        pd,
        uar: device.uar,
        cqns: [cq.cqn; 2],
        log_sq_size: 6,
        receive: Receive::Own { log_size: 4, log_stride: 5 },
        spare_srqn: device.spare_srqn(),
    };
    (driver.create_qp(shape).expect("the card makes it"), cq)
}

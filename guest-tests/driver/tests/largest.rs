//! The largest registration that is supported: 64 Mi translation entries, 256 GiB of memory in pages
//! of 4 KiB.

mod common;

use common::{FunctionCard, TestDriver, translate};
use driver::mkey::{Access, Region};
use driver::{Driver, InProcess};
use function::{Config, Function};

const ENTRIES: u64 = 64 << 20;
/// Guest memory, of which only what is written takes room here: mailboxes, and pages that the card
/// asks for.
const MEMORY: usize = 4 << 30;
const START: u64 = 0x7f00_0000_0000;

/// Page `n` of the region: somewhere in memory, neighbours far apart.
fn page(n: u64) -> u64 {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % MEMORY as u64) & !4095
}

fn register(umr: bool) {
    let card = FunctionCard(Function::new(&Config { umr, ..Config::default() }));
    let mut driver: TestDriver = Driver::new(InProcess::new(card, MEMORY));
    let mut device = driver.power_on().unwrap();
    let pd = driver.alloc_pd().unwrap();
    let region = Region {
        start: START,
        len: ENTRIES << 12,
        log_page_size: 12,
        pages: (0..ENTRIES).map(page).collect(),
        pd,
        access: Access::ALL,
    };
    let registered = driver.register(&mut device, &region).unwrap();
    for n in [0, 1, 131_063, 131_064, ENTRIES / 2, ENTRIES - 1] {
        let start = START + (n << 12) + 8;
        let asked = Region { start, len: 16, pages: Vec::new(), ..region };
        let pieces = translate(&mut driver, registered.key, &asked).unwrap();
        assert_eq!(pieces, [(page(n) + 8, 16)], "page {n}");
    }
    let behind =
        Region { start: START + (ENTRIES << 12) - 8, len: 16, pages: Vec::new(), ..region };
    let refused = translate(&mut driver, registered.key, &behind).unwrap_err();
    assert_eq!(refused, "out_of_bounds");

    // There is no second one of that size.
    driver.register(&mut device, &region).unwrap_err();
    driver.deregister(&mut device, registered).unwrap();
    driver.dealloc_pd(pd).unwrap();
    driver.power_off(device).unwrap();
    assert!(driver.pages.given.is_empty());
}

#[test]
fn by_work_requests() {
    register(true);
}

#[test]
#[ignore = "takes 3 GiB of memory: the command is half a GiB, in a million mailboxes"]
fn by_one_command() {
    register(false);
}

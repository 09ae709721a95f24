//! From power-on to a registered key and back, against the real card.

mod common;

use std::collections::HashSet;

use common::{configs, driver, expected, objects, region, spread, translate};
use driver::mkey::{Access, Region};
use driver::{Driver, Error};
use layouts::{AllocPdIn, AllocPdOut, Opcode, Status};

#[test]
fn the_core_driver_comes_up_and_goes_down() {
    for config in configs() {
        let mut driver = driver(&config);
        for round in 0..3 {
            let core = driver.boot().unwrap_or_else(|error| panic!("round {round}: {error}"));
            driver.shut_down(core).unwrap();
            assert_eq!(driver.memory.used(), 0, "every page is back");
        }
    }
}

#[test]
fn the_rdma_driver_comes_up_and_goes_down() {
    for config in configs() {
        let mut driver = driver(&config);
        let before = objects(&mut driver);
        for _ in 0..2 {
            let device = driver.power_on().unwrap();
            driver.power_off(device).unwrap();
            assert_eq!(driver.memory.used(), 0, "every page is back");
            assert_eq!(objects(&mut driver), before);
        }
    }
}

/// For every registration the card's translation is the pages that were registered, in order.
#[test]
fn memory_is_registered() {
    for config in configs() {
        let mut driver = driver(&config);
        let mut device = driver.power_on().unwrap();
        let pd = driver.alloc_pd().unwrap();
        // The last one takes several UMRs: its translations are 2 MiB.
        for (start, count) in [
            (0x7f00_0000_1080, 4),
            (0x7f00_0000_1000, 1),
            (0x1fff, 2),
            (0, 7),
            (0x7f00_0000_0001, 512),
            (0x7f00_0000_0000, 1000),
            (0x10_0000_0000, 1 << 18),
        ] {
            let region = spread(pd, start, count);
            let registered = driver.register(&mut device, &region).unwrap();
            let pieces = translate(&mut driver, registered.key, &region).unwrap();
            assert_eq!(pieces, expected(&region), "{count} pages at {start:#x}");

            driver.deregister(&mut device, registered).unwrap();
            let gone = translate(&mut driver, registered.key, &region).unwrap_err();
            let reason = if config.umr { "free_key" } else { "no_such_key" };
            assert_eq!(gone, reason);
        }
        driver.dealloc_pd(pd).unwrap();
        driver.power_off(device).unwrap();
    }
}

/// The vector of Appendix E: an address in the second page of a region that begins inside one.
#[test]
fn an_address_inside_a_region_is_in_its_page() {
    for config in configs() {
        let mut driver = driver(&config);
        let mut device = driver.power_on().unwrap();
        let pd = driver.alloc_pd().unwrap();
        let region = Region {
            start: 0x7f00_0000_1080,
            len: 0x3000,
            ..region(&mut driver, pd, 0x7f00_0000_1080, 4)
        };
        let registered = driver.register(&mut device, &region).unwrap();
        let asked = Region { start: 0x7f00_0000_2000, len: 1, ..region.clone() };
        let pieces = translate(&mut driver, registered.key, &asked).unwrap();
        assert_eq!(pieces, [(region.pages[1], 1)]);
    }
}

/// A boot touches nothing that the card does not model, and makes no mistakes in its eyes.
#[test]
fn a_boot_leaves_the_burn_down_list_empty() {
    for config in configs() {
        let mut driver = driver(&config);
        let device = driver.power_on().unwrap();
        driver.power_off(device).unwrap();
        let missing = common::ask(&mut driver, control::Request::Missing {});
        let missing: control::Missing = serde_json::from_value(missing).unwrap();
        assert_eq!(missing.touched, Default::default());
    }
}

/// Keys without end: the card asks for pages by event, and gets them, until the driver has made
/// as many as the stock driver's cache; in the end all of them come back.
#[test]
fn pages_are_given_when_the_card_asks() {
    let mut driver = driver(&configs()[0]);
    let device = driver.power_on().unwrap();
    let at_boot = driver.pages.given.len();
    let pd = driver.alloc_pd().unwrap();
    let pages: Vec<u64> = vec![0x10_0000; 512];
    let region =
        Region { start: 0, len: 512 * 4096, log_page_size: 12, pages, pd, access: Access::ALL };
    let keys: Vec<u32> = (0..6120).map(|_| driver.create_mtt_key(&region).unwrap()).collect();
    assert!(driver.pages.given.len() > at_boot, "the card asked for pages");
    assert!(driver.pages.given.len() as u64 * 4096 >= 6120 * 512 * 8, "and for enough of them");
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    for key in keys {
        driver.destroy_mkey(key).unwrap();
    }
    driver.dealloc_pd(pd).unwrap();
    driver.power_off(device).unwrap();
    assert!(driver.pages.given.is_empty());
}

/// 31 commands in flight, completed by event, each with its own output.
#[test]
fn many_commands_in_flight() {
    let mut driver = driver(&configs()[0]);
    let device = driver.power_on().unwrap();
    for _ in 0..100 {
        let mut input = [0; AllocPdIn::SIZE];
        AllocPdIn(&mut input[..]).set_opcode(Opcode::ALLOC_PD.0);
        let slots: Vec<u8> =
            (0..31).map(|_| driver.submit(&input, AllocPdOut::SIZE).unwrap()).collect();
        let pds: HashSet<u32> = slots
            .into_iter()
            .rev()
            .map(|slot| AllocPdOut(&driver.complete(slot).unwrap()[..]).pd())
            .collect();
        assert_eq!(pds.len(), 31);
        for pd in pds {
            driver.dealloc_pd(pd).unwrap();
        }
    }
    driver.power_off(device).unwrap();
}

/// A reset in the middle of anything: the card is as new, and the next driver comes up.
#[test]
fn after_a_reset_the_card_is_as_new() {
    for config in configs() {
        let mut first = driver(&config);
        let before = objects(&mut first);
        let mut device = first.power_on().unwrap();
        let pd = first.alloc_pd().unwrap();
        let region = region(&mut first, pd, 0x1000, 100);
        first.register(&mut device, &region).unwrap();
        let mut port = first.port;
        port.card.0.reset();
        let mut second = Driver::new(port);
        assert_eq!(objects(&mut second), before);
        let device = second.power_on().unwrap();
        second.power_off(device).unwrap();
        assert_eq!(objects(&mut second), before);
    }
}

#[test]
fn clocks_run() {
    let mut driver = driver(&configs()[0]);
    driver.wait_fw_init().unwrap();
    let (healthy, beats) = driver.health().unwrap();
    let ticks = driver.timer().unwrap();
    driver.port.now += 2_000_000_000;
    let (still_healthy, more_beats) = driver.health().unwrap();
    assert!(healthy && still_healthy);
    assert_ne!(beats, more_beats);
    assert_eq!(driver.timer().unwrap() - ticks, 2 * 156_250_000, "2 s at 156.25 MHz");
}

#[test]
fn wrong_commands_are_refused_with_their_status() {
    let mut driver = driver(&configs()[0]);
    let device = driver.power_on().unwrap();
    let refused = |result: driver::Result<()>| match result {
        Err(Error::Command { status, .. }) => status,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(driver.dealloc_pd(0xabcdef)), Status::BAD_RES);
    assert_eq!(refused(driver.destroy_mkey(0xabcdef00)), Status::BAD_RES);
    assert_eq!(refused(driver.enable_hca()), Status::BAD_SYS_STATE);
    let unknown = driver.exec(Opcode(0xfff), 0, [0; 16], 16).map(drop);
    assert_eq!(refused(unknown), Status::BAD_OP);
    let short = driver.exec(Opcode::CREATE_MKEY, 0, [0; 16], 16).map(drop);
    assert_eq!(refused(short), Status::BAD_INPUT_LEN);
    driver.power_off(device).unwrap();
}

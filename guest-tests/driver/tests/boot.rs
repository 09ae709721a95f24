//! From power-on to a registered key and back, against the real card.

mod common;

use common::{configs, driver, objects, region};

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

#[test]
fn memory_is_registered() {
    for config in configs() {
        let mut driver = driver(&config);
        let mut device = driver.power_on().unwrap();
        let pd = driver.alloc_pd().unwrap();
        for count in [1, 2, 7, 512, 1000] {
            let region = region(&mut driver, pd, 0x7f00_0000_1080, count);
            let registered = driver.register(&mut device, &region).unwrap();
            driver.deregister(&mut device, registered).unwrap();
        }
        driver.dealloc_pd(pd).unwrap();
        driver.power_off(device).unwrap();
    }
}

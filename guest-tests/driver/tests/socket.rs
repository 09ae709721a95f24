//! The same from power-on to a registered key, over a vfio-user socket: registers in messages,
//! memory in a file, interrupts as eventfds.

mod common;

use std::path::PathBuf;
use std::thread::JoinHandle;

use common::configs;
use control::{Client, Request, Status, Translation};
use device::server::{Options, Server, Stopper};
use driver::Driver;
use driver::mkey::{Access, Region};
use driver::vfio_user::VfioUser;
use function::Config;
use tempfile::TempDir;

/// Guest memory.
const MEMORY: u64 = 64 << 20;

/// A server on a thread of its own, as `mlx5emu serve` runs one.
struct Serving {
    directory: TempDir,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    fn new(config: &Config) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::bind(Options {
            socket: directory.path().join("card"),
            control: Some(directory.path().join("control")),
            record: None,
            metrics: None,
            trace: None,
            config: config.clone(),
        })
        .unwrap();
        let stopper = server.stopper();
        let thread = std::thread::spawn(move || {
            server.run().unwrap();
        });
        Self { directory, stopper, thread: Some(thread) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn connect(&self) -> Driver<VfioUser> {
        Driver::new(VfioUser::connect(&self.path("card"), MEMORY).unwrap())
    }

    fn ask<T: serde::de::DeserializeOwned>(&self, request: Request) -> T {
        let mut client = Client::connect(&self.path("control")).unwrap();
        client.ask(request).unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the server panicked");
        }
    }
}

#[test]
fn a_key_is_registered_over_the_socket() {
    for config in configs() {
        let serving = Serving::new(&config);
        let mut driver = serving.connect();
        let mut device = driver.power_on().unwrap();
        let pd = driver.alloc_pd().unwrap();
        let pages: Vec<u64> = (0..100).map(|_| driver.memory.alloc(4096).unwrap()).collect();
        let region = Region {
            start: 0x7f00_0000_1080,
            len: 99 * 4096,
            log_page_size: 12,
            pages: pages.iter().rev().copied().collect(),
            pd,
            access: Access::ALL,
        };
        let registered = driver.register(&mut device, &region).unwrap();
        let translation: Translation = serving.ask(Request::Translate {
            key: control::Hex(registered.key.into()),
            address: control::Hex(region.start),
            length: control::Hex(region.len),
            access: control::Access::LocalWrite,
            pd: Some(pd),
            skip: 0,
            limit: 1000,
        });
        let Translation::Pieces { pieces, more: false } = translation else {
            panic!("{translation:?}")
        };
        let pieces: Vec<_> = pieces.iter().map(|piece| (piece.address.0, piece.length.0)).collect();
        assert_eq!(pieces, common::expected(&region));
        driver.deregister(&mut device, registered).unwrap();
        driver.dealloc_pd(pd).unwrap();
        driver.power_off(device).unwrap();
        let status: Status = serving.ask(Request::Status {});
        assert_eq!(status.objects.values().sum::<u64>(), 0, "{status:?}");
        assert_eq!(status.pages, 0);
    }
}

/// The next client finds the card as new, however the one before left it.
#[test]
fn one_client_after_another() {
    let serving = Serving::new(&Config::default());
    for round in 0..3 {
        let mut driver = serving.connect();
        driver.power_on().unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
    let status: Status = serving.ask(Request::Status {});
    assert_eq!(status.connections, 3);
}

#[test]
fn a_reset_over_the_socket() {
    let serving = Serving::new(&Config::default());
    let mut driver = serving.connect();
    driver.power_on().unwrap();
    let mut port = driver.port;
    port.reset().unwrap();
    let mut driver = Driver::new(port);
    let device = driver.power_on().unwrap();
    driver.power_off(device).unwrap();
}

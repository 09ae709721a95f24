//! A server that runs in a thread.

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use control::{Client as ControlClient, Request, Status};
use device::server::{Ended, Options, ServeError, Server, Stopper};
use function::Config;
use tempfile::TempDir;
use vfio_user::Client;

/// Regions and interrupts as `<linux/vfio.h>` counts them.
pub const BAR0: u32 = 0;
pub const CONFIG: u32 = 7;

/// Command register: memory and bus mastering.
pub const COMMAND: u64 = 0x04;
pub const ON: [u8; 2] = [0x06, 0x00];

/// How long a test waits for what must happen at once.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Running {
    pub dir: TempDir,
    /// Where Prometheus may ask.
    pub metrics: Option<SocketAddr>,
    stopper: Stopper,
    thread: Option<JoinHandle<Result<Ended, ServeError>>>,
}

impl Running {
    /// A server with a control socket.
    pub fn start() -> Self {
        Self::start_with(|_| {})
    }

    /// A server with other options.
    pub fn start_with(change: impl FnOnce(&mut Options)) -> Self {
        Self::start_in_slot(None, change)
    }

    /// The same, and whoever reads `slot` can unplug the card.
    pub fn start_in_slot(slot: Option<File>, change: impl FnOnce(&mut Options)) -> Self {
        let dir = TempDir::new().unwrap();
        let mut options = Options {
            socket: dir.path().join("socket"),
            control: Some(dir.path().join("control")),
            record: None,
            metrics: None,
            trace: None,
            config: Config::default(),
        };
        change(&mut options);
        let mut server = Server::bind(options).unwrap();
        if let Some(slot) = slot {
            server.set_slot(slot);
        }
        let (stopper, metrics) = (server.stopper(), server.metrics_address());
        let thread = std::thread::spawn(move || server.run());
        Self { dir, metrics, stopper, thread: Some(thread) }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// A new vfio-user client.
    pub fn connect(&self) -> Client {
        Client::new(&self.socket()).expect("the server accepts a client")
    }

    /// A new client of the control socket.
    pub fn control(&self) -> ControlClient {
        ControlClient::connect(&self.dir.path().join("control")).expect("a control client")
    }

    /// What the control socket says.
    pub fn status(&self) -> Status {
        self.control().ask(Request::Status {}).unwrap()
    }

    /// Waits until the client is gone.
    pub fn wait_disconnected(&self) {
        wait("the client to be gone", || !self.status().connected);
    }

    /// Stops it as a signal would.
    pub fn stop(mut self) -> TempDir {
        self.stopper.stop();
        let thread = self.thread.take().unwrap();
        thread.join().unwrap().unwrap();
        std::mem::replace(&mut self.dir, TempDir::new().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            // A test that failed has said so.
            let _ = thread.join();
        }
    }
}

pub fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn read<const N: usize>(client: &mut Client, region: u32, offset: u64) -> [u8; N] {
    let mut data = [0x5a; N];
    client.region_read(region, offset, &mut data).unwrap();
    data
}

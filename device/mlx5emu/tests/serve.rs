//! `mlx5emu serve` as a process: it starts, serves client after client, is asked, and stops.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use control::{Client, Request, Status};
use driver::Driver;
use driver::vfio_user::VfioUser;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const MEMORY: u64 = 64 << 20;
/// How long a test waits for what must happen at once.
const PATIENCE: Duration = Duration::from_secs(60);

fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A process that is ended when the test ends.
struct Process(Child);

impl Process {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, signal).unwrap();
    }

    fn exit(&mut self) -> Option<i32> {
        wait("the process to end", || self.0.try_wait().unwrap()).code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Serve {
    dir: TempDir,
    process: Process,
}

impl Serve {
    /// Starts it and waits until it says that it is ready.
    fn start(options: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        let (ready, theirs) = std::io::pipe().unwrap();
        // A file that may not grow is to be an error, not a signal.
        let mut command = Command::new("sh");
        command
            .current_dir(dir.path())
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_mlx5emu")])
            .args(["serve", "--socket", "socket", "--control", "control", "--ready-fd", "3"])
            .args(options)
            .env_remove("MLX5EMU_LOG")
            .stderr(Stdio::piped());
        // SAFETY: between fork and exec only one system call is made.
        #[expect(unsafe_code, reason = "the only way to hand over a descriptor")]
        unsafe {
            command.pre_exec(move || {
                let mut three = std::mem::ManuallyDrop::new(
                    <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(3),
                );
                Ok(rustix::io::dup2(&theirs, &mut three)?)
            });
        }
        let process = Process(command.spawn().unwrap());
        // Our copy of the end that the server writes to.
        drop(command);
        let mut line = String::new();
        BufReader::new(ready).read_to_string(&mut line).unwrap();
        assert_eq!(line, "ready\n", "written and closed");
        Self { dir, process }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    fn status(&self) -> Status {
        let mut client = Client::connect(&self.dir.path().join("control")).unwrap();
        client.ask(Request::Status {}).unwrap()
    }

    fn wait_disconnected(&self) {
        wait("the client to be gone", || (!self.status().connected).then_some(()));
    }

    fn ctl(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_mlx5emu"))
            .current_dir(self.dir.path())
            .args(["ctl", "--control", "control"])
            .args(args)
            .output()
            .unwrap()
    }

    /// Open descriptors, and resident memory in pages.
    fn holds(&self) -> (usize, u64) {
        let proc = Path::new("/proc").join(self.process.0.id().to_string());
        let descriptors = std::fs::read_dir(proc.join("fd")).unwrap().count();
        let memory = std::fs::read_to_string(proc.join("statm")).unwrap();
        (descriptors, memory.split(' ').nth(1).unwrap().parse().unwrap())
    }

    /// Everything that it said.
    fn stop(mut self, signal: Signal) -> (Option<i32>, String, TempDir) {
        self.process.signal(signal);
        let status = self.process.exit();
        let mut said = String::new();
        self.process.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status, said, std::mem::replace(&mut self.dir, TempDir::new().unwrap()))
    }
}

fn boot(serve: &Serve) {
    let mut driver = Driver::new(VfioUser::connect(&serve.socket(), MEMORY).unwrap());
    let device = driver.power_on().unwrap();
    driver.power_off(device).unwrap();
}

#[test]
fn signals_end_it_in_order() {
    for signal in [Signal::TERM, Signal::INT] {
        let serve = Serve::start(&[]);
        drop(VfioUser::connect(&serve.socket(), MEMORY).unwrap());
        serve.wait_disconnected();
        let (status, said, dir) = serve.stop(signal);
        assert_eq!(status, Some(0));
        assert_eq!(said, "mlx5emu: serving socket\nmlx5emu: client 1 has connected\n");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the sockets are gone");
    }
    let serve = Serve::start(&["-q"]);
    assert_eq!(serve.stop(Signal::TERM).1, "");
}

#[test]
fn it_is_asked_by_ctl() {
    let serve = Serve::start(&[]);
    let text = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();

    let status = serve.ctl(&["status"]);
    assert_eq!(status.status.code(), Some(0));
    assert!(text(&status).contains("client   none (0 so far)"), "{}", text(&status));
    let status = serve.ctl(&["status", "--json"]);
    let status: Status = serde_json::from_slice(&status.stdout).unwrap();
    assert!(!status.connected);

    let mut driver = Driver::new(VfioUser::connect(&serve.socket(), MEMORY).unwrap());
    let mut device = driver.power_on().unwrap();
    let pd = driver.alloc_pd().unwrap();
    let pages = vec![driver.memory.alloc(4096).unwrap()];
    let region = driver::mkey::Region {
        start: 0x10080,
        len: 0x100,
        log_page_size: 12,
        pages: pages.clone(),
        pd,
        access: driver::mkey::Access::ALL,
    };
    let key = driver.register(&mut device, &region).unwrap().key.to_string();
    let hex = format!("{:#x}", key.parse::<u32>().unwrap());

    let mkey = serve.ctl(&["mkey", &key]);
    assert_eq!(mkey.status.code(), Some(0));
    assert!(text(&mkey).contains(&hex) && text(&mkey).contains("MTT"), "{}", text(&mkey));
    let mkeys = serve.ctl(&["mkeys", "--live"]);
    assert!(text(&mkeys).lines().any(|line| line.starts_with(&hex)), "{}", text(&mkeys));
    assert!(text(&mkeys).ends_with(" keys\n"));
    let all: control::MkeyPage =
        serde_json::from_slice(&serve.ctl(&["mkeys", "--json"]).stdout).unwrap();
    assert_eq!(all.keys.len() as u64, serve.status().objects["mkey"]);

    let found = serve.ctl(&["translate", &key, "0x10080", "256", "remote-write"]);
    assert_eq!(found.status.code(), Some(0));
    assert_eq!(
        text(&found).split_whitespace().collect::<Vec<_>>(),
        [format!("{:#x}", pages[0] + 0x80), "0x100".into()]
    );
    let refused = serve.ctl(&["translate", &key, "0x10080", "257", "local-read"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).starts_with("refused: out_of_bounds"), "{}", text(&refused));

    let none = serve.ctl(&["mkey", "0xfffffff0"]);
    assert_eq!(none.status.code(), Some(1));
    assert_eq!(String::from_utf8(none.stderr).unwrap().lines().count(), 1);
    assert_eq!(serve.ctl(&["missing"]).status.code(), Some(0));
}

#[test]
fn ctl_finds_the_only_one() {
    let runtime = TempDir::new().unwrap();
    let dir = TempDir::new().unwrap();
    let mlx5emu = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mlx5emu"));
        command.env("XDG_RUNTIME_DIR", runtime.path()).current_dir(dir.path());
        command
    };
    let start = |socket: &str| {
        let mut process = mlx5emu();
        let process = process.args(["serve", "--socket", socket]).stderr(Stdio::piped());
        let mut process = Process(process.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(process.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("serving"), "{line}");
        process
    };
    let ask = || mlx5emu().args(["ctl", "status"]).output().unwrap();
    let mut first = start("first");
    assert_eq!(ask().status.code(), Some(0));
    let second = start("second");
    let output = ask();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("2 running instances"));
    // One that was killed leaves its sockets; they are not taken for a running one.
    first.0.kill().unwrap();
    first.exit();
    assert_eq!(ask().status.code(), Some(0));
    drop(second);
}

/// Not a test: the process that the next one kills. It boots the card and then only holds it.
#[test]
#[ignore = "a part of the next test"]
fn a_client_to_be_killed() {
    let socket = std::env::var_os("MLX5EMU_TEST_SOCKET").expect("started by the next test");
    let mut driver = Driver::new(VfioUser::connect(Path::new(&socket), MEMORY).unwrap());
    let _device = driver.power_on().unwrap();
    loop {
        std::thread::sleep(PATIENCE);
    }
}

#[test]
fn clients_that_are_killed_leave_nothing_behind() {
    let serve = Serve::start(&[]);
    let (descriptors, _) = serve.holds();
    let mut before = 0;
    for round in 1..=8 {
        let client = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_client_to_be_killed", "--ignored", "--nocapture"])
            .env("MLX5EMU_TEST_SOCKET", serve.socket())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut client = Process(client);
        wait("the client to have booted the card", || {
            let status = serve.status();
            (status.connections == 2 * round - 1 && status.state == "ready").then_some(())
        });
        client.signal(Signal::KILL);
        client.exit();
        serve.wait_disconnected();
        boot(&serve);
        serve.wait_disconnected();
        // The control socket's clients, too, are noticed to be gone a little later.
        wait("all descriptors to be given back", || (serve.holds().0 == descriptors).then_some(()));
        let (_, pages) = serve.holds();
        if round < 4 {
            // The first rounds warm up what the allocator keeps.
            before = pages;
        }
        let grown = pages.saturating_sub(before) * 4096;
        assert!(grown < 1 << 20, "{grown} bytes more after round {round}");
    }
}

#[test]
fn a_recording_is_replayed() {
    let serve = Serve::start(&["--record", "recording"]);
    boot(&serve);
    serve.wait_disconnected();
    let (status, _, dir) = serve.stop(Signal::TERM);
    assert_eq!(status, Some(0));
    let replay = || {
        Command::new(env!("CARGO_BIN_EXE_mlx5emu"))
            .current_dir(dir.path())
            .args(["replay", "recording"])
            .output()
            .unwrap()
    };
    let same = replay();
    let text = String::from_utf8(same.stdout).unwrap();
    assert_eq!(same.status.code(), Some(0), "{text}");
    assert!(text.ends_with("calls, every output the same\n"), "{text}");
    assert_eq!(String::from_utf8(same.stderr).unwrap(), "");

    let path = dir.path().join("recording");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 5]).unwrap();
    let torn = replay();
    assert_eq!(torn.status.code(), Some(0));
    assert!(String::from_utf8(torn.stdout).unwrap().contains("cut off"));

    let mut damaged = whole;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let damaged = replay();
    assert_eq!(damaged.status.code(), Some(2));
    assert!(String::from_utf8(damaged.stderr).unwrap().contains("damaged"));
}

/// A file system that is full: the recording can't go on, so the server does not either.
#[test]
fn a_recording_that_can_not_be_written_ends_it() {
    let mut serve = Serve::start(&["--record", "recording"]);
    // As a full disk does, but without one: the file may not grow.
    let limit = rustix::process::Rlimit { current: Some(100_000), maximum: Some(100_000) };
    let pid = Pid::from_child(&serve.process.0);
    rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, limit).unwrap();
    let mut driver = Driver::new(VfioUser::connect(&serve.socket(), MEMORY).unwrap());
    assert!(driver.power_on().is_err(), "the card goes away");
    assert_eq!(serve.process.exit(), Some(1));
    let mut said = String::new();
    serve.process.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("the recording cannot be written"), "{said}");
}

//! `serve --trace` and what shows the file, as processes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use driver::Driver;
use driver::vfio_user::VfioUser;
use serde_json::Value;
use tempfile::TempDir;

const MEMORY: u64 = 64 << 20;
/// How long a test waits for what must happen at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that is killed when the test ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mlx5emu"));
    command.args(args).env_remove("XDG_RUNTIME_DIR").env_remove("MLX5EMU_LOG");
    command
}

/// What a command that must succeed prints.
fn printed(args: &[&str]) -> String {
    let Output { status, stdout, stderr } = command(args).output().unwrap();
    let error = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{args:?}: {status}: {error}");
    String::from_utf8(stdout).unwrap()
}

fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Card {
    dir: TempDir,
    process: Process,
}

impl Card {
    fn start(options: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let (socket, control, trace) = (path("socket"), path("control"), path("trace"));
        let args = ["serve", "--socket", &socket, "--control", &control, "--trace", &trace];
        let child = command(&args).args(options).stderr(Stdio::null()).spawn().unwrap();
        let card = Self { process: Process(child), dir };
        wait("the card", || card.path("control").exists());
        card
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn ctl(&self, args: &[&str]) -> String {
        let control = self.path("control");
        printed(&[&["ctl", "--control", control.to_str().unwrap()], args].concat())
    }

    /// A driver from power-on to power-off.
    fn session(&self) {
        let mut driver = Driver::new(VfioUser::connect(&self.path("socket"), MEMORY).unwrap());
        let device = driver.power_on().unwrap();
        driver.power_off(device).unwrap();
        drop(driver);
        wait("the client to be gone", || self.ctl(&["status"]).contains("client   none"));
    }
}

fn show(file: &Path, args: &[&str]) -> String {
    printed(&[&["trace", file.to_str().unwrap()], args].concat())
}

#[test]
fn a_trace_survives_a_kill_and_is_shown_in_every_way() {
    let mut card = Card::start(&["--trace-level", "commands"]);
    let file = card.path("trace");
    assert!(card.ctl(&["trace"]).contains("level    commands"));
    card.session();
    assert!(card.ctl(&["trace", "level", "all"]).contains("level    all"));
    card.session();
    // The writer looks after what was noted by itself.
    let is_there = |what: &str| show(&file, &[]).contains(what);
    wait("the second session", || is_there("register_write") && is_there("DISABLE_HCA"));
    card.process.0.kill().unwrap();
    card.process.0.wait().unwrap();

    let text = show(&file, &[]);
    assert!(text.contains("-- traced from here: all, filter none --"), "{text}");
    assert!(!text.contains('\u{1b}'), "colours are for terminals");
    let lines = text.lines().filter(|line| line.contains("command         INIT_HCA")).count();
    assert_eq!(lines, 2);
    let matched = show(&file, &["--match", "reply.opcode=ENABLE_HCA", "--full"]);
    assert_eq!(matched.matches("reply ").count(), 2, "{matched}");
    assert!(matched.contains("    status = OK\n"), "{matched}");
    let json = show(&file, &["--json", "--match", "point=command"]);
    for line in json.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        assert!(value["settings"].is_object() || value["names"]["opcode"].is_string(), "{line}");
    }
    let out = card.path("out.json");
    show(&file, &["--perfetto", out.to_str().unwrap()]);
    let perfetto: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert!(perfetto["traceEvents"].as_array().unwrap().len() > 100);
}

#[test]
fn a_running_card_is_looked_into() {
    let card = Card::start(&["--trace-filter", "command.opcode=CREATE_MKEY"]);
    let mut driver = Driver::new(VfioUser::connect(&card.path("socket"), MEMORY).unwrap());
    let device = driver.power_on().unwrap();
    let tree = card.ctl(&["inspect"]);
    for part in ["capabilities", "log_max_qp", "eqs", "mkeys", "port"] {
        assert!(tree.contains(part), "no {part} in {tree}");
    }
    let eqs: Value = serde_json::from_str(&card.ctl(&["--json", "inspect", "eqs"])).unwrap();
    assert!(eqs["values"]["count"].as_u64().unwrap() > 0, "{eqs}");
    let screen = card.ctl(&["watch", "--interval", "0.1", "--count", "2"]);
    assert_eq!(screen.matches("work requests").count(), 2, "{screen}");
    assert!(card.ctl(&["trace"]).contains("filter   command.opcode=CREATE_MKEY"));
    driver.power_off(device).unwrap();
}

#[test]
fn a_trace_is_followed() {
    let card = Card::start(&[]);
    let file = card.path("trace");
    wait("the header", || file.metadata().is_ok_and(|it| it.len() > 12));
    let output = card.path("followed");
    let args = ["trace", file.to_str().unwrap(), "--follow", "--match", "command.opcode=INIT_HCA"];
    let to = std::fs::File::create(&output).unwrap();
    let _process = Process(command(&args).stdout(to).spawn().unwrap());
    let lines = || std::fs::read_to_string(&output).unwrap().lines().count();
    for session in 1..=2 {
        card.session();
        wait("the line", || lines() == session);
    }
}

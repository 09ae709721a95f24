//! The program's command line: what is wrong is said in one line, and the exit status says which kind it is.

use std::process::{Command, Output};

use tempfile::TempDir;

fn mlx5emu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mlx5emu"))
        .args(args)
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("MLX5EMU_LOG")
        .output()
        .unwrap()
}

/// It must end with `status` and say one line that holds `message`.
fn refused(args: &[&str], status: i32, message: &str) {
    let Output { status: got, stdout, stderr } = mlx5emu(args);
    let error = String::from_utf8(stderr).unwrap();
    assert_eq!(got.code(), Some(status), "{args:?}: {error}");
    assert_eq!(String::from_utf8(stdout).unwrap(), "", "{args:?}");
    assert!(error.starts_with("mlx5emu: ") && error.contains(message), "{args:?}: {error}");
    assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
}

#[test]
fn bad_usage() {
    refused(&[], 2, "no command given");
    refused(&["dance"], 2, "unrecognized subcommand 'dance'");
    refused(&["serve"], 2, "--socket <PATH>");
    refused(&["serve", "--socket", "x", "--speed", "9"], 2, "unexpected argument '--speed'");
    refused(&["serve", "--socket", "x", "--ready-fd", "no"], 2, "invalid value 'no'");
    refused(&["-v", "-q", "serve", "--socket", "x"], 2, "cannot be used with");
    refused(&["run", "--no-such-option"], 125, "unexpected argument");
    refused(&["-v", "run", "--no-such-option"], 125, "unexpected argument");
    refused(&["ctl", "mkey", "0x100000000"], 2, "a key has 32 bits");
    refused(&["ctl", "mkey", "0xg"], 2, "not a number");
    refused(&["ctl", "translate", "1", "2", "3", "execute"], 2, "invalid value 'execute'");
    refused(&["replay"], 2, "<FILE>");
}

#[test]
fn help_and_version_are_no_errors() {
    for args in [&["--help"][..], &["--version"], &["serve", "--help"], &["ctl", "--help"]] {
        let output = mlx5emu(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn cards_that_do_not_exist() {
    let serve = ["serve", "--socket", "/nowhere/socket"];
    let with = |more: &[&'static str]| [&serve[..], more].concat();
    refused(
        &with(&["--profile", "connectx-7"]),
        2,
        "no profile \"connectx-7\" yet, only connectx-6",
    );
    refused(&with(&["--link", "eth"]), 2, "no link \"eth\" yet, only ib");
    refused(&with(&["--config", "/nowhere/card.toml"]), 2, "cannot read /nowhere/card.toml");
    let dir = TempDir::new().unwrap();
    let config = dir.path().join("card.toml");
    std::fs::write(&config, "[identity]\nlid = 0\n").unwrap();
    let config = config.to_str().unwrap();
    refused(&["serve", "--socket", "x", "--config", config], 2, "card.toml:2: lid must be");
}

#[test]
fn sockets_that_can_not_be_made() {
    refused(&["serve", "--socket", "/nowhere/socket"], 2, "/nowhere/socket");
    refused(&["serve", "--socket", &format!("/tmp/{}", "x".repeat(120))], 2, "107");
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    refused(&["serve", "--socket", file.to_str().unwrap()], 2, "file");
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    let socket = dir.path().join("socket");
    let socket = socket.to_str().unwrap();
    let control = ["serve", "--socket", socket, "--control"];
    refused(&[&control[..], &["/nowhere/control"]].concat(), 2, "/nowhere/control");
    refused(&["serve", "--socket", socket, "--record", file.to_str().unwrap()], 2, "file");
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    refused(&["serve", "--socket", socket, "--ready-fd", "1"], 2, "--ready-fd");
    refused(&["serve", "--socket", socket, "--ready-fd", "999"], 2, "--ready-fd");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(left, [file], "nothing is left behind");
}

#[test]
fn nobody_to_ask() {
    refused(&["ctl", "status"], 2, "XDG_RUNTIME_DIR is not set");
    refused(&["ctl", "--control", "/nowhere/control", "status"], 2, "/nowhere/control");
    let dir = TempDir::new().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_mlx5emu"))
        .args(["ctl", "status"])
        .env("XDG_RUNTIME_DIR", dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no running instance"));
}

#[test]
fn nothing_to_replay() {
    refused(&["replay", "/nowhere/recording"], 2, "cannot read /nowhere/recording");
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("recording");
    std::fs::write(&file, "something else").unwrap();
    refused(&["replay", file.to_str().unwrap()], 2, "not a trace or recording of mlx5emu");
}

#[test]
fn arguments_for_qemu() {
    let output = mlx5emu(&["serve", "--socket", "/run/card.socket", "--print-qemu-args"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.lines()
            .any(|line| line.contains("vfio-user-pci") && line.contains("/run/card.socket"))
    );
    assert!(text.lines().any(|line| line.starts_with("pcie-root-port,")));
}

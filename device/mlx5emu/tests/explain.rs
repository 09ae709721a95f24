//! `mlx5emu explain` without a guest: it tells again what was captured, and refuses what it can't do.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use flate2::read::GzDecoder;

fn explain(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mlx5emu")).arg("explain").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The sample as `--keep` left it.
fn kept(place: &Path) {
    for (name, packed) in [
        ("guest", &include_bytes!("../../../guest-tests/explain/tests/sample/guest.gz")[..]),
        (
            "card.trace",
            &include_bytes!("../../../guest-tests/explain/tests/sample/card.trace.gz")[..],
        ),
    ] {
        let mut file = fs::File::create(place.join(name)).unwrap();
        std::io::copy(&mut GzDecoder::new(packed), &mut file).unwrap();
    }
}

#[test]
fn what_was_kept_is_told_again() {
    let place = tempfile::tempdir().unwrap();
    kept(place.path());
    let page = place.path().join("page.html");
    let from = place.path().to_str().unwrap();
    let told = explain(&["--from", from, "--html", page.to_str().unwrap()]);
    assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
    let tree = text(&told.stdout);
    assert!(tree.contains("ibv_reg_mr") && tree.contains("pinned: 17 pages"), "{tree}");
    assert!(!tree.contains('\x1b'), "no colours in a pipe");
    assert_eq!(fs::metadata(&page).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&page).unwrap().starts_with("<!doctype html>"));

    let everything = text(&explain(&["--from", from, "--all"]).stdout);
    assert!(everything.lines().count() > 2 * tree.lines().count());
}

#[test]
fn what_can_not_be_told_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let missing = explain(&["--from", place.path().to_str().unwrap()]);
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing.stderr));
    kept(place.path());
    fs::write(place.path().join("guest"), "something else").unwrap();
    let damaged = explain(&["--from", place.path().to_str().unwrap()]);
    assert_eq!(damaged.status.code(), Some(2), "{}", text(&damaged.stderr));
}

#[test]
fn what_can_not_be_run_is_refused_at_once() {
    for arguments in [
        &["--shell"][..],
        &["--trace", "/tmp/never-written"],
        &["--from", "x", "--", "true"],
        &["--from", "x", "--keep", "y"],
        &["--no-such-option"],
    ] {
        let refused = explain(arguments);
        assert_eq!(refused.status.code(), Some(125), "{arguments:?}: {}", text(&refused.stderr));
        assert_eq!(text(&refused.stderr).lines().count(), 1, "{arguments:?}");
    }
    assert!(!Path::new("/tmp/never-written").exists());
}

//! Sessions of stock drivers (probe, one registration, unload) that were recorded in guests: the card
//! must answer every byte as it did then. `ci/record` makes them anew.

use std::fs::File;
use std::path::Path;

use device::record::{Outcome, replay};
use flate2::read::GzDecoder;

fn played(kernel: &str) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(format!("{kernel}.gz"));
    let file = File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    match replay(GzDecoder::new(file)).unwrap() {
        Outcome::Same { calls, torn } => {
            assert!(calls > 1000, "{calls} calls: not a whole session");
            assert!(!torn, "the recording ends before the session does");
        }
        Outcome::Different(difference) => panic!("{difference}"),
    }
}

#[test]
fn kernel_6_1() {
    played("6.1");
}

#[test]
fn kernel_6_12() {
    played("6.12");
}

#[test]
fn kernel_latest() {
    played("latest");
}

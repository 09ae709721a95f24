//! The judge against a card and a guest that lie, in each way that they can.

mod card;
mod guest;
mod lies;
mod sources;

use std::io::BufReader;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::cases::Case;
use crate::judge::Judge;
use crate::report::Report;
use crate::{JudgeError, Verdict};

use card::State;
use guest::Guest;

/// What the guest of these tests must show.
const CASES: &[Case] = &[
    Case { name: "plain", registrations: 4, refused: 0, either: 0 },
    Case { name: "refused", registrations: 0, refused: 2, either: 0 },
];

/// How a run came out: the verdict, and what people saw.
struct Run {
    verdict: Result<Verdict, JudgeError>,
    shown: String,
}

/// Runs a guest's script against this card, with the judge between.
fn run(state: State, script: impl FnOnce(&mut Guest) + Send + 'static) -> Run {
    let state = Arc::new(Mutex::new(state));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    let card = card::serve(&path, &state);
    let (from_guest, to_judge) = std::io::pipe().unwrap();
    let (from_judge, to_guest) = std::io::pipe().unwrap();
    let guest = std::thread::spawn(move || {
        script(&mut Guest::new(from_judge, to_judge, state));
    });
    let mut shown = Vec::new();
    let mut client = control::Client::connect(&path).unwrap();
    let mut report = Report::new(&mut shown, false);
    let verdict = Judge::new(&mut client, &mut report, CASES, Duration::from_millis(1))
        .run(to_guest, BufReader::new(from_guest));
    if let Ok(verdict) = &verdict {
        report.summary(verdict).unwrap();
    }
    // A guest that is told to stop, or nothing more, stops.
    guest.join().unwrap();
    drop(client);
    card.join().unwrap();
    Run { verdict, shown: String::from_utf8(shown).unwrap() }
}

#[test]
fn an_honest_card_and_an_honest_guest_pass() {
    let Run { verdict, shown } = run(State::default(), guest::honest);
    let verdict = verdict.unwrap();
    assert_eq!(verdict.failures().collect::<Vec<_>>(), [], "{shown}");
    assert!(verdict.passed());
    assert_eq!(verdict.total(|case| case.registrations), 4);
    assert_eq!(verdict.total(|case| case.frames), 3 + 1 + 3 + 2);
    assert_eq!(verdict.total(|case| case.refused_calls), 2);
    // Each time: 2 domains, 1 variant, 6 boundaries, and the rights that it has not (2, 4, 2, 1). Then 2
    // for each key that is gone: two, and the one that was changed away.
    assert_eq!(verdict.total(|case| case.refusals), 4 * 9 + 2 + 4 + 2 + 1 + 3 * 2);
    assert_eq!(verdict.live_keys, 2);
    for text in ["0x7000000801", "frame 0x51", "local read, local write, remote read", "2 cases"] {
        assert!(shown.contains(text), "{text} is not in:\n{shown}");
    }
    assert!(shown.contains("Every translation is equal"), "{shown}");
}

//! Every lie is caught, and named.

use control::Hex;

use crate::protocol::{Message, Region, Word};

use super::card::{Lie, State};
use super::guest::{Guest, honest};
use super::{Run, run};

/// What people are told, whether as a failure or as the reason why there is no verdict.
fn complaints(run: &Run) -> String {
    match &run.verdict {
        Ok(verdict) => verdict.failures().map(|(_, text)| format!("{text}\n")).collect(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_lie_of_the_card_is_caught() {
    use Lie::*;
    let lies = [
        (
            FirstFrame,
            "run 0 of 2: the guest has 2047 bytes at 0x51801, the card 2047 bytes at 0x52801",
        ),
        (
            LastFrame,
            "run 1 of 2: the guest has 4353 bytes at 0x77000, the card 4096 bytes at 0x77000",
        ),
        (
            Swapped,
            "run 0 of 2: the guest has 2047 bytes at 0x51801, the card 4096 bytes at 0x77000",
        ),
        (PieceTooShort, "the card 4352 bytes at 0x77000"),
        (PieceTooLong, "the card 4354 bytes at 0x77000"),
        (PieceMissing, "run 1 of 2: the guest has 4353 bytes at 0x77000, the card 4096"),
        (PieceTooMany, "run 2 of 2: the guest has nothing more, the card 1 bytes at 0x99000"),
        (OtherFrameForOtherAccess, "local write of 6400 bytes at 0x7000000801 in domain 5: run 0"),
        (Endless, "more pieces are promised"),
        (RightMissing, "remote read of 6400 bytes at 0x7000000801 in domain 5 is refused"),
        (RightTooMany, "in domain 5 is permitted, but nobody gave that right"),
        (
            RightMissingInContext,
            "local read, local write, remote read for the guest, local read, local",
        ),
        (RightTooManyInContext, "remote read, remote write, remote atomic for the card"),
        (OtherDomain, "the protection domain is 5 for the guest, 6 for the card"),
        (AnyDomain, "is permitted, but it is another domain"),
        (EndsLate, "local read of 1 bytes at 0x7000002101 in domain 5 is permitted, but it is out"),
        (EndsEarly, "local reads are refused (out_of_bounds)"),
        (
            StartsEarly,
            "local read of 1 bytes at 0x7000000800 in domain 5 is permitted, but it is out",
        ),
        (LengthCut, "is out of bounds"),
        (LengthInContext, "the length is 0x1900 for the guest, 0x1901 for the card"),
        (Length64, "the length is 0x1900 for the guest, 2^64 for the card"),
        (StartInContext, "the first address is 0x7000000801 for the guest, 0x7000001801"),
        (FreeInContext, "free is false for the guest, true for the card"),
        (NoContext, "the card has no key 0x100101"),
        (AnyVariant, "is permitted, but it is another variant of the key"),
        (Immortal, "is permitted, but the registration is gone"),
        (ImmortalWhenChanged, "is permitted, but the registration is gone"),
        (WrongReason, "is refused with free_kea instead of free_key or no_such_key"),
        (LeakedKey, "mkey_live: 2 before the first case, 3 after the last"),
        (LeakedDomain, "pd: 3 before the first case, 4 after the last"),
        (LostQueue, "qp: 2 before the first case, 1 after the last"),
        (FullTable, "srq: 1 are left after modprobe -r"),
        (KeptPage, "1 pages are not given back after modprobe -r"),
        (CreatesOnFailure, "ibv_reg_mr: the card saw command:CREATE_MKEY or umr"),
        (EditsOnFailure, "ibv_reg_mr: the card saw command:CREATE_MKEY or umr"),
        (CountsNothing, "the card counts no command:CREATE_MKEY"),
        (CountsNoEdits, "the card has no counter umr"),
        (CountsNoKeys, "the card has no count of mkey_live"),
    ];
    for (lie, complaint) in lies {
        let run = run(State { lie: Some(lie), ..State::default() }, honest);
        assert!(!run.verdict.as_ref().is_ok_and(|v| v.passed()), "{lie:?} passes:\n{}", run.shown);
        let said = complaints(&run);
        assert!(said.contains(complaint), "{lie:?} is not named; but:\n{said}");
        assert!(!run.shown.contains("Every translation is equal"), "{lie:?}:\n{}", run.shown);
    }
}

/// A run whose first registration is shown otherwise than it is.
fn shows_otherwise(guest: &mut Guest, change: fn(&mut Region)) {
    guest.hello();
    guest.case("plain");
    let first = guest.register((0x70_0000_0801, 0x1900), 1 | 4, 5, &[0x51, 0x77, 0x78]);
    let mut shown = first.clone();
    change(&mut shown);
    guest.show(&[shown]);
    guest.withdraw(&[first]);
    guest.failing();
    guest.rest();
    guest.unload();
}

#[test]
fn what_a_guest_shows_must_be_so() {
    type Change = fn(&mut Region);
    let changes: [(Change, &str); 12] = [
        (|r| r.frames = vec![(0x51, 1), (0x78, 1), (0x77, 1)], "run 1"),
        (|r| r.frames = vec![(0x51, 1), (0x77, 1)], "2 frames for a range of 3 pages"),
        (|r| r.frames = vec![], "0 frames for a range of 3 pages"),
        (|r| r.frames = vec![(0x51, 1), (0, 2)], "no frame, though it is registered"),
        (|r| r.access = 1, "remote read of 6400 bytes at 0x7000000801 in domain 5 is permitted"),
        (|r| r.access = 1 | 4 | 8, "remote atomic of 6400 bytes"),
        (|r| r.domain = Some(7), "in domain 7"),
        (|r| r.length = 0x18ff, "is permitted, but it is out of bounds"),
        (|r| r.iova = Hex(0), "local reads are refused (out_of_bounds)"),
        (|r| r.rkey = Hex(0x999901), "the card has no key 0x999901"),
        (|r| r.lkey = Hex(1 << 40), "are too long"),
        (|r| r.page = 2 << 20, "are no pages of 2097152 bytes"),
    ];
    for (change, complaint) in changes {
        let said = complaint_about(move |guest| shows_otherwise(guest, change));
        assert!(said.contains(complaint), "{complaint} is not in:\n{said}");
    }
}

/// What a script of a whole run is complained about for.
fn complaint_about(script: impl FnOnce(&mut Guest) + Send + 'static) -> String {
    let run = run(State::default(), script);
    assert!(!run.verdict.as_ref().is_ok_and(|v| v.passed()), "passes:\n{}", run.shown);
    complaints(&run)
}

#[test]
fn a_guest_must_show_everything() {
    let said = complaint_about(|guest| {
        guest.hello();
        guest.plain();
        guest.rest();
        guest.unload();
    });
    assert!(said.contains("missing: [\"refused\"]"), "{said}");
    let said = complaint_about(|guest| {
        guest.hello();
        guest.case("plain");
        guest.failing();
        guest.rest();
        guest.unload();
    });
    assert!(said.contains("plain: 0 registrations"), "{said}");
    let said = complaint_about(|guest| {
        guest.hello();
        guest.plain();
        guest.case("refused");
        guest.refused(0);
        guest.rest();
        guest.unload();
    });
    assert!(said.contains("refused: 0 registrations and 1 refused calls"), "{said}");
    let said = complaint_about(|guest| {
        guest.hello();
        guest.plain();
        guest.failing();
        guest.plain();
        guest.rest();
        guest.unload();
    });
    assert!(said.contains("not the cases that must come"), "{said}");
    let said = complaint_about(|guest| {
        guest.hello();
        guest.case("plain");
        let two = guest.two();
        guest.show(&two);
        guest.failing();
    });
    assert!(said.contains("ended in case \"refused\""), "{said}");
}

#[test]
fn a_guest_that_forgets_a_registration_is_told() {
    let said = complaint_about(|guest| {
        guest.hello();
        guest.case("plain");
        let two = guest.two();
        guest.show(&two);
        guest.failing();
        for region in &two {
            guest.free(region);
        }
        guest.rest();
        guest.unload();
    });
    assert!(said.contains("2 registrations are left over"), "{said}");
}

#[test]
fn two_registrations_have_two_keys() {
    let said = complaint_about(|guest| {
        guest.hello();
        guest.case("plain");
        let [first, _] = guest.two();
        let twin = Region { id: 77, ..first.clone() };
        guest.show(std::slice::from_ref(&twin));
        guest.withdraw(&[first, twin]);
        guest.failing();
        guest.rest();
        guest.unload();
    });
    assert!(said.contains("registrations 1 and 77 have one key 0x100101"), "{said}");
}

#[test]
fn errors_are_those_expected() {
    for (errno, name) in [(0, "success"), (12, "ENOMEM"), (77, "errno 77")] {
        let said = complaint_about(move |guest| {
            guest.hello();
            guest.plain();
            guest.case("refused");
            guest.say(&Message::Mark {});
            let call = "ibv_reg_mr".to_owned();
            guest.say(&Message::Refused { call, errno, expected: vec![14, 22] });
            guest.say(&Message::Failed { call: "ibv_dereg_mr".to_owned(), errno: 16 });
            guest.rest();
            guest.unload();
        });
        assert!(
            said.contains(&format!("ibv_reg_mr: {name} instead of EFAULT or EINVAL")),
            "{said}"
        );
        assert!(said.contains("ibv_dereg_mr failed: EBUSY"), "{said}");
    }
}

#[test]
fn nonsense_ends_the_run() {
    type Script = fn(&mut Guest) -> Word;
    let scripts: [(Script, &str); 10] = [
        (|guest| guest.say_line("hello"), "expected value"),
        (|guest| guest.say_line(r#"{"say":"hello"}"#), "missing field"),
        (|guest| guest.say_line(r#"{"say":"end","and":1}"#), "unknown field"),
        (|guest| guest.say(&Message::Warm {}), "in phase Silent it says Warm"),
        (|guest| guest.say(&Message::End {}), "in phase Silent it says End"),
        (
            |guest| {
                guest.hello();
                guest.say(&Message::Mark {})
            },
            "in phase Cases it says Mark",
        ),
        (
            |guest| {
                guest.hello();
                guest.case("plain");
                guest.say(&Message::Deregistered { ids: vec![1] })
            },
            "registration 1 is gone, but it never came",
        ),
        (
            |guest| {
                guest.hello();
                guest.case("plain");
                let call = "ibv_reg_mr".to_owned();
                guest.say(&Message::Refused { call, errno: 14, expected: vec![14] })
            },
            "it was not announced",
        ),
        (
            |guest| {
                guest.hello();
                guest.say(&Message::Unloaded { how: String::new() })
            },
            "in phase Cases it says Unloaded",
        ),
        (
            |guest| {
                let (kernel, device) = (String::new(), String::new());
                guest.say(&Message::Hello { protocol: 2, kernel, device })
            },
            "in phase Silent it says Hello",
        ),
    ];
    for (script, complaint) in scripts {
        let said = complaint_about(move |guest| {
            assert_eq!(script(guest), Word::Stop, "nobody answers any more");
        });
        assert!(said.contains(complaint), "{said}");
    }
}

#[test]
fn a_guest_that_fails_for_ever_is_stopped() {
    let run = run(State::default(), |guest| {
        guest.hello();
        guest.case("plain");
        let call = || "ibv_reg_mr".to_owned();
        while guest.say(&Message::Failed { call: call(), errno: 110 }) == Word::Go {}
    });
    let verdict = run.verdict.unwrap();
    assert!(!verdict.passed());
    assert!(run.shown.contains("ibv_reg_mr failed: ETIMEDOUT"), "{}", run.shown);
    assert!(run.shown.contains("more"), "{}", run.shown);
}

#[test]
fn a_guest_does_not_steer_the_terminal() {
    let run = run(State::default(), |guest| {
        guest.hello();
        guest.case("\u{1b}[2J");
        guest.say(&Message::Note { text: "\u{1b}]0;x\u{7}".to_owned() });
        guest.say(&Message::Failed { call: "\u{1b}c".to_owned(), errno: 1 });
        guest.rest();
    });
    assert!(!run.shown.contains('\u{1b}'), "{:?}", run.shown);
    assert!(run.shown.contains("?[2J"), "{:?}", run.shown);
}

use std::os::unix::fs::PermissionsExt as _;

use dma::{Dma as _, TestMemory};
use tempfile::TempDir;

use super::replay::{ReplayBus, Stop, Tape};
use super::*;

/// What a card might do during a call.
fn script(bus: &dyn Bus) -> Vec<Result<[u8; 8], dma::DmaError>> {
    let mut word = [0; 8];
    vec![
        bus.write(0x100, b"abcdefgh").map(|()| [0; 8]),
        bus.read(0x100, &mut word).map(|()| word),
        bus.copy(0x100, 0x200, 8).map(|()| [0; 8]),
        bus.compare_exchange(0x200, *b"abcdefgh", [1; 8]),
        bus.compare_exchange(0x201, [0; 8], [1; 8]),
        bus.read(0xfff, &mut word).map(|()| word),
        bus.write(u64::MAX, &[1]).map(|()| [0; 8]),
        bus.copy(0x0, 0x1000, 1).map(|()| [0; 8]),
    ]
}

fn recorded(dir: &TempDir, what: impl FnOnce(&Recorder, &dyn Bus)) -> Vec<u8> {
    let path = dir.path().join("recording");
    let recorder = Recorder::create(&path, &Config::default()).unwrap();
    let memory = TestMemory::new(0x1000);
    what(&recorder, &RecordingBus { bus: &memory, recorder: &recorder });
    recorder.flush().unwrap();
    std::fs::read(&path).unwrap()
}

fn player(file: &[u8]) -> ReplayBus<&[u8]> {
    let mut tape = Tape::new(file).unwrap();
    tape.header().unwrap();
    ReplayBus::new(tape, Default::default())
}

#[test]
fn a_recording_is_for_its_owner_and_never_replaces_a_file() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording");
    Recorder::create(&path, &Config::default()).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let again = Recorder::create(&path, &Config::default()).err().unwrap();
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn the_bus_answers_as_it_was_recorded() {
    let dir = TempDir::new().unwrap();
    let mut first = Vec::new();
    let file = recorded(&dir, |_, bus| {
        first = script(bus);
        bus.interrupt(3);
    });
    assert_eq!(first[1], Ok(*b"abcdefgh"));
    assert_eq!(first.iter().filter(|outcome| outcome.is_err()).count(), 4);
    let bus = player(&file);
    assert_eq!(script(&bus), first);
    bus.interrupt(3);
    assert!(bus.stop.take().is_none());
    assert!(bus.tape.borrow_mut().take().unwrap().is_none(), "everything was used");
}

#[test]
fn what_the_card_does_otherwise_is_a_difference() {
    let dir = TempDir::new().unwrap();
    let file = recorded(&dir, |_, bus| {
        let _ = bus.write(0x100, &[1, 2, 3, 4]);
    });
    type Act<'a> = &'a dyn Fn(&dyn Bus);
    let others: [(&str, Act<'_>); 6] = [
        ("DMA write at 0x100, 4 bytes: 01020305", &|bus| {
            assert!(bus.write(0x100, &[1, 2, 3, 5]).is_err())
        }),
        ("DMA write at 0x104, 4 bytes: 01020304", &|bus| {
            assert!(bus.write(0x104, &[1, 2, 3, 4]).is_err())
        }),
        ("DMA write at 0x100, 3 bytes: 010203", &|bus| {
            assert!(bus.write(0x100, &[1, 2, 3]).is_err())
        }),
        ("DMA read at 0x100, 4 bytes", &|bus| assert!(bus.read(0x100, &mut [0; 4]).is_err())),
        ("DMA copy from 0x1 to 0x2, 3 bytes", &|bus| assert!(bus.copy(1, 2, 3).is_err())),
        ("interrupt of vector 7", &|bus| bus.interrupt(7)),
    ];
    for (now, act) in others {
        let bus = player(&file);
        act(&bus);
        // The first difference counts; nothing after it is compared.
        bus.interrupt(1);
        let Some(Stop::Different(difference)) = bus.stop.take() else {
            panic!("{now} is no difference");
        };
        assert_eq!(difference.index, 1);
        assert_eq!(difference.recorded, "DMA write at 0x100, 4 bytes: 01020304");
        assert_eq!(difference.now, now);
    }
}

#[test]
fn a_recording_that_ends_within_a_call_is_no_difference() {
    let dir = TempDir::new().unwrap();
    let file = recorded(&dir, |_, _| {});
    let bus = player(&file);
    assert!(bus.write(0x100, &[1]).is_err());
    assert!(matches!(bus.stop.take(), Some(Stop::End)));
}

#[test]
fn a_card_is_recorded_and_played() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording");
    let config = Config::default();
    let recorder = Recorder::create(&path, &config).unwrap();
    let mut card = Card::new(&config, Some(recorder));
    let memory = TestMemory::new(0x1000);
    let mut segment = [0; 4];
    for now in 0..100 {
        card.bar_read(now * 1_000_000, 0x1fc, &mut segment);
        card.bar_write(now * 1_000_000, &memory, 0x10, &[0; 8]);
        card.poll(now * 1_000_000, &memory);
    }
    let _ = card.control(&memory, &Request::Status {});
    let _ = card.control(&memory, &Request::Mkey { key: control::Hex(0x1234) });
    card.reset();
    card.flush().unwrap();
    let file = std::fs::read(&path).unwrap();
    assert_eq!(replay(&file[..]).unwrap(), Outcome::Same { calls: 303, torn: false });

    // Cut anywhere behind the header, it is compared as far as it goes.
    let header = {
        let mut reader = trace::Reader::new(&file[..]).unwrap();
        20 + 6 + reader.next_record().unwrap().unwrap().body.len()
    };
    for cut in [header + 1, file.len() / 2, file.len() - 1] {
        match replay(&file[..cut]) {
            Ok(Outcome::Same { calls, torn: true }) => assert!(calls < 303),
            other => panic!("{other:?}"),
        }
    }
}

/// A recording of one call of which one thing was changed afterwards.
fn forged(event: Event<'_>) -> Result<Outcome, ReplayError> {
    let dir = TempDir::new().unwrap();
    let file = recorded(&dir, |recorder, _| recorder.note(event));
    replay(&file[..])
}

#[test]
fn a_changed_output_is_found() {
    let answer = [0xaa; 3];
    match forged(Event::BarRead { now: 0, offset: 0x100_0000, data: &answer }).unwrap() {
        Outcome::Different(difference) => {
            assert_eq!(difference.index, 1);
            assert_eq!(difference.recorded, "BAR0 read at 0x1000000: aaaaaa");
        }
        other => panic!("{other:?}"),
    }
    // Something that the card did, but during no call.
    match forged(Event::Interrupt(2)).unwrap() {
        Outcome::Different(difference) => {
            assert_eq!(difference.recorded, "interrupt of vector 2");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_that_can_not_be_played_are_refused() {
    assert!(matches!(replay(&b"not a recording"[..]), Err(ReplayError::Read(_))));
    let mut empty = Vec::new();
    Writer::new(&mut empty).unwrap();
    assert!(matches!(replay(&empty[..]), Err(ReplayError::Header(_))));
    let mut headless = Vec::new();
    Writer::new(&mut headless).unwrap().record(0x13, |_| {}).unwrap();
    assert!(matches!(replay(&headless[..]), Err(ReplayError::Header(_))));
    let request = forged(Event::Control("{\"do\":\"dance\"}"));
    assert!(matches!(request, Err(ReplayError::Request { index: 1, .. })));
}

//! From power-on to a registered key over the socket, and the same again from a recording.

use std::fs::File;
use std::path::Path;

use control::{Access as Right, Hex, Request, Status, Translation};
use device::record::{Outcome, replay};
use driver::Driver;
use driver::mkey::{Access, Region};
use driver::vfio_user::VfioUser;
use function::Config;

use crate::running::Running;

const MEMORY: u64 = 256 << 20;

/// Boots, registers and deregisters memory, and shuts down. In between the control socket is asked.
pub fn session(running: &Running) {
    let port = VfioUser::connect(&running.socket(), MEMORY).unwrap();
    let mut driver = Driver::new(port);
    let mut device = driver.power_on().unwrap();
    let pd = driver.alloc_pd().unwrap();
    let pages: Vec<u64> = (0..5).map(|_| driver.memory.alloc(4096).unwrap()).collect();
    let region = Region {
        start: 0x7f00_0000_1080,
        len: 5 * 4096 - 0x80,
        log_page_size: 12,
        pages: pages.clone(),
        pd,
        access: Access::ALL,
    };
    let registered = driver.register(&mut device, &region).unwrap();
    let translate = Request::Translate {
        key: Hex(registered.key.into()),
        address: Hex(region.start),
        length: Hex(region.len),
        access: Right::LocalWrite,
        pd: Some(pd),
        skip: 0,
        limit: 100,
    };
    match running.control().ask(translate.clone()).unwrap() {
        Translation::Pieces { pieces, more: false } => {
            // Neighbours are joined, so look where the pieces begin and how much they are.
            assert_eq!(pieces[0].address, Hex(pages[0] + 0x80));
            assert_eq!(pieces.iter().map(|piece| piece.length.0).sum::<u64>(), region.len);
        }
        other => panic!("{other:?}"),
    }
    driver.deregister(&mut device, registered).unwrap();
    let refused = running.control().ask(translate).unwrap();
    assert!(matches!(refused, Translation::Refused { .. }), "{refused:?}");
    driver.dealloc_pd(pd).unwrap();
    driver.power_off(device).unwrap();
}

#[test]
fn a_driver_boots_again_and_again() {
    let running = Running::start();
    let before = running.status();
    for round in 1..=3 {
        session(&running);
        running.wait_disconnected();
        let after = running.status();
        assert_eq!(after.connections, round);
        assert_eq!((&after.state, &after.objects), (&before.state, &before.objects));
        assert_eq!(after.pages, 0);
    }
}

/// A client that was killed in the middle leaves nothing behind.
#[test]
fn a_driver_that_was_killed_leaves_nothing() {
    let running = Running::start();
    let before = running.status();
    let port = VfioUser::connect(&running.socket(), MEMORY).unwrap();
    let mut driver = Driver::new(port);
    let _device = driver.power_on().unwrap();
    assert_ne!(running.status().objects, before.objects);
    drop(driver);
    running.wait_disconnected();
    assert_eq!(running.status().objects, before.objects);
    session(&running);
}

fn play(recording: &Path) -> Outcome {
    replay(File::open(recording).unwrap()).unwrap()
}

#[test]
fn a_recorded_session_is_played_without_a_difference() {
    for umr in [true, false] {
        let running = Running::start_with(|options| {
            options.record = Some(options.socket.with_file_name("recording"));
            options.config = Config { umr, ..Config::default() };
        });
        session(&running);
        running.wait_disconnected();
        let _: Status = running.control().ask(Request::Status {}).unwrap();
        let dir = running.stop();
        let recording = dir.path().join("recording");
        match play(&recording) {
            Outcome::Same { calls, torn: false } => assert!(calls > 100, "{calls}"),
            other => panic!("{other:?}"),
        }

        // A process that was killed leaves a file that is cut off anywhere.
        let file = File::options().write(true).open(&recording).unwrap();
        let len = file.metadata().unwrap().len();
        file.set_len(len - len / 3).unwrap();
        match play(&recording) {
            Outcome::Same { torn: true, .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// What the guest wrote differs by one byte: the card does something else, and that is found.
#[test]
fn a_changed_input_shows() {
    let running = Running::start_with(|options| {
        options.record = Some(options.socket.with_file_name("recording"));
    });
    session(&running);
    running.wait_disconnected();
    let dir = running.stop();
    let bytes = std::fs::read(dir.path().join("recording")).unwrap();

    let mut reader = ::trace::Reader::new(&bytes[..]).unwrap();
    let mut changed = Vec::new();
    let mut writer = ::trace::Writer::new(&mut changed).unwrap();
    let mut at = None;
    while let Some(record) = reader.next_record().unwrap() {
        let event = ::trace::Event::decode(record).unwrap();
        // The first thing that the card reads of the guest is a command.
        let first = at.is_none() && matches!(event, ::trace::Event::DmaRead { outcome: Ok(_), .. });
        let mut body = record.body.to_vec();
        if first {
            at = Some(record.index);
            // Past address, length and outcome: the type of the command.
            body[17] ^= 0xff;
        }
        writer.record(record.kind, |to| to.extend_from_slice(&body)).unwrap();
    }
    drop(writer);
    match replay(&changed[..]).unwrap() {
        Outcome::Different(difference) => assert!(difference.index > at.unwrap(), "{difference}"),
        other => panic!("{other:?}"),
    }
}

//! A card that is taken out of its slot, falls off the bus, or comes back.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Lines, PipeReader};
use std::os::fd::OwnedFd;

use control::{Faults, Request, SlotAsked, SlotChange};

use crate::running::{BAR0, COMMAND, CONFIG, ON, Running, read, wait};

/// A byte of configuration space that keeps what is written, and the command register of a function
/// without bus mastering.
const CACHE_LINE: u64 = 0x0c;
const MEMORY_ONLY: [u8; 2] = [0x02, 0x00];
const IDENTITY: [u8; 4] = [0xb3, 0x15, 0x1b, 0x10];

/// A card with these rules, and what whoever has started it is told.
fn start(rules: &str) -> (Running, Lines<BufReader<PipeReader>>) {
    let (told, tell) = io::pipe().unwrap();
    let tell = File::from(OwnedFd::from(tell));
    let running = Running::start_in_slot(Some(tell), |options| {
        options.config.faults = faults::parse(rules).unwrap();
    });
    (running, BufReader::new(told).lines())
}

fn ask(running: &Running, change: SlotChange) -> Result<SlotAsked, control::ClientError> {
    running.control().ask(Request::Slot { change })
}

#[test]
fn whoever_has_started_the_card_is_told_what_to_do_with_its_slot() {
    let (running, mut told) = start(
        "[[fault]]\nname = 'out'\nat = 'time'\nafter_ms = 5\ndo = 'unplug'\n\
         [[fault]]\nname = 'in'\nat = 'time'\nafter = 'out'\nafter_ms = 5\ndo = 'replug'",
    );
    assert_eq!(told.next().unwrap().unwrap(), "unplug");
    assert_eq!(told.next().unwrap().unwrap(), "replug");
    for (change, line) in [(SlotChange::Unplug, "unplug"), (SlotChange::Replug, "replug")] {
        assert_eq!(ask(&running, change).unwrap().asked, change);
        assert_eq!(told.next().unwrap().unwrap(), line);
    }
    // Whoever does not read is not waited for.
    let refused = (0..20_000).find_map(|_| ask(&running, SlotChange::Unplug).err());
    assert!(refused.unwrap().to_string().contains("nobody can do it"));
    running.status();
}

#[test]
fn without_anybody_to_ask_it_is_refused() {
    let running = Running::start();
    let refused = ask(&running, SlotChange::Unplug).unwrap_err();
    assert!(refused.to_string().contains("--slot-fd"), "{refused}");
}

#[test]
fn a_client_that_comes_back_finds_a_new_card() {
    let (running, _told) = start(
        "[[fault]]\nname = 'gone'\nat = 'register_write'\nwhere = { offset = 0x18 }\ndo = 'off_bus'\n\
         reset_on = 'connect'",
    );
    let fired = || {
        let list: Faults = running.control().ask(Request::FaultList {}).unwrap();
        list.rules[0].fired
    };
    for _ in 0..2 {
        let mut client = running.connect();
        assert_eq!(read(&mut client, CONFIG, 0), IDENTITY);
        assert_eq!(fired(), 0, "its counters have started again");
        client.region_write(CONFIG, COMMAND, &ON).unwrap();
        client.region_write(BAR0, 0x18, &[0, 0, 0, 1]).unwrap();
        wait("the card to fall off the bus", || read(&mut client, CONFIG, 0) == [0xff; 4]);
        assert_eq!(read(&mut client, CONFIG, COMMAND), [0xff; 2]);
        assert_eq!(read(&mut client, BAR0, 0), [0xff; 4]);
        // Nothing that is written arrives, not even the order to reset.
        client.region_write(CONFIG, 0x68, &[0, 0x80]).unwrap();
        assert_eq!(read(&mut client, CONFIG, 0), [0xff; 4]);
        assert_eq!(fired(), 1);
        drop(client);
        running.wait_disconnected();
    }
}

/// A card that is put into the slot while the driver lets go of the one that was there.
#[test]
fn a_card_is_new_once_the_driver_has_let_go_of_the_old_one() {
    let (running, _told) = start("");
    let mut client = running.connect();
    client.region_write(CONFIG, COMMAND, &ON).unwrap();
    client.region_write(CONFIG, CACHE_LINE, &[0x10]).unwrap();
    ask(&running, SlotChange::Replug).unwrap();
    assert_eq!(read(&mut client, CONFIG, CACHE_LINE), [0x10], "the driver is there yet");
    client.region_write(CONFIG, COMMAND, &MEMORY_ONLY).unwrap();
    assert_eq!(read(&mut client, CONFIG, COMMAND), [0, 0]);
    assert_eq!(read(&mut client, CONFIG, CACHE_LINE), [0]);
    // Nobody has to let go of this one.
    client.region_write(CONFIG, CACHE_LINE, &[0x10]).unwrap();
    ask(&running, SlotChange::Replug).unwrap();
    assert_eq!(read(&mut client, CONFIG, CACHE_LINE), [0]);
}

/// The answer to a reset comes at once: QEMU waits for it. What takes its time is the card.
#[test]
fn a_reset_takes_long() {
    let (running, _told) =
        start("[[fault]]\nname = 'slow'\nat = 'reset'\ndo = { off_bus_ms = 400 }");
    let mut client = running.connect();
    client.region_write(CONFIG, COMMAND, &ON).unwrap();
    let begun = std::time::Instant::now();
    client.reset().unwrap();
    wait("the card to be busy", || read(&mut client, CONFIG, 0) == [0xff; 4]);
    wait("the card to be back", || read(&mut client, CONFIG, 0) == IDENTITY);
    assert!(begun.elapsed().as_millis() >= 400);
    assert_eq!(read(&mut client, CONFIG, COMMAND), [0, 0], "it was reset");
}

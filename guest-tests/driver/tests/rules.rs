//! The driver notices a card that breaks the rules.

mod common;

use std::cell::Cell;
use std::rc::Rc;

use common::FunctionCard;
use dma::{Dma, TestMemory};
use driver::{Card, Driver, Error, InProcess};
use function::{Config, Function};
use layouts::{CommandQueueEntry, InitialSegment, MboxIn, Opcode};

/// A card that does its work, and then `spoil`s guest memory, once it is `armed`.
struct Spoilt<F> {
    card: FunctionCard,
    armed: Rc<Cell<bool>>,
    /// Gets memory, and the command queue's address.
    spoil: F,
}

impl<F: FnMut(&TestMemory, u64)> Card for Spoilt<F> {
    fn read(&mut self, now: u64, offset: u64, data: &mut [u8]) {
        self.card.read(now, offset, data);
    }

    fn write(&mut self, now: u64, memory: &TestMemory, offset: u64, data: &[u8]) {
        self.card.write(now, memory, offset, data);
    }

    fn poll(&mut self, now: u64, memory: &TestMemory) -> Option<u64> {
        let wake = self.card.poll(now, memory);
        if self.armed.get() {
            let mut segment = [0; 0x20];
            self.card.read(now, 0, &mut segment);
            let queue = InitialSegment(&segment).cmdq_phy_addr_31_12() << 12;
            (self.spoil)(memory, queue.into());
        }
        wake
    }
}

/// The error of a NOP in slot 0 of a card that spoils memory after it; by event, or by polling.
fn error(by_event: bool, spoil: impl FnMut(&TestMemory, u64)) -> Error {
    let armed = Rc::new(Cell::new(false));
    let card = FunctionCard(Function::new(&Config::default()));
    let card = Spoilt { card, armed: armed.clone(), spoil };
    let mut driver = Driver::new(InProcess::new(card, common::MEMORY));
    driver.wait_fw_init().unwrap();
    driver.set_up_queue().unwrap();
    if by_event {
        driver.boot().unwrap();
    } else {
        driver.enable_hca().unwrap();
    }
    armed.set(true);
    let mut input = [0; 16];
    MboxIn(&mut input[..]).set_opcode(Opcode::NOP.0);
    driver.command(&input, 16).unwrap_err()
}

/// Changes the entry in slot 0.
fn entry(memory: &TestMemory, queue: u64, change: impl FnOnce(CommandQueueEntry<&mut [u8]>)) {
    let mut bytes = [0; CommandQueueEntry::SIZE];
    memory.read(queue, &mut bytes).unwrap();
    change(CommandQueueEntry(&mut bytes[..]));
    memory.write(queue, &bytes).unwrap();
}

#[test]
fn another_token_is_noticed() {
    let error = error(false, |memory, queue| {
        entry(memory, queue, |mut entry| {
            let token = entry.token();
            entry.set_token(!token);
        });
    });
    assert!(matches!(error, Error::Protocol(_)), "{error}");
}

#[test]
fn a_command_that_is_never_completed_is_given_up() {
    for by_event in [false, true] {
        let error = error(by_event, |memory, queue| {
            entry(memory, queue, |mut entry| entry.set_ownership(true));
        });
        match (by_event, &error) {
            (false, Error::Timeout { .. }) => {}
            // The event came before the slot was handed back.
            (true, Error::Protocol(_)) => {}
            _ => panic!("{error}"),
        }
    }
}

#[test]
fn a_delivery_status_is_reported() {
    let error = error(false, |memory, queue| {
        entry(memory, queue, |mut entry| entry.set_status(2));
    });
    assert!(matches!(error, Error::Delivery { status: layouts::DeliveryStatus::TOKEN_ERR, .. }));
}

#[test]
fn an_event_for_a_slot_that_waits_for_none_is_noticed() {
    let error = error(true, |memory, _| {
        // All events so far are of commands in slot 0. The one that has not been taken yet is among
        // them, somewhere.
        for at in (0x1000..0x80_0000).step_by(0x40) {
            let mut eqe = [0; layouts::Eqe::SIZE];
            memory.read(at, &mut eqe).unwrap();
            let view = layouts::Eqe(&eqe[..]);
            let is_command = view.r#type() == layouts::EventType::CMD.0;
            if is_command && view.cmd().vector() == 1 {
                layouts::Eqe(&mut eqe[..]).cmd_mut().set_vector(0b11);
                memory.write(at, &eqe).unwrap();
            }
        }
    });
    assert!(matches!(error, Error::Protocol(_)), "{error}");
}

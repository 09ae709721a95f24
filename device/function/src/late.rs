//! What faults keep back on the bus: interrupts, and data on its way to guest memory.

use std::cell::{Cell, RefCell};

use dma::Bus;
use probe::{Held, Point, Probe, Site, Until};

/// Most things that are kept back; what comes on top is not.
const MOST: usize = 4096;
/// Most bytes of data that are.
const ROOM: usize = 16 << 20;

/// What is kept back on the bus.
#[derive(Debug)]
pub struct Late {
    interrupts: RefCell<Held<u16>>,
    /// Data, and the address that it is for.
    writes: RefCell<Held<(u64, Vec<u8>)>>,
    bytes: Cell<usize>,
}

impl Default for Late {
    fn default() -> Self {
        Self {
            interrupts: RefCell::new(Held::new(MOST)),
            writes: RefCell::new(Held::new(MOST)),
            bytes: Cell::new(0),
        }
    }
}

impl Late {
    /// Keeps an interrupt back; false if there is no room.
    pub fn interrupt(&self, until: Until, vector: u16) -> bool {
        self.interrupts.borrow_mut().push(until, vector).is_ok()
    }

    /// Whether there is room for so many bytes of data.
    pub fn has_room(&self, len: u64) -> bool {
        usize::try_from(len).is_ok_and(|len| self.bytes.get().saturating_add(len) <= ROOM)
    }

    /// Keeps data back; false if there is no room.
    pub fn write(&self, until: Until, addr: u64, data: Vec<u8>) -> bool {
        let len = data.len();
        if !self.has_room(len as u64) || self.writes.borrow_mut().push(until, (addr, data)).is_err()
        {
            return false;
        }
        self.bytes.set(self.bytes.get() + len);
        true
    }

    /// Sends and writes what has been kept back and whose time has come. Nobody is asked again; what
    /// can't be written any more is lost.
    pub fn go_on(&self, bus: &dyn Bus, probe: &Probe) {
        loop {
            let Some((addr, data)) = self.writes.borrow_mut().due(probe.now()) else { break };
            self.bytes.set(self.bytes.get().saturating_sub(data.len()));
            let outcome = bus.write(addr, &data);
            log::debug!("{} bytes reach {addr:#x} late: {outcome:?}", data.len());
            let values = [("addr", addr.into()), ("len", data.len().into())];
            probe.tell(&Site {
                point: Point::DmaWrite,
                layout: None,
                bytes: &data,
                values: &values,
            });
        }
        loop {
            let Some(vector) = self.interrupts.borrow_mut().due(probe.now()) else { break };
            let values = [("vector", vector.into())];
            probe.tell(&Site {
                point: Point::Interrupt,
                layout: None,
                bytes: &[],
                values: &values,
            });
            bus.interrupt(vector);
        }
    }

    /// When the next is due.
    pub fn deadline(&self) -> Option<u64> {
        [self.interrupts.borrow().next(), self.writes.borrow().next()].into_iter().flatten().min()
    }

    /// What a fault rule keeps back goes on. Returns how much that is.
    pub fn release(&mut self, rule: u32, now: u64) -> u64 {
        self.interrupts.get_mut().release(rule, now) + self.writes.get_mut().release(rule, now)
    }

    /// The function is reset: no interrupt of before comes. Data that is on its way arrives all the
    /// same: that is what a card does that goes on writing after it was told to stop.
    pub fn reset(&mut self) {
        let Self { interrupts, writes: _, bytes: _ } = self;
        interrupts.get_mut().clear();
    }
}

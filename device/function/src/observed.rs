//! The bus while somebody wants to know what goes over it.

use std::cell::RefCell;

use dma::{Bus, Dma, DmaError};
use probe::{Action, Held, Point, Points, Probe, Site, Until, Value, ask};

/// What goes over a bus.
const ALL: Points = Points::of(&[
    Point::DmaRead,
    Point::DmaWrite,
    Point::DmaCopy,
    Point::DmaExchange,
    Point::Interrupt,
]);

/// Passes everything to `bus` and tells the probe what came of it.
pub struct Observed<'a> {
    bus: &'a dyn Bus,
    probe: &'a Probe,
    /// Interrupts that faults keep back.
    late: &'a RefCell<Held<u16>>,
}

/// Sends interrupts that faults have kept back and whose time has come.
pub fn late_interrupts(bus: &dyn Bus, probe: &Probe, late: &RefCell<Held<u16>>) {
    loop {
        let Some(vector) = late.borrow_mut().due(probe.now()) else { return };
        bus.interrupt(vector);
    }
}

impl Observed<'_> {
    /// Calls `then` with `bus`, observed if somebody wants to know.
    pub fn during<T>(
        bus: &dyn Bus,
        probe: &Probe,
        late: &RefCell<Held<u16>>,
        then: impl FnOnce(&dyn Bus) -> T,
    ) -> T {
        if probe.armed_any(ALL) { then(&Observed { bus, probe, late }) } else { then(bus) }
    }

    /// Whether a fault refuses an access.
    fn refused<const N: usize>(&self, point: Point, values: [(&'static str, u64); N]) -> bool {
        if !self.probe.asks(point) {
            return false;
        }
        let values = values.map(|(name, number)| (name, Value::Number(number)));
        let site = Site { point, layout: None, bytes: &[], values: &values };
        self.probe.ask(&site) == Some(Action::Refuse)
    }
}

impl Observed<'_> {
    /// Tells of an access, and last, of one that was refused, why.
    fn tell<T, const N: usize>(
        &self,
        point: Point,
        bytes: &[u8],
        values: [(&'static str, u64); N],
        outcome: &Result<T, DmaError>,
    ) {
        if !self.probe.armed(point) {
            return;
        }
        let mut told = [("refused", Value::Word(""))].repeat(N + 1);
        for (to, (name, number)) in told.iter_mut().zip(values) {
            *to = (name, Value::Number(number));
        }
        let values = match outcome.as_ref().map_err(reason) {
            Ok(_) => told.get(..N).unwrap_or_default(),
            Err(reason) => {
                if let Some((_, value)) = told.last_mut() {
                    *value = Value::Word(reason);
                }
                &told
            }
        };
        self.probe.tell(&Site { point, layout: None, bytes, values });
    }
}

fn reason(error: &DmaError) -> &'static str {
    match error {
        DmaError::Unmapped { .. } => "unmapped",
        DmaError::Forbidden { .. } => "forbidden",
        DmaError::Gone { .. } => "gone",
        DmaError::Misaligned { .. } => "misaligned",
    }
}

impl Dma for Observed<'_> {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        let len = buf.len() as u64;
        let outcome = match self.refused(Point::DmaRead, [("addr", addr), ("len", len)]) {
            true => Err(DmaError::Unmapped { addr, len }),
            false => self.bus.read(addr, buf),
        };
        let data = if outcome.is_ok() { &*buf } else { &[] };
        self.tell(Point::DmaRead, data, [("addr", addr), ("len", len)], &outcome);
        outcome
    }

    fn write(&self, addr: u64, data: &[u8]) -> Result<(), DmaError> {
        let len = data.len() as u64;
        let outcome = match self.refused(Point::DmaWrite, [("addr", addr), ("len", len)]) {
            true => Err(DmaError::Unmapped { addr, len }),
            false => self.bus.write(addr, data),
        };
        self.tell(Point::DmaWrite, data, [("addr", addr), ("len", len)], &outcome);
        outcome
    }

    fn copy(&self, src: u64, dst: u64, len: u64) -> Result<(), DmaError> {
        let values = [("src", src), ("dst", dst), ("len", len)];
        let outcome = match self.refused(Point::DmaCopy, values) {
            true => Err(DmaError::Unmapped { addr: src, len }),
            false => self.bus.copy(src, dst, len),
        };
        self.tell(Point::DmaCopy, &[], values, &outcome);
        outcome
    }

    fn compare_exchange(&self, addr: u64, old: [u8; 8], new: [u8; 8]) -> Result<[u8; 8], DmaError> {
        let outcome = match self.refused(Point::DmaExchange, [("addr", addr)]) {
            true => Err(DmaError::Unmapped { addr, len: 8 }),
            false => self.bus.compare_exchange(addr, old, new),
        };
        // As numbers of big-endian bytes, which is how work requests have them.
        let values = [
            ("addr", addr),
            ("old", u64::from_be_bytes(old)),
            ("new", u64::from_be_bytes(new)),
            ("found", outcome.map_or(0, u64::from_be_bytes)),
        ];
        self.tell(Point::DmaExchange, &[], values, &outcome);
        outcome
    }
}

impl Bus for Observed<'_> {
    fn interrupt(&self, vector: u16) {
        match ask!(self.probe, Interrupt, vector = vector) {
            None => self.bus.interrupt(vector),
            Some(Action::Lose) => {}
            Some(Action::Vector(other)) => self.bus.interrupt(other),
            Some(Action::Twice) => {
                self.bus.interrupt(vector);
                self.bus.interrupt(vector);
            }
            Some(action) => {
                let until = Until::asked(&action, self.probe.now());
                let kept = until.map(|until| self.late.borrow_mut().push(until, vector));
                if kept.is_none_or(|kept| kept.is_err()) {
                    self.bus.interrupt(vector);
                }
            }
        }
    }
}

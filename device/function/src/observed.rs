//! The bus while somebody wants to know what goes over it.

use dma::{Bus, Dma, DmaError};
use probe::{Action, Point, Points, Probe, Site, Until, Value, ask};

use crate::late::Late;

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
    /// What faults keep back.
    late: &'a Late,
}

impl Observed<'_> {
    /// Calls `then` with `bus`, observed if somebody wants to know.
    pub fn during<T>(
        bus: &dyn Bus,
        probe: &Probe,
        late: &Late,
        then: impl FnOnce(&dyn Bus) -> T,
    ) -> T {
        if probe.armed_any(ALL) { then(&Observed { bus, probe, late }) } else { then(bus) }
    }

    /// What a fault makes of an access.
    fn fault<const N: usize>(
        &self,
        point: Point,
        values: [(&'static str, u64); N],
    ) -> Option<Action> {
        if !self.probe.asks(point) {
            return None;
        }
        let values = values.map(|(name, number)| (name, Value::Number(number)));
        self.probe.ask(&Site { point, layout: None, bytes: &[], values: &values })
    }

    fn until(&self, action: &Action) -> Option<Until> {
        Until::asked(action, self.probe.now())
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
        let outcome = match self.fault(Point::DmaRead, [("addr", addr), ("len", len)]) {
            Some(Action::Refuse) => Err(DmaError::Unmapped { addr, len }),
            Some(Action::Torn(most)) => {
                let (now, never) = buf.split_at_mut(most.min(len) as usize);
                never.fill(0);
                self.bus.read(addr, now)
            }
            _ => self.bus.read(addr, buf),
        };
        let data = if outcome.is_ok() { &*buf } else { &[] };
        self.tell(Point::DmaRead, data, [("addr", addr), ("len", len)], &outcome);
        outcome
    }

    fn write(&self, addr: u64, data: &[u8]) -> Result<(), DmaError> {
        let len = data.len() as u64;
        let outcome = match self.fault(Point::DmaWrite, [("addr", addr), ("len", len)]) {
            None => self.bus.write(addr, data),
            Some(Action::Refuse) => Err(DmaError::Unmapped { addr, len }),
            Some(Action::Lose) => Ok(()),
            Some(Action::Torn(most)) => {
                self.bus.write(addr, data.get(..most.min(len) as usize).unwrap_or(data))
            }
            Some(action) => match self.until(&action) {
                Some(until) if self.late.write(until, addr, data.to_vec()) => Ok(()),
                _ => self.bus.write(addr, data),
            },
        };
        self.tell(Point::DmaWrite, data, [("addr", addr), ("len", len)], &outcome);
        outcome
    }

    fn copy(&self, src: u64, dst: u64, len: u64) -> Result<(), DmaError> {
        let values = [("src", src), ("dst", dst), ("len", len)];
        let outcome = match self.fault(Point::DmaCopy, values) {
            None => self.bus.copy(src, dst, len),
            Some(Action::Refuse) => Err(DmaError::Unmapped { addr: src, len }),
            Some(Action::Lose) => Ok(()),
            Some(Action::Torn(most)) => self.bus.copy(src, dst, most.min(len)),
            Some(action) => match self.until(&action).filter(|_| self.late.has_room(len)) {
                // What is copied is what is there now.
                Some(until) => {
                    let mut data = vec![0; len as usize];
                    self.bus.read(src, &mut data).and_then(|()| {
                        if self.late.write(until, dst, data) {
                            return Ok(());
                        }
                        self.bus.copy(src, dst, len)
                    })
                }
                None => self.bus.copy(src, dst, len),
            },
        };
        self.tell(Point::DmaCopy, &[], values, &outcome);
        outcome
    }

    fn compare_exchange(&self, addr: u64, old: [u8; 8], new: [u8; 8]) -> Result<[u8; 8], DmaError> {
        let outcome = match self.fault(Point::DmaExchange, [("addr", addr)]) {
            Some(Action::Refuse) => Err(DmaError::Unmapped { addr, len: 8 }),
            _ => self.bus.compare_exchange(addr, old, new),
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
                let until = self.until(&action);
                if !until.is_some_and(|until| self.late.interrupt(until, vector)) {
                    self.bus.interrupt(vector);
                }
            }
        }
    }
}

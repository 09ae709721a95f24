//! The bus while somebody wants to know what goes over it.

use dma::{Bus, Dma, DmaError};
use probe::{Point, Points, Probe, Site, Value, at};

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
}

impl Observed<'_> {
    /// Calls `then` with `bus`, observed if somebody wants to know.
    pub fn during<T>(bus: &dyn Bus, probe: &Probe, then: impl FnOnce(&dyn Bus) -> T) -> T {
        if probe.armed_any(ALL) { then(&Observed { bus, probe }) } else { then(bus) }
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
        self.probe.at(&Site { point, layout: None, bytes, values });
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
        let outcome = self.bus.read(addr, buf);
        let len = buf.len() as u64;
        let data = if outcome.is_ok() { &*buf } else { &[] };
        self.tell(Point::DmaRead, data, [("addr", addr), ("len", len)], &outcome);
        outcome
    }

    fn write(&self, addr: u64, data: &[u8]) -> Result<(), DmaError> {
        let outcome = self.bus.write(addr, data);
        let len = data.len() as u64;
        self.tell(Point::DmaWrite, data, [("addr", addr), ("len", len)], &outcome);
        outcome
    }

    fn copy(&self, src: u64, dst: u64, len: u64) -> Result<(), DmaError> {
        let outcome = self.bus.copy(src, dst, len);
        let values = [("src", src), ("dst", dst), ("len", len)];
        self.tell(Point::DmaCopy, &[], values, &outcome);
        outcome
    }

    fn compare_exchange(&self, addr: u64, old: [u8; 8], new: [u8; 8]) -> Result<[u8; 8], DmaError> {
        let outcome = self.bus.compare_exchange(addr, old, new);
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
        at!(self.probe, Interrupt, vector = vector);
        self.bus.interrupt(vector);
    }
}

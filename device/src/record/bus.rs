//! A bus that notes what goes over it.

use dma::{Bus, Dma, DmaError};
use trace::Event;

use super::Recorder;

/// Passes everything to `bus` and notes it with what came of it.
pub struct RecordingBus<'a> {
    pub bus: &'a dyn Bus,
    pub recorder: &'a Recorder,
}

impl Dma for RecordingBus<'_> {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        let outcome = self.bus.read(addr, buf);
        let (len, buf) = (buf.len() as u64, &*buf);
        self.recorder.note(Event::DmaRead { addr, len, outcome: outcome.map(|()| buf) });
        outcome
    }

    fn write(&self, addr: u64, data: &[u8]) -> Result<(), DmaError> {
        let outcome = self.bus.write(addr, data);
        self.recorder.note(Event::DmaWrite { addr, data, outcome });
        outcome
    }

    fn copy(&self, src: u64, dst: u64, len: u64) -> Result<(), DmaError> {
        let outcome = self.bus.copy(src, dst, len);
        self.recorder.note(Event::DmaCopy { src, dst, len, outcome });
        outcome
    }

    fn compare_exchange(&self, addr: u64, old: [u8; 8], new: [u8; 8]) -> Result<[u8; 8], DmaError> {
        let outcome = self.bus.compare_exchange(addr, old, new);
        self.recorder.note(Event::CompareExchange { addr, old, new, outcome });
        outcome
    }
}

impl Bus for RecordingBus<'_> {
    fn interrupt(&self, vector: u16) {
        self.bus.interrupt(vector);
        self.recorder.note(Event::Interrupt(vector));
    }
}

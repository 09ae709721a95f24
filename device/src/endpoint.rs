//! The PCI function as its client sees it: configuration space, BARs, vectors, guest memory, and the
//! card behind them.

mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

use control::{Metrics, Refusal, RefusalKind, Request, SlotChange};
use dma::{Bus, Dma, DmaError};
use function::{BAR0_SIZE, Config, Unfired, Wake};
use serde::Serialize;
use serde_json::Value;
use trace::WriteError;

use crate::irq::Vectors;
use crate::latency::Measured;
use crate::memory::{GuestMemory, give_back};
use crate::pci::{CONFIG_SIZE, ConfigSpace, Effect, MSIX_BAR_SIZE, MSIX_PENDING_AT, OutOfRange};
use crate::record::{Card, Recorder};
use crate::tracer::{StartTraceError, TraceOptions, Tracer};

/// What can be read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// The card's registers.
    Bar0,
    /// The MSI-X table, of which we keep nothing, and the pending bits.
    Msix,
    /// Configuration space.
    Config,
}

impl Space {
    /// Its size in bytes.
    pub const fn size(self) -> u64 {
        match self {
            Self::Bar0 => BAR0_SIZE,
            Self::Msix => MSIX_BAR_SIZE,
            Self::Config => CONFIG_SIZE as u64,
        }
    }

    fn check(self, offset: u64, len: usize) -> Result<(), OutOfRange> {
        let end = offset.checked_add(len as u64).filter(|&end| end <= self.size());
        end.map(drop).ok_or(OutOfRange { offset, len })
    }
}

/// One function: the card and what surrounds it.
pub struct Endpoint {
    card: Card,
    config: ConfigSpace,
    /// What the client has mapped.
    pub memory: GuestMemory,
    /// The client's descriptors for interrupts.
    pub vectors: Vectors,
    clock: Instant,
    tracer: Option<Tracer>,
    measured: Measured,
    /// There is another card in the slot once the driver has let go of this one.
    replugged: bool,
}

impl Endpoint {
    /// A function as after power-on.
    pub fn new(config: &Config, recorder: Option<Recorder>) -> Self {
        Self {
            card: Card::new(config, recorder),
            config: ConfigSpace::new(config.identity.serial),
            memory: GuestMemory::new(),
            vectors: Vectors::default(),
            clock: Instant::now(),
            tracer: None,
            measured: Measured::default(),
            replugged: false,
        }
    }

    /// Traces what happens from now on; `name` is what the trace calls the function.
    pub fn trace(&mut self, options: TraceOptions, name: &str) -> Result<(), StartTraceError> {
        self.tracer = Some(Tracer::start(options, name, self.clock, self.card.probe())?);
        Ok(())
    }

    /// Nanoseconds since the function exists: the card's clock.
    pub fn now(&self) -> u64 {
        // 584 years.
        self.clock.elapsed().as_nanos() as u64
    }

    /// Reads. A BAR that is switched off answers as an empty slot does.
    pub fn read(&mut self, space: Space, offset: u64, data: &mut [u8]) -> Result<(), OutOfRange> {
        space.check(offset, data.len())?;
        match space {
            Space::Config | Space::Msix if self.card.is_off_bus() => data.fill(0xff),
            Space::Config => self.config.read(offset, data)?,
            _ if !self.config.memory_enabled() => data.fill(0xff),
            Space::Bar0 => self.card.bar_read(self.now(), offset, data),
            Space::Msix => {
                let pending = self.vectors.pending().to_le_bytes();
                for (byte, at) in data.iter_mut().zip(offset..) {
                    let bits = at.checked_sub(MSIX_PENDING_AT).map(|at| at as usize);
                    *byte = bits.and_then(|at| pending.get(at).copied()).unwrap_or(0);
                }
            }
        }
        Ok(())
    }

    /// Writes. What is written to a BAR that is switched off is lost.
    pub fn write(&mut self, space: Space, offset: u64, data: &[u8]) -> Result<(), OutOfRange> {
        space.check(offset, data.len())?;
        match space {
            Space::Config | Space::Msix if self.card.is_off_bus() => {}
            Space::Config => {
                match self.config.write(offset, data)? {
                    Effect::None => {}
                    Effect::Reset => self.reset(),
                }
                if self.replugged && !self.config.bus_master() {
                    self.power_on();
                }
                if !self.config.msix_enabled() {
                    self.vectors.forget_pending();
                }
            }
            Space::Bar0 if self.config.memory_enabled() => {
                let now = self.now();
                let Self { card, config, memory, vectors, measured, .. } = self;
                measured.rung(now, card.probe());
                card.bar_write(now, &HostBus { config, memory, vectors }, offset, data);
            }
            Space::Bar0 | Space::Msix => {}
        }
        Ok(())
    }

    /// Gives the card time to work.
    pub fn poll(&mut self) -> Wake {
        let now = self.now();
        let Self { card, config, memory, vectors, .. } = self;
        let wake = card.poll(now, &HostBus { config, memory, vectors });
        if wake != Wake::Now && self.measured.is_running() {
            let now = self.now();
            self.measured.finished(now, self.card.probe());
        }
        wake
    }

    /// Answers one control request.
    pub fn control(&mut self, request: &Request) -> Result<Value, Refusal> {
        match request {
            Request::Trace { level, filter } => {
                return self.control_trace(level.as_deref(), filter.as_deref());
            }
            Request::Metrics {} => return self.metrics().and_then(|metrics| json(&metrics)),
            _ => {}
        }
        let Self { card, config, memory, vectors, .. } = self;
        card.control(&HostBus { config, memory, vectors }, request)
    }

    fn control_trace(
        &mut self,
        level: Option<&str>,
        filter: Option<&str>,
    ) -> Result<Value, Refusal> {
        let Some(tracer) = &mut self.tracer else {
            let message = "nothing is traced: the card was started without --trace".into();
            return Err(Refusal { kind: RefusalKind::NotFound, message });
        };
        tracer.change(level, filter, self.card.probe())?;
        json(&tracer.status())
    }

    /// Everything that is counted and measured.
    fn metrics(&mut self) -> Result<Metrics, Refusal> {
        let status = self.control(&Request::Status {})?;
        let status = serde_json::from_value(status).map_err(refusal)?;
        Ok(Metrics { time: self.now(), status, latencies: self.measured.shown() })
    }

    /// Function-level reset. What the client has mapped and its descriptors stay: they are not the function's.
    pub fn reset(&mut self) {
        let Self { card, config, memory: _, vectors, clock: _, tracer: _, measured, replugged: _ } =
            self;
        card.reset();
        config.reset();
        vectors.forget_pending();
        measured.stop();
    }

    /// A client has connected.
    pub fn connected(&mut self) {
        let now = self.now();
        self.card.connected(now);
    }

    /// The card is put into its slot: as after power-on. A driver that is letting go of the card that
    /// was there is left to do so.
    pub fn replug(&mut self) {
        if self.card.is_off_bus() || !self.config.bus_master() {
            self.power_on();
        } else {
            self.replugged = true;
        }
    }

    fn power_on(&mut self) {
        self.replugged = false;
        self.reset();
        self.connected();
    }

    /// See [`Card::slot_change`].
    pub fn slot_change(&mut self) -> Option<SlotChange> {
        self.card.slot_change()
    }

    /// The client is gone: the function is as new and holds nothing of it.
    pub fn disconnect(&mut self) {
        self.reset();
        self.replugged = false;
        self.vectors.release();
        self.memory.unmap_all();
        give_back();
    }

    /// Gives or takes the descriptor of one vector.
    pub fn assign_vector(&mut self, vector: u16, descriptor: Option<OwnedFd>) {
        self.vectors.assign(vector, descriptor);
    }

    /// See [`Card::unfired`].
    pub fn unfired(&self) -> BTreeMap<String, Unfired> {
        self.card.unfired()
    }

    /// See [`Card::flush`].
    pub fn flush(&self) -> Result<(), WriteError> {
        self.card.flush()
    }
}

fn json(reply: &impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(reply).map_err(refusal)
}

fn refusal(error: serde_json::Error) -> Refusal {
    Refusal { kind: RefusalKind::BadRequest, message: error.to_string() }
}

/// The bus as the card sees it: reachable while configuration space says so.
struct HostBus<'a> {
    config: &'a ConfigSpace,
    memory: &'a GuestMemory,
    vectors: &'a Vectors,
}

impl HostBus<'_> {
    fn check(&self, addr: u64, len: u64, write: bool) -> Result<(), DmaError> {
        if self.config.bus_master() {
            Ok(())
        } else {
            Err(DmaError::Forbidden { addr, len, write })
        }
    }
}

impl Dma for HostBus<'_> {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        self.check(addr, buf.len() as u64, false)?;
        self.memory.read(addr, buf)
    }

    fn write(&self, addr: u64, data: &[u8]) -> Result<(), DmaError> {
        self.check(addr, data.len() as u64, true)?;
        self.memory.write(addr, data)
    }

    fn copy(&self, src: u64, dst: u64, len: u64) -> Result<(), DmaError> {
        self.check(src, len, false)?;
        self.memory.copy(src, dst, len)
    }

    fn compare_exchange(&self, addr: u64, old: [u8; 8], new: [u8; 8]) -> Result<[u8; 8], DmaError> {
        self.check(addr, 8, true)?;
        self.memory.compare_exchange(addr, old, new)
    }
}

impl Bus for HostBus<'_> {
    fn interrupt(&self, vector: u16) {
        if self.config.bus_master() {
            self.vectors.send(vector, self.config.msix_enabled());
        }
    }
}

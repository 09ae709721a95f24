//! The whole card as a pure thing: register accesses, time and DMA come in; replies and interrupts
//! go out.
#![forbid(unsafe_code)]

mod config;

use dma::Bus;

pub use config::{Config, Identity, Limits, Link, Profile};

/// When the function wants to be polled again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// As soon as the socket has been looked at: there is more queued work.
    Now,
    /// At this time, in ns of the clock that `now` is taken from.
    At(u64),
    /// When something comes in.
    Idle,
}

/// One card.
#[derive(Debug, Default)]
pub struct Function {}

/// Size of BAR0 in bytes: initialization segment and 8192 UAR pages.
pub const BAR0_SIZE: u64 = 32 << 20;

impl Function {
    /// A card before it is powered on.
    pub fn new(_config: &Config) -> Self {
        Self::default()
    }

    /// Reads `data.len()` bytes of BAR0 at `offset`. `now` is in ns.
    pub fn bar_read(&mut self, _now: u64, _offset: u64, data: &mut [u8]) {
        data.fill(0);
    }

    /// Writes BAR0.
    pub fn bar_write(&mut self, _now: u64, _bus: &dyn Bus, _offset: u64, _data: &[u8]) {}

    /// Does a slice of the queued work and what is due by time.
    pub fn poll(&mut self, _now: u64, _bus: &dyn Bus) -> Wake {
        Wake::Idle
    }

    /// Function-level reset: everything is as after power-on.
    pub fn reset(&mut self) {}

    /// Answers one control request.
    pub fn control(
        &mut self,
        _bus: &dyn Bus,
        _request: &control::Request,
    ) -> Result<serde_json::Value, control::Refusal> {
        Err(control::Refusal {
            kind: control::RefusalKind::NotFound,
            message: "not there yet".into(),
        })
    }
}

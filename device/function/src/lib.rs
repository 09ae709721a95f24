//! The whole card as a pure thing: register accesses, time and DMA come in; replies and interrupts
//! go out. The same inputs in the same order give the same outputs, whatever the host's speed.
//!
//! ```text
//! BAR0  0x0000000  initialization segment: command queue, health, timer        → cmdif
//!       0x0010000  UAR pages: doorbells of event, completion and send queues   → eq, engine
//! ```
#![forbid(unsafe_code)]

mod config;
mod doorbell;
mod inspect;
mod late;
mod observed;
mod trouble;

use std::collections::BTreeMap;

use cmdif::{CommandInterface, Outcome, SEGMENT_SIZE};
use control::{Refusal, RefusalKind, Released, Request, SlotChange};
use dma::Bus;
use engine::Engine;
use firmware::dispatch::CommandExecutor;
use firmware::profile;
use firmware::{Firmware, port};
use layouts::EventType;
use probe::{Action, Probe, ask, at};

pub use config::{Config, Identity, Limits, Link, Profile};
pub use trouble::Unfired;

use doorbell::Doorbells;
use observed::Observed;
use trouble::Trouble;

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

/// Size of BAR0 in bytes: initialization segment and 8192 UAR pages.
pub const BAR0_SIZE: u64 = 32 << 20;

/// Work of one poll, in bytes moved: about a millisecond's worth.
const SLICE: usize = 4 << 20;
/// What a command costs beside the bytes that it carries, in the same measure.
const COMMAND_COST: usize = 512;

/// How long drivers wait for the firmware to start and for a command, where fault tests are to be
/// quick: in ms. What they take without is 2000 and 60000.
const FAST: cmdif::Timeouts = cmdif::Timeouts { initializing_ms: 2000, command_ms: 3000 };

/// One card.
pub struct Function {
    commands: CommandInterface,
    firmware: Firmware,
    engine: Engine,
    doorbells: Doorbells,
    trouble: Trouble,
    probe: Probe,
}

impl Function {
    /// A card before it is powered on.
    pub fn new(config: &Config) -> Self {
        let limits = config.limits();
        let profile = match config.profile {
            Profile::ConnectX6 => profile::Profile::connectx6(&limits, config.umr),
        };
        let identity = cmdif::Identity {
            fw_version: profile.fw_version,
            timer_khz: profile.device_frequency_khz,
            timeouts: config.fast_timeouts.then_some(FAST),
        };
        let names = port::Identity {
            node_guid: config.identity.node_guid,
            port_guid: config.identity.port_guid,
            system_image_guid: config.identity.system_image_guid,
            lid: config.identity.lid,
        };
        let probe = Probe::new();
        Self {
            commands: CommandInterface::new(identity, cmdif::Limits::default()),
            firmware: Firmware::new(profile, limits, names),
            engine: Engine::new(),
            doorbells: Doorbells::default(),
            trouble: Trouble::new(&config.faults, &probe),
            probe,
        }
    }

    /// Reads `data.len()` bytes of BAR0 at `offset`. `now` is in ns. Doorbells can't be read.
    pub fn bar_read(&mut self, now: u64, offset: u64, data: &mut [u8]) {
        self.probe.set_now(now);
        if self.trouble.off_bus {
            data.fill(0xff);
        } else if offset < SEGMENT_SIZE as u64 {
            self.commands.read(now, &self.probe, offset, data);
        } else {
            data.fill(0);
        }
        if let Some(Action::Set(patches)) =
            ask!(self.probe, RegisterRead, (None, data), offset = offset)
        {
            probe::apply_at(&patches, offset, data);
        }
    }

    /// Writes BAR0. What a doorbell sets going is done by [`Self::poll`].
    pub fn bar_write(&mut self, now: u64, bus: &dyn Bus, offset: u64, data: &[u8]) {
        self.firmware.now = now;
        self.probe.set_now(now);
        at!(self.probe, RegisterWrite, (None, data), offset = offset);
        if self.trouble.off_bus {
            return;
        }
        if offset < SEGMENT_SIZE as u64 {
            // Whether a command is completed with an event is settled when it is issued: the
            // driver polls for the one that makes the event queue of commands.
            let events = self.firmware.eqs.wanted(EventType::CMD);
            self.commands.write(&self.probe, offset, data, events);
            if self.commands.segment.reset_is_wanted() {
                self.reset();
                self.commands.segment.wait_for_driver();
            }
        } else {
            let Self { firmware, engine, doorbells, trouble, probe, .. } = self;
            Observed::during(bus, probe, &trouble.late, |bus| {
                doorbells.write(firmware, engine, (bus, probe), offset, data);
            });
        }
    }

    /// Does a slice of the queued work and what is due by time.
    pub fn poll(&mut self, now: u64, bus: &dyn Bus) -> Wake {
        self.firmware.now = now;
        self.probe.set_now(now);
        let Self { commands, firmware, engine, doorbells, trouble, probe } = self;
        trouble.strike(commands, firmware, (bus, probe));
        if trouble.off_bus {
            return trouble.deadline().map_or(Wake::Idle, Wake::At);
        }
        trouble.late.go_on(bus, probe);
        let more = Observed::during(bus, probe, &trouble.late, |bus| {
            firmware.eqs.go_on((bus, probe));
            doorbells.go_on(firmware, engine, (bus, probe));
            let left = run_commands(commands, firmware, (bus, probe));
            engine.run(firmware, (bus, probe), left)
        });
        // What rules that have fired meanwhile say.
        trouble.strike(commands, firmware, (bus, probe));
        if commands.pending() || more {
            return Wake::Now;
        }
        let deadlines = [
            commands.deadline(),
            firmware.eqs.deadline(),
            doorbells.deadline(),
            trouble.deadline(),
            engine.deadline(firmware),
        ];
        deadlines.into_iter().flatten().min().map_or(Wake::Idle, Wake::At)
    }

    /// Function-level reset: everything is as after power-on. What was noted about the guest stays.
    pub fn reset(&mut self) {
        let Self { commands, firmware, engine, doorbells, trouble, probe } = self;
        trouble.reset(probe);
        at!(probe, Reset);
        commands.reset();
        firmware.power_on();
        engine.reset();
        doorbells.reset();
    }

    /// A client has connected: for it, this is power-on.
    pub fn connected(&mut self, now: u64) {
        self.probe.set_now(now);
        self.trouble.connected(&self.probe);
    }

    /// Whether the card does not answer: whoever looks for it finds all ones.
    pub fn is_off_bus(&self) -> bool {
        self.trouble.off_bus
    }

    /// What is to be done with the card's slot now, as fault rules have it.
    pub fn slot_change(&mut self) -> Option<SlotChange> {
        self.trouble.slot_change()
    }

    /// Where to install who wants to know what happens in the card, and what is to be told.
    pub fn probe(&self) -> &Probe {
        &self.probe
    }

    /// Answers one control request. `connected` and `connections` of a status are the caller's to
    /// fill in.
    pub fn control(
        &mut self,
        bus: &dyn Bus,
        request: &Request,
    ) -> Result<serde_json::Value, Refusal> {
        match request {
            Request::FaultAdd { rule } => {
                self.trouble.add(rule, &self.probe)?;
                json(&self.trouble.list())
            }
            Request::FaultList {} => json(&self.trouble.list()),
            Request::FaultClear { name } => {
                let gone = self.trouble.clear(name.as_deref(), &self.probe)?;
                for rule in gone {
                    self.release(rule);
                }
                json(&self.trouble.list())
            }
            Request::FaultRelease { name } => {
                let rule = self.trouble.number(name)?;
                json(&Released { released: self.release(rule) })
            }
            _ => {
                let Self { firmware, probe, trouble, .. } = self;
                inspect::answer(firmware, probe, bus, &|| trouble.list().rules, request)
            }
        }
    }

    /// Fault rules that have never fired, by name.
    pub fn unfired(&self) -> BTreeMap<String, Unfired> {
        self.trouble.unfired()
    }

    /// What a fault rule keeps back goes on with the next poll. Returns how much that is.
    fn release(&mut self, rule: u32) -> u64 {
        let now = self.probe.now();
        self.commands.release(rule, now)
            + self.firmware.eqs.release_late(rule, now)
            + self.doorbells.release(rule, now)
            + self.engine.release(&mut self.firmware, rule, now)
            + self.trouble.late.release(rule, now)
    }
}

fn json(reply: &impl serde::Serialize) -> Result<serde_json::Value, Refusal> {
    serde_json::to_value(reply)
        .map_err(|error| Refusal { kind: RefusalKind::BadRequest, message: error.to_string() })
}

/// Carries out commands until none waits or a slice of work is done. Returns what is left of it.
fn run_commands(
    commands: &mut CommandInterface,
    firmware: &mut Firmware,
    (bus, probe): (&dyn Bus, &Probe),
) -> usize {
    let mut left = SLICE;
    while left > 0 {
        let mut executor = CommandExecutor { firmware, probe };
        let Some(done) = commands.run_one(bus, probe, &mut executor) else { break };
        left = left.saturating_sub(done.bytes.saturating_add(COMMAND_COST));
        if let Outcome::Completed(_) = done.outcome
            && done.events
        {
            for _ in 0..if done.twice { 2 } else { 1 } {
                firmware.eqs.post_async((bus, probe), EventType::CMD, 0, |eqe| {
                    eqe.cmd_mut().set_vector(1u32.checked_shl(done.slot.into()).unwrap_or(0));
                });
            }
        }
    }
    left
}

//! What faults do to the card as a whole, and what they keep back outside of any layer.

use std::collections::{BTreeMap, VecDeque};

use cmdif::CommandInterface;
use control::{FaultState, Faults as Listed, Refusal, RefusalKind, SlotChange};
use dma::Bus;
use faults::{Effect, Faults, ResetOn, Rule};
use firmware::Firmware;
use firmware::port::Link;
use layouts::{EventType, PortChange};
use probe::{Probe, at};

use crate::late::Late;

/// Most changes of the slot that wait.
const MOST_CHANGES: usize = 4096;

/// A fault rule that has never fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfired {
    /// How often what it is about has happened.
    pub matched: u64,
    /// A run in which it does not fire has failed.
    pub must_fire: bool,
}

/// What is wrong with the card.
#[derive(Debug)]
pub struct Trouble {
    /// The rules.
    faults: Faults,
    /// There are rules: without any, nothing here costs anything.
    any: bool,
    /// Every register reads all ones.
    pub off_bus: bool,
    /// When that ends by itself.
    back_at: Option<u64>,
    /// What is to be done with the card's slot, the oldest first.
    slot: VecDeque<SlotChange>,
    /// Until when the firmware says that it starts.
    initializing: Option<u64>,
    /// What is kept back on the bus.
    pub late: Late,
}

impl Trouble {
    /// A card with these rules, which have been checked.
    pub fn new(rules: &[Rule], probe: &Probe) -> Self {
        let faults = Faults::new(rules).unwrap_or_else(|wrong| {
            log::error!("fault rule {}: {wrong}: no rules are used", wrong.rule);
            Faults::default()
        });
        probe.install_judge(Box::new(faults.clone()));
        let any = !faults.is_empty();
        let trouble = Self {
            faults,
            any,
            off_bus: false,
            back_at: None,
            slot: VecDeque::new(),
            initializing: None,
            late: Late::default(),
        };
        trouble.rearm(probe);
        trouble
    }

    fn rearm(&self, probe: &Probe) {
        if let Some(points) = self.faults.changed() {
            probe.ask_at(points);
        }
    }

    /// Lets rules fire whose time has come, and does to the card what rules that have fired say.
    pub fn strike(
        &mut self,
        commands: &mut CommandInterface,
        firmware: &mut Firmware,
        (bus, probe): (&dyn Bus, &Probe),
    ) {
        if !self.any {
            return;
        }
        let now = probe.now();
        for rule in self.faults.poll(now) {
            probe.fired(&rule, "time");
        }
        while let Some(effect) = self.faults.effect() {
            self.suffer(effect, commands, firmware, (bus, probe));
        }
        if self.back_at.is_some_and(|at| at <= now) {
            self.back_at = None;
            self.off_bus = false;
        }
        if self.initializing.is_some_and(|until| until <= now) {
            self.initializing = None;
            commands.segment.set_initializing(false);
        }
        self.rearm(probe);
    }

    fn suffer(
        &mut self,
        effect: Effect,
        commands: &mut CommandInterface,
        firmware: &mut Firmware,
        (bus, probe): (&dyn Bus, &Probe),
    ) {
        match effect {
            Effect::Event { event, sub_type, fields } => {
                let event = EventType(event);
                let posted = firmware.eqs.post_async((bus, probe), event, sub_type, |eqe| {
                    probe::apply(&fields, eqe.0);
                });
                if !posted {
                    log::warn!("a fault rule invents {event}, which no event queue was made for");
                }
            }
            Effect::Interrupt(vector) => bus.interrupt(vector),
            Effect::Health { syndrome, severity, fatal } => {
                at!(probe, Health, syndrome = syndrome, severity = severity, fatal = fatal);
                let mut health = commands.segment.health();
                health.set_synd(syndrome);
                health.set_severity(severity);
                health.set_valid(true);
                health.set_rfr(fatal);
            }
            Effect::HealthStops => commands.segment.stop_health(probe.now()),
            Effect::OffBus(time) => {
                self.off_bus = true;
                self.back_at = time.map(|ns| probe.now().saturating_add(ns));
            }
            Effect::Slot { plugged } => {
                if self.slot.len() < MOST_CHANGES {
                    let change = if plugged { SlotChange::Replug } else { SlotChange::Unplug };
                    self.slot.push_back(change);
                }
            }
            Effect::Port { up } => {
                if firmware.port.up != up {
                    at!(probe, Port, up = up);
                    firmware.port.up = up;
                    let what = if up { PortChange::ACTIVE } else { PortChange::DOWN };
                    firmware.eqs.post_async((bus, probe), EventType::PORT_CHANGE, what.0, |eqe| {
                        eqe.port_mut().set_port_num(1);
                    });
                }
            }
            Effect::Link { speed, width } => {
                firmware.port.link = Link { speed, width };
                let event = EventType::PORT_CHANGE;
                for what in [PortChange::DOWN, PortChange::ACTIVE] {
                    if firmware.port.up {
                        firmware.eqs.post_async((bus, probe), event, what.0, |eqe| {
                            eqe.port_mut().set_port_num(1);
                        });
                    }
                }
            }
            Effect::Initializing(ns) => {
                commands.segment.set_initializing(true);
                self.initializing = Some(probe.now().saturating_add(ns));
            }
        }
    }

    /// When it wants to be called, in ns of the probe's clock.
    pub fn deadline(&self) -> Option<u64> {
        let late = self.late.deadline();
        let rule = if self.any { self.faults.next() } else { None };
        [late, rule, self.back_at, self.initializing].into_iter().flatten().min()
    }

    /// The function is reset: it is well again, and rules may begin again.
    pub fn reset(&mut self, probe: &Probe) {
        // What was asked of the slot is asked whatever becomes of the function.
        let Self { faults, any: _, off_bus, back_at, slot: _, initializing, late } = self;
        *off_bus = false;
        *back_at = None;
        *initializing = None;
        late.reset();
        // What they have done to the function that was.
        while faults.effect().is_some() {}
        faults.restart(ResetOn::Flr, probe.now());
        self.rearm(probe);
    }

    /// A client has connected: rules may begin again.
    pub fn connected(&mut self, probe: &Probe) {
        self.late = Late::default();
        self.faults.restart(ResetOn::Connect, probe.now());
        self.rearm(probe);
    }

    /// What is to be done with the card's slot now.
    pub fn slot_change(&mut self) -> Option<SlotChange> {
        self.slot.pop_front()
    }

    /// One more rule.
    pub fn add(&mut self, rule: &serde_json::Value, probe: &Probe) -> Result<(), Refusal> {
        let refused = |message| Refusal { kind: RefusalKind::BadRequest, message };
        let rule: Rule = serde_json::from_value(rule.clone())
            .map_err(|error| refused(format!("not a fault rule: {error}")))?;
        self.faults.add(&rule, probe.now()).map_err(|wrong| refused(wrong.to_string()))?;
        self.any = true;
        self.rearm(probe);
        Ok(())
    }

    /// Forgets a rule, or all. Returns their numbers.
    pub fn clear(&mut self, name: Option<&str>, probe: &Probe) -> Result<Vec<u32>, Refusal> {
        if let Some(name) = name {
            self.number(name)?;
        }
        let gone = self.faults.clear(name);
        self.rearm(probe);
        Ok(gone)
    }

    /// The number of the rule of this name.
    pub fn number(&self, name: &str) -> Result<u32, Refusal> {
        self.faults.number(name).ok_or_else(|| Refusal {
            kind: RefusalKind::NotFound,
            message: format!("there is no fault rule \"{name}\""),
        })
    }

    /// All rules and their counters.
    pub fn list(&self) -> Listed {
        let state = |counts: faults::Counts| FaultState {
            name: counts.rule.name.clone(),
            at: counts.rule.at.clone(),
            matched: counts.matched,
            fired: counts.fired,
            must_fire: counts.rule.must_fire,
            rule: serde_json::to_value(&counts.rule).unwrap_or_default(),
        };
        Listed { rules: self.faults.counts().into_iter().map(state).collect() }
    }

    /// Rules that have never fired, by name.
    pub fn unfired(&self) -> BTreeMap<String, Unfired> {
        let counts = self.faults.counts().into_iter().filter(|counts| counts.fired == 0);
        let unfired = |it: faults::Counts| {
            (it.rule.name, Unfired { matched: it.matched, must_fire: it.rule.must_fire })
        };
        counts.map(unfired).collect()
    }
}

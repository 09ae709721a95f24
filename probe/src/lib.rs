//! The points at which something happens in the device, and what is noted there.
//!
//! One [`Probe`] is handed down by reference to whoever has something to note. It takes `&self`
//! everywhere, so that it can be lent to several layers of one call at once; a function runs on one
//! thread, so plain cells do. What is noted lives as long as the process: a reset of the function
//! does not touch it.
//!
//! * [`at!`]: what happens at a [`Point`], for whoever is installed as [`Hook`] and has armed it;
//! * [`ask!`]: the same at a point where something may go wrong: a [`Judge`] may answer an [`Action`];
//! * [`Probe::missing`]: what the guest touched and the device does not model (the burn-down list);
//! * [`Probe::mistake`]: what the guest did wrong;
//! * [`Probe::count`], [`Probe::command`]: running counters, cheap enough for every work request.
#![forbid(unsafe_code)]

mod action;
mod counters;
mod held;
mod notes;
mod point;
mod site;

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::fmt::Display;

pub use action::{Action, Defect, Judge, Patch, Verdict, apply, apply_at};
pub use counters::Counter;
pub use held::{Held, Until};
pub use point::{Point, Points};
pub use site::{Hook, Piece, Site, Value};

use counters::Counters;
use notes::{Missing, Mistakes};

/// The hooks are left out, to measure what they cost: nothing is ever armed, and the compiler knows.
const BARE: bool = cfg!(feature = "bare");

/// What is noted about one function and its guest.
#[derive(Debug, Default)]
pub struct Probe {
    /// What is told to the hook and what the judge is asked, together.
    armed: Cell<Points>,
    told: Cell<Points>,
    asked: Cell<Points>,
    hook: OnceCell<Box<dyn Hook>>,
    judge: OnceCell<Box<dyn Judge>>,
    now: Cell<u64>,
    missing: Missing,
    mistakes: Mistakes,
    counters: Counters,
}

impl Probe {
    /// Nothing noted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Installs who wants to know what happens, once and for all. Nothing is armed yet.
    pub fn install(&self, hook: Box<dyn Hook>) {
        if self.hook.set(hook).is_err() {
            log::error!("a second hook is not installed");
        }
    }

    /// From now on these points, and only these, are told to the hook.
    pub fn arm(&self, points: Points) {
        self.told.set(points);
        self.armed.set(points.plus(self.asked.get()));
    }

    /// Installs who decides what goes wrong, once and for all. It is not asked yet.
    pub fn install_judge(&self, judge: Box<dyn Judge>) {
        if self.judge.set(judge).is_err() {
            log::error!("a second judge is not installed");
        }
    }

    /// From now on the judge is asked at these points, and only at these.
    pub fn ask_at(&self, points: Points) {
        self.asked.set(points);
        self.armed.set(points.plus(self.told.get()));
    }

    /// Whether somebody wants to know what happens at this point.
    #[inline(always)]
    pub fn armed(&self, point: Point) -> bool {
        !BARE && self.armed.get().has(point)
    }

    /// Whether something may go wrong at this point.
    #[inline]
    pub fn asks(&self, point: Point) -> bool {
        !BARE && self.asked.get().has(point)
    }

    /// Whether somebody wants to know what happens at any of these points.
    #[inline(always)]
    pub fn armed_any(&self, points: Points) -> bool {
        !BARE && self.armed.get().has_any(points)
    }

    /// Tells the hook and asks the judge, who may answer what is to happen. Ask [`Probe::armed`]
    /// before anything is computed for it, or use [`at!`] or [`ask!`].
    #[cold]
    pub fn at(&self, site: &Site<'_>) -> Option<Action> {
        self.tell(site);
        self.ask(site)
    }

    /// Tells the hook alone.
    #[cold]
    pub fn tell(&self, site: &Site<'_>) {
        if self.told.get().has(site.point)
            && let Some(hook) = self.hook.get()
        {
            hook.at(self.now.get(), site);
        }
    }

    /// Asks the judge alone. The hook is told of a rule that fires.
    #[cold]
    pub fn ask(&self, site: &Site<'_>) -> Option<Action> {
        if !self.asks(site.point) {
            return None;
        }
        let Verdict { rule, action } = self.judge.get()?.decide(self.now.get(), site)?;
        self.fired(&rule, site.point.name());
        action
    }

    /// Tells the hook that a rule has fired at a point.
    pub fn fired(&self, rule: &str, at: &'static str) {
        log::debug!("fault rule \"{rule}\" fires at {at}");
        self.tell(&Site {
            point: Point::Fault,
            layout: None,
            bytes: rule.as_bytes(),
            values: &[("at", at.into())],
        });
    }

    /// The function's clock, in ns.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now.get()
    }

    /// The function's clock, in ns, for what is told from now on.
    #[inline]
    pub fn set_now(&self, now: u64) {
        self.now.set(now);
    }

    /// Notes that the guest touched `id` of `kind`, called `name`, which the device does not model.
    /// The first time is logged; all are counted. The number of different ones that are told apart
    /// is bounded.
    #[cold]
    pub fn missing(&self, kind: &'static str, id: impl Into<u64>, name: impl Display) {
        self.missing.note(kind, id.into(), &name);
    }

    /// What was touched and is not modelled, and how often: `opcode 0x826 QUERY_CONG_STATISTICS` → 2.
    pub fn touched(&self) -> BTreeMap<String, u64> {
        self.missing.list()
    }

    /// Notes a mistake of the guest. `kind` names the kind of mistake; the first of each kind is
    /// logged with its `message`, all are counted.
    #[cold]
    pub fn mistake(&self, kind: &'static str, message: impl FnOnce() -> String) {
        self.mistakes.note(kind, message);
    }

    /// Kinds of mistakes that the guest made, and how often.
    pub fn mistakes(&self) -> BTreeMap<&'static str, u64> {
        self.mistakes.list()
    }

    /// Counts one.
    #[inline]
    pub fn count(&self, counter: Counter) {
        self.counters.add(counter, 1);
    }

    /// Counts `n`.
    #[inline]
    pub fn add(&self, counter: Counter, n: u64) {
        self.counters.add(counter, n);
    }

    /// The value of a counter.
    pub fn value(&self, counter: Counter) -> u64 {
        self.counters.get(counter)
    }

    /// Counts one command.
    #[inline]
    pub fn command(&self, opcode: u16) {
        self.counters.command(opcode);
    }

    /// How many commands were counted.
    pub fn commands(&self) -> u64 {
        self.counters.commands()
    }

    /// All counters: every [`Counter`] by name, `commands`, and `command:NAME` for every opcode that
    /// was seen; `name` gives an opcode's name.
    pub fn counters<N: Display>(&self, name: impl Fn(u16) -> N) -> BTreeMap<String, u64> {
        self.counters.list(name)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Debug, Default)]
    struct Told(Arc<Mutex<Vec<String>>>);

    impl Hook for Told {
        fn at(&self, now: u64, site: &Site<'_>) {
            self.0.lock().unwrap().push(format!("{now} {site:?}"));
        }
    }

    #[test]
    fn only_what_is_armed_is_computed_and_told() {
        let probe = Probe::new();
        let told = Arc::default();
        probe.install(Box::new(Told(Arc::clone(&told))));
        let computed = Cell::new(0);
        let value = || {
            computed.set(computed.get() + 1);
            7u32
        };
        at!(probe, Interrupt, vector = value());
        probe.arm(Points::of(&[Point::Interrupt]));
        probe.set_now(40);
        at!(probe, Event, (None, &[1]), eqn = value());
        at!(probe, Interrupt, vector = value(), why = "test");
        assert_eq!(computed.get(), 1);
        let expected = "40 Site { point: Interrupt, layout: None, bytes: [], values: \
                        [(\"vector\", Number(7)), (\"why\", Word(\"test\"))] }";
        assert_eq!(*told.lock().unwrap(), [expected]);
    }

    #[derive(Debug)]
    struct Loses;

    impl Judge for Loses {
        fn decide(&self, _now: u64, site: &Site<'_>) -> Option<Verdict> {
            let action = Some(Action::Lose);
            (site.number("vector") == Some(7)).then(|| Verdict { rule: "a rule".into(), action })
        }
    }

    #[test]
    fn the_judge_answers_and_the_hook_is_told() {
        let probe = Probe::new();
        let told = Arc::default();
        probe.install(Box::new(Told(Arc::clone(&told))));
        probe.install_judge(Box::new(Loses));
        assert_eq!(ask!(probe, Interrupt, vector = 7u32), None, "it is not asked yet");
        probe.ask_at(Points::of(&[Point::Interrupt]));
        assert_eq!(ask!(probe, Interrupt, vector = 6u32), None);
        assert_eq!(ask!(probe, Interrupt, vector = 7u32), Some(Action::Lose));
        assert_eq!(told.lock().unwrap().len(), 0, "the hook has armed nothing");
        probe.arm(Points::of(&[Point::Fault]));
        assert_eq!(ask!(probe, Interrupt, vector = 7u32), Some(Action::Lose));
        let expected = "0 Site { point: Fault, layout: None, bytes: [97, 32, 114, 117, 108, 101], \
                        values: [(\"at\", Word(\"interrupt\"))] }";
        assert_eq!(*told.lock().unwrap(), [expected]);
        probe.ask_at(Points::NONE);
        assert_eq!(ask!(probe, Interrupt, vector = 7u32), None, "it is not asked any more");
    }
}

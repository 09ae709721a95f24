//! The rules of one function: what each has matched, and whether it fires.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use probe::{Action, Judge, Point, Points, Site, Verdict};

use crate::point::TIME;
use crate::rule::{ResetOn, Rule, Wrong};
use crate::select::{self, Test};
use crate::verb::{self, Deed, Effect};

/// Most rules at a time.
const MOST: usize = 4096;
/// Most effects that wait; what comes on top is lost.
const MOST_EFFECTS: usize = 4096;

/// What a rule has done so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// The rule.
    pub rule: Rule,
    /// How often what it is about has happened.
    pub matched: u64,
    /// How often it has fired.
    pub fired: u64,
}

/// The rules of one function. Clones are handles to the same rules.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Rules>>);

#[derive(Debug, Default)]
struct Rules {
    rules: Vec<Armed>,
    next_number: u32,
    effects: VecDeque<Effect>,
    /// A rule may have fired for the last time.
    changed: bool,
}

/// A rule that is ready to fire.
#[derive(Debug)]
struct Armed {
    number: u32,
    name: Arc<str>,
    rule: Rule,
    /// `None`: it fires by the clock.
    point: Option<Point>,
    tests: Vec<Test>,
    deed: Deed,
    matched: u64,
    fired: u64,
    /// When it was made, or its counters started again.
    since: u64,
    first_fired: Option<u64>,
    last_fired: Option<u64>,
    chance: u64,
}

impl Faults {
    /// These rules, from time 0 on.
    pub fn new(rules: &[Rule]) -> Result<Self, Wrong> {
        let faults = Self::default();
        for (index, rule) in rules.iter().enumerate() {
            let added = faults.add_among(rule, 0, rules);
            added.map_err(|wrong| Wrong { rule: index, ..wrong })?;
        }
        Ok(faults)
    }

    /// One more rule, behind the others.
    pub fn add(&self, rule: &Rule, now: u64) -> Result<(), Wrong> {
        self.add_among(rule, now, &[])
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_among(&self, rule: &Rule, now: u64, others: &[Rule]) -> Result<(), Wrong> {
        let mut rules = self.lock();
        if rules.rules.len() >= MOST {
            return Err(Wrong::new([], format!("there are {MOST} rules already")));
        }
        if rules.rules.iter().any(|known| known.rule.name == rule.name) {
            return Err(Wrong::new(["name"], format!("there is another rule \"{}\"", rule.name)));
        }
        if let Some(after) = &rule.after {
            let known = rules.rules.iter().map(|known| &known.rule).chain(others);
            if *after == rule.name || !known.into_iter().any(|known| known.name == *after) {
                return Err(Wrong::new(["after"], format!("there is no other rule \"{after}\"")));
            }
        }
        let number = rules.next_number;
        rules.rules.push(Armed::new(rule, number, now)?);
        rules.next_number = number.wrapping_add(1);
        rules.changed = true;
        Ok(())
    }

    /// Forgets the rule of this name, or all. Returns the numbers of those that are gone.
    pub fn clear(&self, name: Option<&str>) -> Vec<u32> {
        let mut rules = self.lock();
        let goes = |armed: &Armed| name.is_none_or(|name| armed.rule.name == name);
        let gone = rules.rules.iter().filter(|armed| goes(armed)).map(|armed| armed.number);
        let gone = gone.collect();
        rules.rules.retain(|armed| !goes(armed));
        rules.changed = true;
        gone
    }

    /// The number of a rule, by which what it holds is released.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.lock().rules.iter().find(|armed| armed.rule.name == name).map(|armed| armed.number)
    }

    /// All rules, in their order.
    pub fn counts(&self) -> Vec<Counts> {
        let rules = self.lock();
        let counts = |armed: &Armed| Counts {
            rule: armed.rule.clone(),
            matched: armed.matched,
            fired: armed.fired,
        };
        rules.rules.iter().map(counts).collect()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lock().rules.is_empty()
    }

    /// Counters of rules that ask for it start again.
    pub fn restart(&self, when: ResetOn, now: u64) {
        let mut rules = self.lock();
        for armed in rules.rules.iter_mut().filter(|armed| armed.rule.reset_on == Some(when)) {
            armed.restart(now);
        }
        rules.changed = true;
    }

    /// The points at which a rule may still fire, if that may be others than before.
    pub fn changed(&self) -> Option<Points> {
        let mut rules = self.lock();
        if !std::mem::take(&mut rules.changed) {
            return None;
        }
        let alive = rules.rules.iter().filter(|armed| !armed.is_spent());
        let points = alive.filter_map(|armed| armed.point);
        Some(points.fold(Points::NONE, |all, point| all.plus(Points::of(&[point]))))
    }

    /// Lets rules fire whose time has come. Returns their names.
    pub fn poll(&self, now: u64) -> Vec<Arc<str>> {
        let mut rules = self.lock();
        let mut names = Vec::new();
        for index in 0..rules.rules.len() {
            let due = rules.due_at(index).is_some_and(|at| at <= now);
            let Some(armed) = rules.rules.get_mut(index).filter(|_| due) else { continue };
            armed.matched += 1;
            let effect = match &armed.deed {
                Deed::Effect(effect) => Some(effect.clone()),
                Deed::Action(_) | Deed::Hold | Deed::HoldDelivery(_) => None,
            };
            armed.fire(now);
            names.push(Arc::clone(&armed.name));
            rules.take_effect(effect);
        }
        names
    }

    /// When a rule that fires by the clock is next due.
    pub fn next(&self) -> Option<u64> {
        let rules = self.lock();
        (0..rules.rules.len()).filter_map(|index| rules.due_at(index)).min()
    }

    /// What happens to the card now, the oldest first.
    pub fn effect(&self) -> Option<Effect> {
        self.lock().effects.pop_front()
    }
}

impl Judge for Faults {
    fn decide(&self, now: u64, site: &Site<'_>) -> Option<Verdict> {
        self.lock().decide(now, site)
    }
}

impl Rules {
    fn decide(&mut self, now: u64, site: &Site<'_>) -> Option<Verdict> {
        for index in 0..self.rules.len() {
            let ready = self.rules.get(index).is_some_and(|armed| {
                armed.point == Some(site.point)
                    && !armed.is_spent()
                    && self.awake_from(armed).is_some_and(|at| at <= now)
                    && armed.tests.iter().all(|test| test.holds(site))
            });
            let Some(armed) = self.rules.get_mut(index).filter(|_| ready) else { continue };
            armed.matched += 1;
            if !armed.chosen() {
                continue;
            }
            armed.fire(now);
            let rule = Arc::clone(&armed.name);
            let (action, effect) = match &armed.deed {
                Deed::Action(action) => (Some(action.clone()), None),
                Deed::Hold => (Some(Action::Hold(armed.number)), None),
                Deed::HoldDelivery(status) => {
                    (Some(Action::HoldDelivery(armed.number, *status)), None)
                }
                Deed::Effect(effect) => (None, Some(effect.clone())),
            };
            self.take_effect(effect);
            return Some(Verdict { rule, action });
        }
        None
    }

    fn take_effect(&mut self, effect: Option<Effect>) {
        self.changed = true;
        if self.effects.len() < MOST_EFFECTS {
            self.effects.extend(effect);
        }
    }

    /// From when on a rule matches anything at all; `None` while it waits for another.
    fn awake_from(&self, armed: &Armed) -> Option<u64> {
        let begins = match &armed.rule.after {
            None => armed.since,
            Some(after) => self.rules.iter().find(|other| other.rule.name == *after)?.first_fired?,
        };
        Some(begins.saturating_add(milliseconds(armed.rule.after_ms.unwrap_or(0))))
    }

    /// When a rule that fires by the clock does so next.
    fn due_at(&self, index: usize) -> Option<u64> {
        let armed = self.rules.get(index)?;
        if armed.point.is_some() || armed.is_spent() {
            return None;
        }
        let period = armed.rule.every_ms.or(armed.rule.after_ms).unwrap_or(0);
        let period = milliseconds(period.max(1));
        match armed.last_fired {
            Some(last) => Some(last.saturating_add(period)),
            None => self.awake_from(armed),
        }
    }
}

fn milliseconds(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

impl Armed {
    fn new(rule: &Rule, number: u32, now: u64) -> Result<Self, Wrong> {
        if rule.name.is_empty() || rule.name.len() > 200 || rule.name.contains(char::is_control) {
            return Err(Wrong::new(["name"], "name: expected 1 to 200 printable characters"));
        }
        let point = match rule.at.as_str() {
            TIME => None,
            name => Some(
                Point::from_name(name).filter(|&point| point != Point::Fault).ok_or_else(|| {
                    let known = Point::ALL.iter().filter(|&&point| point != Point::Fault);
                    let known: Vec<_> = known.map(|point| point.name()).collect();
                    Wrong::new(
                        ["at"],
                        format!(
                            "there is no point \"{name}\"; there are time, {}",
                            known.join(", ")
                        ),
                    )
                })?,
            ),
        };
        check_choice(rule, point)?;
        let tests = match point {
            Some(point) => select::tests(rule, point)?,
            None => Vec::new(),
        };
        let deed = verb::deed(rule, point)?;
        let mut armed = Self {
            number,
            name: rule.name.as_str().into(),
            rule: rule.clone(),
            point,
            tests,
            deed,
            matched: 0,
            fired: 0,
            since: now,
            first_fired: None,
            last_fired: None,
            chance: 0,
        };
        armed.restart(now);
        Ok(armed)
    }

    fn restart(&mut self, now: u64) {
        (self.matched, self.fired, self.since) = (0, 0, now);
        (self.first_fired, self.last_fired) = (None, None);
        self.chance = self.rule.seed.unwrap_or(0);
    }

    /// It has fired as often as it may.
    fn is_spent(&self) -> bool {
        self.rule.count != 0 && self.fired >= self.rule.count
    }

    /// Whether the match that was just counted is one at which it fires.
    fn chosen(&mut self) -> bool {
        let Rule { nth, every, probability, .. } = &self.rule;
        let nth = nth.is_none_or(|nth| self.matched >= nth);
        let every = every.is_none_or(|every| self.matched.is_multiple_of(every));
        let Some(probability) = probability.map(|chance| chance.0) else { return nth && every };
        // SplitMix64; 53 bits of it are a fraction.
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.chance;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let fraction = ((mixed ^ mixed >> 31) >> 11) as f64 / (1u64 << 53) as f64;
        nth && every && fraction < probability
    }

    fn fire(&mut self, now: u64) {
        self.fired += 1;
        self.first_fired.get_or_insert(now);
        self.last_fired = Some(now);
    }
}

/// Whether which matches it fires at can be.
fn check_choice(rule: &Rule, point: Option<Point>) -> Result<(), Wrong> {
    let Rule { nth, every, probability, seed, after_ms, .. } = rule;
    for (key, value) in [("nth", nth), ("every", every)] {
        if *value == Some(0) {
            return Err(Wrong::new([key], format!("{key}: expected 1 or more")));
        }
    }
    if probability.is_some_and(|chance| !(chance.0 > 0.0 && chance.0 <= 1.0)) {
        return Err(Wrong::new(["probability"], "probability: expected more than 0 and at most 1"));
    }
    if seed.is_some() && probability.is_none() {
        return Err(Wrong::new(["seed"], "seed: without a probability nothing is left to chance"));
    }
    if point.is_some() {
        return match rule.every_ms {
            Some(_) => {
                Err(Wrong::new(["every_ms"], "every_ms: only at = \"time\" comes again by itself"))
            }
            None => Ok(()),
        };
    }
    if rule.every_ms == Some(0) {
        return Err(Wrong::new(["every_ms"], "every_ms: expected 1 or more"));
    }
    let chooses = [
        ("nth", nth.is_some()),
        ("every", every.is_some()),
        ("probability", probability.is_some()),
        ("where", !rule.r#where.is_empty()),
    ];
    if let Some((key, _)) = chooses.into_iter().find(|(_, given)| *given) {
        return Err(Wrong::new(
            [key],
            format!("{key}: nothing is chosen by at = \"time\", only after_ms, every_ms and count"),
        ));
    }
    if after_ms.is_none() {
        return Err(Wrong::new(["at"], "at = \"time\" needs after_ms"));
    }
    Ok(())
}

//! What a rule does.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use layouts::decode::value_name;
use layouts::{Eqe, ErrCqe};
use probe::{Action, Defect, Patch, Point};

use crate::point;
use crate::rule::{Arg, Do, Rule, Wrong};
use crate::select::{self, one, only_opcode};

/// Speeds of a lane, and the numbers of their bits in the register PTYS.
pub const SPEEDS: &[(&str, u8)] =
    &[("SDR", 0), ("DDR", 1), ("QDR", 2), ("FDR", 4), ("EDR", 5), ("HDR", 6)];

/// What happens to the card as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// An event that nothing caused.
    Event {
        /// Its type.
        event: u8,
        /// Its subtype.
        sub_type: u8,
        /// What it says.
        fields: Arc<[Patch]>,
    },
    /// An interrupt that nothing caused.
    Interrupt(u16),
    /// The health buffer says that something is wrong.
    Health {
        /// What.
        syndrome: u8,
        /// How bad, from 0, emergency, to 7, debugging.
        severity: u8,
        /// The driver must recover.
        fatal: bool,
    },
    /// The health counter stands still from now on.
    HealthStops,
    /// Every register reads all ones from now on, for so many ns or until a reset, and nothing that
    /// is written arrives.
    OffBus(Option<u64>),
    /// The card is taken out of its slot, or put in again.
    Slot {
        /// Whether it is put in.
        plugged: bool,
    },
    /// The port goes up or down.
    Port {
        /// Whether it is up.
        up: bool,
    },
    /// The link has another speed and width, after it has been down for a moment.
    Link {
        /// See `SPEEDS`.
        speed: u8,
        /// How many lanes.
        width: u8,
    },
    /// The firmware says for so many ns that it starts.
    Initializing(u64),
}

/// What a rule makes of what it has chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// Something else happens there.
    Action(Action),
    /// Something happens to the card.
    Effect(Effect),
    /// What happens there happens when it is released.
    Hold,
    /// A command's slot goes back with this delivery status when it is released.
    HoldDelivery(u8),
}

macro_rules! verbs {
    ($( $verb:ident = $name:literal $kind:ident [$($with:literal)*], )*) => {
        /// The first word of what a rule does.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Verb { $( $verb, )* }

        impl Verb {
            pub const ALL: &[Self] = &[$( Self::$verb ),*];

            /// How it is written.
            pub fn name(self) -> &'static str {
                match self { $( Self::$verb => $name, )* }
            }

            /// It stands alone.
            pub fn is_word(self) -> bool {
                match self { $( Self::$verb => stringify!($kind).ends_with("word"), )* }
            }

            /// It is about the card as a whole, and fits every point.
            pub fn is_global(self) -> bool {
                match self { $( Self::$verb => stringify!($kind).starts_with("card"), )* }
            }

            /// What can stand beside it.
            pub fn with(self) -> &'static [&'static str] {
                match self { $( Self::$verb => &[$($with),*], )* }
            }
        }
    };
}

verbs! {
    Status = "status" table ["syndrome" "executed"],
    Delivery = "delivery" table ["held"],
    Corrupt = "corrupt" table [],
    Set = "set" table [],
    Lose = "lose" word [],
    Hold = "hold" word [],
    Twice = "twice" word [],
    Refuse = "refuse" word [],
    DelayMs = "delay_ms" table [],
    DelayUs = "delay_us" table [],
    Stale = "stale" word [],
    Torn = "torn" table [],
    Overwrite = "overwrite" word [],
    OwnerLateMs = "owner_late_ms" table [],
    OwnerLateUs = "owner_late_us" table [],
    Vector = "vector" table [],
    Fail = "fail" table ["vendor" "after"],
    Invent = "invent" card ["sub_type" "set"],
    Interrupt = "interrupt" card [],
    Health = "health" card ["severity" "fatal"],
    HealthStops = "health_stops" card_word [],
    OffBus = "off_bus" card_word [],
    OffBusMs = "off_bus_ms" card [],
    Unplug = "unplug" card_word [],
    Replug = "replug" card_word [],
    Port = "port" card [],
    Speed = "speed" card ["width"],
    InitializingMs = "initializing_ms" card [],
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Verb {
    /// All that fit a point; `None` is the clock.
    fn fitting(point: Option<Point>) -> Vec<Self> {
        let here = point.map_or(&[][..], point::verbs);
        here.iter()
            .copied()
            .chain(Self::ALL.iter().copied().filter(|verb| verb.is_global()))
            .collect()
    }
}

/// What a rule does, if that makes sense where it does it.
pub fn deed(rule: &Rule, point: Option<Point>) -> Result<Deed, Wrong> {
    let none = BTreeMap::new();
    let (words, args): (Vec<&str>, _) = match &rule.r#do {
        Do::Word(word) => (vec![word], &none),
        Do::Table(table) => (table.keys().map(String::as_str).collect(), table),
    };
    let fitting = Verb::fitting(point);
    let there_are = || fitting.iter().map(|verb| verb.name()).collect::<Vec<_>>().join(", ");
    let verb = words.iter().find_map(|word| {
        Verb::ALL.iter().find(|verb| {
            // `set` is a verb, and says what an invented event is.
            verb.name() == *word && !(**verb == Verb::Set && words.contains(&"invent"))
        })
    });
    let Some(&verb) = verb else {
        let what = words.first().map_or("nothing".into(), |word| format!("\"{word}\""));
        return Err(Wrong::new(
            ["do"],
            format!("{what} can't be done at {}; there are {}", rule.at, there_are()),
        ));
    };
    if !fitting.contains(&verb) {
        return Err(Wrong::new(
            ["do"],
            format!("\"{verb}\" can't be done at {}; there are {}", rule.at, there_are()),
        ));
    }
    match &rule.r#do {
        Do::Word(_) if !verb.is_word() => {
            return Err(Wrong::new(["do"], format!("\"{verb}\" needs a value: {{ {verb} = … }}")));
        }
        Do::Table(_) if verb.is_word() => {
            return Err(Wrong::new(
                ["do", verb.name()],
                format!("\"{verb}\" stands alone: do = \"{verb}\""),
            ));
        }
        _ => {}
    }
    if let Some(other) =
        words.iter().find(|word| **word != verb.name() && !verb.with().contains(word))
    {
        let with = match verb.with() {
            [] => "nothing can".to_owned(),
            with => format!("{} can", with.join(", ")),
        };
        return Err(Wrong::new(
            ["do", other],
            format!("\"{other}\" can't stand beside \"{verb}\"; {with}"),
        ));
    }
    Arguments { rule, point, args }.deed(verb)
}

/// The arguments of a verb.
struct Arguments<'a> {
    rule: &'a Rule,
    point: Option<Point>,
    args: &'a BTreeMap<String, Arg>,
}

impl Arguments<'_> {
    /// A number of at most so many bits, which may have a name.
    fn get(&self, key: &str, width: usize, names: select::Names<'_>) -> Result<Option<u64>, Wrong> {
        let value = self.args.get(key).map(|arg| one(arg, width, names));
        value.transpose().map_err(|why| Wrong::new(["do", key], format!("{key}: {why}")))
    }

    fn code(&self, key: &str, structure: &str, field: &str) -> Result<u64, Wrong> {
        self.get(key, 8, &|value| value_name(structure, field, value))
            .map(Option::unwrap_or_default)
    }

    fn number(&self, key: &str, width: usize, default: u64) -> Result<u64, Wrong> {
        self.get(key, width, &|_| None).map(|value| value.unwrap_or(default))
    }

    fn flag(&self, key: &str) -> Result<bool, Wrong> {
        self.number(key, 1, 0).map(|value| value != 0)
    }

    fn time(&self, key: &str, unit: u64) -> Result<u64, Wrong> {
        // 34 bits of ms are half a year.
        self.number(key, 34, 0).map(|value| value.saturating_mul(unit))
    }

    /// One of some words.
    fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<T, Wrong> {
        let given = match self.args.get(key) {
            Some(Arg::Text(text)) => text.as_str(),
            _ => "",
        };
        words.iter().find(|(word, _)| *word == given).map(|(_, value)| *value).ok_or_else(|| {
            let all: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            Wrong::new(["do", key], format!("{key}: expected {}", all.join(" or ")))
        })
    }

    fn fields(
        &self,
        structures: &[&'static layouts::LayoutInfo],
        point: Point,
    ) -> Result<Arc<[Patch]>, Wrong> {
        let Some(arg) = self.args.get("set") else { return Ok(Arc::new([])) };
        let Arg::Table(table) = arg else {
            return Err(Wrong::new(
                ["do", "set"],
                "set: expected a table of fields, { FIELD = VALUE }",
            ));
        };
        let patches = select::patches(structures, point, table);
        patches.map(Arc::from).map_err(|(path, message)| Wrong::new(["do", "set", &path], message))
    }

    fn deed(&self, verb: Verb) -> Result<Deed, Wrong> {
        Ok(match verb {
            Verb::Hold => Deed::Hold,
            Verb::Status => Deed::Action(Action::Status {
                status: self.code("status", "mbox_out", "status")? as u8,
                syndrome: self.number("syndrome", 32, 0)? as u32,
                executed: self.flag("executed")?,
            }),
            Verb::Delivery => {
                let status = self.code("delivery", "mlx5_cmd_layout", "status")? as u8;
                match self.flag("held")? {
                    true => Deed::HoldDelivery(status),
                    false => Deed::Action(Action::Delivery(status)),
                }
            }
            Verb::Corrupt => Deed::Action(Action::Defect(self.word(
                "corrupt",
                &[
                    ("signature", Defect::Signature),
                    ("token", Defect::Token),
                    ("length", Defect::Length),
                ],
            )?)),
            Verb::Set => {
                let point = self.point.unwrap_or(Point::Reply);
                let structures = point::settable(point, only_opcode(self.rule, point));
                Deed::Action(Action::Set(self.fields(&structures, point)?))
            }
            Verb::Lose => Deed::Action(Action::Lose),
            Verb::Twice => Deed::Action(Action::Twice),
            Verb::Refuse => Deed::Action(Action::Refuse),
            Verb::DelayMs => Deed::Action(Action::Delay(self.time("delay_ms", 1_000_000)?)),
            Verb::DelayUs => Deed::Action(Action::Delay(self.time("delay_us", 1_000)?)),
            Verb::Stale => Deed::Action(Action::Stale),
            Verb::Torn => Deed::Action(Action::Torn(self.number("torn", 32, 0)?)),
            Verb::Overwrite => Deed::Action(Action::Overwrite),
            Verb::OwnerLateMs => {
                Deed::Action(Action::OwnerLate(self.time("owner_late_ms", 1_000_000)?))
            }
            Verb::OwnerLateUs => {
                Deed::Action(Action::OwnerLate(self.time("owner_late_us", 1_000)?))
            }
            Verb::Vector => Deed::Action(Action::Vector(self.number("vector", 16, 0)? as u16)),
            Verb::Fail => Deed::Action(Action::Fail {
                syndrome: self.code("fail", ErrCqe::INFO.name, "syndrome")? as u8,
                vendor: self.number("vendor", 8, 0)? as u8,
                after: self.number("after", 32, 0)?,
            }),
            Verb::Invent => Deed::Effect(Effect::Event {
                event: self.code("invent", Eqe::INFO.name, "type")? as u8,
                sub_type: self.number("sub_type", 8, 0)? as u8,
                fields: self.fields(&[&Eqe::INFO], Point::Event)?,
            }),
            Verb::Interrupt => {
                Deed::Effect(Effect::Interrupt(self.number("interrupt", 16, 0)? as u16))
            }
            Verb::Health => Deed::Effect(Effect::Health {
                syndrome: self.number("health", 8, 0)? as u8,
                severity: self.number("severity", 3, 3)? as u8,
                fatal: self.flag("fatal")?,
            }),
            Verb::HealthStops => Deed::Effect(Effect::HealthStops),
            Verb::OffBus => Deed::Effect(Effect::OffBus(None)),
            Verb::OffBusMs => {
                Deed::Effect(Effect::OffBus(Some(self.time("off_bus_ms", 1_000_000)?)))
            }
            Verb::Unplug => Deed::Effect(Effect::Slot { plugged: false }),
            Verb::Replug => Deed::Effect(Effect::Slot { plugged: true }),
            Verb::Port => Deed::Effect(Effect::Port {
                up: self.word("port", &[("up", true), ("down", false)])?,
            }),
            Verb::Speed => Deed::Effect(Effect::Link {
                speed: self.word("speed", SPEEDS)?,
                width: match self.number("width", 4, 4)? {
                    width @ (1 | 2 | 4 | 8) => width as u8,
                    _ => return Err(Wrong::new(["do", "width"], "width: expected 1, 2, 4 or 8")),
                },
            }),
            Verb::InitializingMs => {
                Deed::Effect(Effect::Initializing(self.time("initializing_ms", 1_000_000)?))
            }
        })
    }
}

//! Classes of steps: which things that a driver does are of one kind.

use std::collections::BTreeMap;
use std::fmt;

use layouts::Opcode;
use layouts::decode::{Content, Decoded};
use probe::Point;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use trace::TraceEvent;

use crate::workload::Phase;

/// Steps of one kind: of one phase, at one point, with the same values there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// When.
    pub phase: Phase,
    /// Where: the name of a [`Point`].
    pub at: String,
    /// What it is called: `CREATE_MKEY mkc.access_mode=MTT`.
    pub name: String,
    /// What a fault rule asks for to choose its steps.
    pub r#where: BTreeMap<String, Value>,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.phase.name(), self.at, self.name.replace(' ', ","))
    }
}

/// Fields of a command's input that tell kinds of it apart, beside `op_mod`.
const KINDS: &[(Opcode, &[&str])] = &[
    (Opcode::ACCESS_REG, &["register_id"]),
    (Opcode::CREATE_MKEY, &["mkc.access_mode", "mkc.free"]),
    (Opcode::CREATE_QP, &["qpc.st"]),
    (Opcode::CREATE_GENERAL_OBJECT, &["obj_type"]),
];

/// Doorbells, by which of these numbers is there; all numbers it can be.
const DOORBELLS: &[(&str, &str, &str)] = &[
    ("slots", "command queue", "0x1..0x100000000"),
    ("eqn", "event queue", "0x0..0x1000000"),
    ("cqn", "completion queue", "0x0..0x1000000"),
    ("qpn", "send queue", "0x0..0x1000000"),
];

impl Class {
    /// The class of an event of a trace, if it is a step of the driver.
    pub(crate) fn of(phase: Phase, event: &TraceEvent) -> Option<Self> {
        let mut class =
            Self { phase, at: event.point.name().into(), name: String::new(), r#where: [].into() };
        let fields = event.fields();
        let fields = fields.as_slice();
        match event.point {
            Point::Command => {
                let opcode = event.opcode()?;
                class.field(fields, "opcode")?;
                class.field(fields, "op_mod")?;
                let known = KINDS.iter().find(|(of, _)| *of == opcode);
                for path in known.map_or(&[][..], |(_, paths)| paths) {
                    class.field(fields, path)?;
                }
            }
            Point::Reply => {
                class.number(event, "opcode")?;
                class.number(event, "op_mod")?;
                // Only where the command reaches a register.
                class.number(event, "register_id");
            }
            Point::Event => class.field(fields, "type")?,
            Point::WorkRequest => class.field(fields, "opcode")?,
            Point::Completion => class.field(fields, "opcode")?,
            Point::Doorbell => {
                let (value, name, range) =
                    DOORBELLS.iter().find(|(value, ..)| event.number(value).is_some())?;
                class.name = (*name).to_owned();
                class.r#where.insert((*value).to_owned(), json!(range));
            }
            _ => return None,
        }
        Some(class)
    }

    /// One more field by which steps are told apart.
    fn field(&mut self, fields: &[Decoded], path: &str) -> Option<()> {
        let field = fields.iter().find(|field| field.path.is(path))?;
        let Content::Number(number) = field.content else { return None };
        self.add(path, number, field.name);
        Some(())
    }

    /// One more value beside the fields.
    fn number(&mut self, event: &TraceEvent, name: &str) -> Option<()> {
        self.add(name, event.number(name)?, event.value_name(name));
        Some(())
    }

    /// A zero `op_mod` is not worth a word.
    fn add(&mut self, path: &str, number: u64, name: Option<&str>) {
        let shown = name.map_or_else(|| format!("{number:#x}"), str::to_owned);
        match (path, number) {
            ("opcode" | "type", _) => self.name = shown,
            ("op_mod", 0) => {}
            _ => self.name = format!("{} {path}={shown}", self.name),
        }
        self.r#where.insert(path.to_owned(), name.map_or(json!(number), |name| json!(name)));
    }
}

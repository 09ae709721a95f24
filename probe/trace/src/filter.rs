//! Expressions that choose events. `docs/trace.md` has the grammar.

mod parse;
mod subject;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use layouts::decode::Content;
use probe::Point;
use thiserror::Error;

pub use subject::Subject;

/// An expression that chooses events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    text: String,
    expression: Expression,
}

/// An expression can't be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("\"{text}\" is no filter: at \"{rest}\"")]
pub struct BadFilter {
    text: String,
    rest: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Expression {
    Any(Vec<Expression>),
    All(Vec<Expression>),
    Not(Box<Expression>),
    Test(Test),
}

/// One comparison. Without a relation: whether there is such a thing and it is not zero.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Test {
    /// Only at this point.
    point: Option<Point>,
    path: String,
    relation: Option<(Relation, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
}

/// Something that a path named.
struct Found<'a> {
    content: Content,
    name: Option<&'a str>,
}

impl FromStr for Filter {
    type Err = BadFilter;

    fn from_str(text: &str) -> Result<Self, BadFilter> {
        match parse::expression(text) {
            Ok(expression) => Ok(Self { text: text.into(), expression }),
            Err(rest) => Err(BadFilter { text: text.into(), rest }),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Filter {
    /// Whether an event is chosen.
    pub fn matches(&self, event: &dyn Subject) -> bool {
        self.expression.holds(event)
    }
}

impl Expression {
    fn holds(&self, event: &dyn Subject) -> bool {
        match self {
            Self::Any(parts) => parts.iter().any(|part| part.holds(event)),
            Self::All(parts) => parts.iter().all(|part| part.holds(event)),
            Self::Not(part) => !part.holds(event),
            Self::Test(test) => test.holds(event),
        }
    }
}

impl Test {
    /// Whether anything of this path is as wanted. What is not there is unequal to everything.
    fn holds(&self, event: &dyn Subject) -> bool {
        if self.point.is_some_and(|point| point != event.point()) {
            return false;
        }
        let mut found = false;
        let mut holds = false;
        subject::find(event, &self.path, &mut |it| {
            found = true;
            holds |= self.judge(&it);
        });
        holds || !found && matches!(self.relation, Some((Relation::NotEqual, _)))
    }

    fn judge(&self, it: &Found<'_>) -> bool {
        let Some((relation, wanted)) = &self.relation else {
            return match &it.content {
                Content::Number(number) => *number != 0,
                Content::Bytes(bytes) => bytes.iter().any(|&byte| byte != 0),
            };
        };
        let named = it.name.is_some_and(|name| name.eq_ignore_ascii_case(wanted));
        let number = match it.content {
            Content::Number(number) => parse::number(wanted).map(|wanted| number.cmp(&wanted)),
            Content::Bytes(_) => None,
        };
        let equal = named || number.is_some_and(|order| order.is_eq()) || it.text() == *wanted;
        match relation {
            Relation::Equal => equal,
            Relation::NotEqual => !equal,
            Relation::Less => number.is_some_and(|order| order.is_lt()),
            Relation::LessOrEqual => number.is_some_and(|order| order.is_le()),
            Relation::Greater => number.is_some_and(|order| order.is_gt()),
            Relation::GreaterOrEqual => number.is_some_and(|order| order.is_ge()),
            Relation::Contains => {
                let wanted = wanted.to_ascii_lowercase();
                let text = it.name.map_or_else(|| it.text(), str::to_owned);
                text.to_ascii_lowercase().contains(&wanted)
            }
        }
    }
}

impl Found<'_> {
    /// Bytes as text, up to a zero.
    fn text(&self) -> String {
        match &self.content {
            Content::Number(number) => format!("{number:#x}"),
            Content::Bytes(bytes) => {
                let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
                String::from_utf8_lossy(text).into_owned()
            }
        }
    }
}

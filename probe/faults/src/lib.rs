//! What goes wrong, by rule: a rule says at which point, for which of the things that happen there,
//! how often, and what is to happen instead. `docs/faults.md` is for those who write rules.
//!
//! * [`Rule`]: a rule as it is written, in TOML or JSON; [`parse`] reads a file of them;
//! * [`Faults`]: the rules of one function. It is the probe's judge, and what its rules do to the
//!   card as a whole waits there as [`Effect`]s;
//! * `point`: what can be said about each point, and what can be done there; `select`: names of
//!   fields and values become comparisons of bits; `verb`: what is done.
//!
//! Everything a rule decides follows from the order of what happens, the function's clock and the
//! rule's own seed, so that a recording of a faulty run gives the same run again.
#![forbid(unsafe_code)]

mod file;
mod point;
mod rule;
mod rules;
#[cfg(test)]
mod schema;
mod select;
#[cfg(test)]
mod tests;
mod verb;

pub use file::{line_of, parse};
pub use rule::{Arg, Chance, Do, ResetOn, Rule, Wrong};
pub use rules::{Counts, Faults};
pub use verb::Effect;

//! A file of rules, and the line of a mistake in it.

use toml::de::{DeTable, DeValue};

use crate::rule::{Rule, Wrong};
use crate::rules::Faults;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    fault: Vec<Rule>,
}

/// Reads a file that holds nothing but rules, and checks them. An error comes with its line.
pub fn parse(text: &str) -> Result<Vec<Rule>, (usize, String)> {
    let file: File = toml::from_str(text).map_err(|error| {
        let place = error.span().map_or(0, |span| span.start);
        (line(text, place), error.message().replace('\n', " "))
    })?;
    Faults::new(&file.fault).map_err(|wrong| (line_of(text, &wrong), wrong.message))?;
    Ok(file.fault)
}

/// The line of a mistake in a file whose `[[fault]]` tables hold the rules.
pub fn line_of(text: &str, wrong: &Wrong) -> usize {
    line(text, place_of(text, wrong).unwrap_or(0))
}

/// Number of the line, from 1, that a byte is in.
fn line(text: &str, place: usize) -> usize {
    text.bytes().take(place).filter(|&byte| byte == b'\n').count() + 1
}

/// Where the innermost of a mistake's keys is that the file has.
fn place_of(text: &str, wrong: &Wrong) -> Option<usize> {
    let file = DeTable::parse(text).ok()?;
    let (_, rules) = file.get_ref().iter().find(|(key, _)| key.get_ref() == "fault")?;
    let rule = rules.get_ref().as_array()?.get(wrong.rule)?;
    let mut place = rule.span().start;
    let mut value = rule.get_ref();
    for wanted in &wrong.key {
        let Some((key, inner)) = value
            .as_table()
            .and_then(|table| table.iter().find(|(key, _)| key.get_ref() == wanted.as_str()))
        else {
            break;
        };
        place = key.span().start;
        value = DeValue::as_table(inner.get_ref()).map_or(value, |_| inner.get_ref());
    }
    Some(place)
}

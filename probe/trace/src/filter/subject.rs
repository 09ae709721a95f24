//! What can be asked about an event, whether it is read from a file or happens now.

use layouts::decode::{Content, Decoded};
use probe::{Point, Site, Value};

use super::Found;
use crate::log::{fields_of, value_name};
use crate::{TraceEvent, TraceValue};

/// Something that happened.
pub trait Subject {
    /// Where.
    fn point(&self) -> Point;
    /// Name of the structure.
    fn structure(&self) -> Option<&str>;
    /// The value of this name beside the structure: a number or a word.
    fn value(&self, name: &str) -> Option<Result<u64, &str>>;
    /// The structure's fields.
    fn fields(&self) -> Vec<Decoded>;
}

impl Subject for TraceEvent {
    fn point(&self) -> Point {
        self.point
    }

    fn structure(&self) -> Option<&str> {
        self.structure.as_deref()
    }

    fn value(&self, name: &str) -> Option<Result<u64, &str>> {
        match name {
            "time" => Some(Ok(self.time)),
            "function" => Some(Ok(self.function.into())),
            "thread" => Some(Ok(self.thread.into())),
            _ => self.value(name).map(|value| match value {
                TraceValue::Number(number) => Ok(*number),
                TraceValue::Word(word) => Err(&**word),
            }),
        }
    }

    fn fields(&self) -> Vec<Decoded> {
        self.fields()
    }
}

impl Subject for Site<'_> {
    fn point(&self) -> Point {
        self.point
    }

    fn structure(&self) -> Option<&str> {
        self.layout.map(|layout| layout.name)
    }

    fn value(&self, name: &str) -> Option<Result<u64, &str>> {
        let (_, value) = self.values.iter().find(|(known, _)| *known == name)?;
        Some(match value {
            Value::Number(number) => Ok(*number),
            Value::Word(word) => Err(word),
        })
    }

    fn fields(&self) -> Vec<Decoded> {
        fields_of(self.layout, self.bytes, &|name| self.number(name))
    }
}

/// Gives everything that `path` names to `each`.
pub(super) fn find(event: &dyn Subject, path: &str, each: &mut dyn FnMut(Found<'_>)) {
    let word = |word| Found { content: Content::Number(1), name: Some(word) };
    match path {
        "point" => return each(word(event.point().name())),
        "structure" => return event.structure().map(word).into_iter().for_each(each),
        _ => {}
    }
    match event.value(path) {
        Some(Ok(number)) => {
            each(Found { content: Content::Number(number), name: value_name(path, number) });
        }
        Some(Err(text)) => each(word(text)),
        None => {}
    }
    for field in event.fields().into_iter().filter(|field| field.path.is(path)) {
        each(Found { content: field.content, name: field.name });
    }
}

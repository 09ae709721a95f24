//! One JSON object an entry.

use layouts::decode::Content;
use serde_json::{Map, Value, json as object};

use crate::log::value_name;
use crate::{Entry, TraceEvent, TraceValue};

/// An entry as a JSON object. `docs/trace.md` describes it.
pub fn json(entry: &Entry) -> Value {
    match entry {
        Entry::Event(event) => of_event(event),
        Entry::Dropped { time, count } => object!({"time": time, "dropped": count}),
        Entry::Settings { time, settings } => object!({"time": time, "settings": settings}),
    }
}

fn of_event(event: &TraceEvent) -> Value {
    let (mut values, mut fields, mut names) = (Map::new(), Map::new(), Map::new());
    for (name, value) in &event.values {
        let value = match value {
            TraceValue::Number(number) => {
                if let Some(called) = value_name(name, *number) {
                    names.insert(name.to_string(), called.into());
                }
                (*number).into()
            }
            TraceValue::Word(word) => (&**word).into(),
        };
        values.insert(name.to_string(), value);
    }
    let decoded = event.fields();
    for field in &decoded {
        let path = field.path.to_string();
        if let Some(name) = field.name {
            names.insert(path.clone(), name.into());
        }
        let value = match &field.content {
            Content::Number(number) => (*number).into(),
            Content::Bytes(bytes) => hex(bytes).into(),
        };
        fields.insert(path, value);
    }
    let mut all = Map::new();
    for (name, value) in [
        ("time", event.time.into()),
        ("index", event.index.into()),
        ("function", event.function.into()),
        ("thread", event.thread.into()),
        ("point", event.point.name().into()),
        ("structure", event.structure.as_deref().into()),
        ("length", event.length.into()),
        ("values", Value::Object(values)),
        ("fields", Value::Object(fields)),
        ("names", Value::Object(names)),
    ] {
        all.insert(name.into(), value);
    }
    if decoded.is_empty() && !event.bytes.is_empty() {
        all.insert("bytes".into(), hex(&event.bytes).into());
    }
    Value::Object(all)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

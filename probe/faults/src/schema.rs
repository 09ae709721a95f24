//! The JSON schema of plans, for editors: it is made from the tables that rules are checked by, and
//! `docs/faults.schema.json` is it.

use probe::Point;
use serde_json::{Map, Value, json};

use crate::point::{self, TIME};
use crate::verb::{SPEEDS, Verb};

/// What a verb's value is, of those whose values have names.
fn value(verb: Verb) -> Value {
    let words = |words: &[&str]| json!({ "enum": words });
    match verb {
        Verb::Port => words(&["up", "down"]),
        Verb::Corrupt => words(&["signature", "token", "length"]),
        Verb::Speed => words(&SPEEDS.iter().map(|(name, _)| *name).collect::<Vec<_>>()),
        Verb::Set => json!({ "type": "object", "description": "fields and their values" }),
        Verb::Status | Verb::Delivery | Verb::Fail | Verb::Invent => {
            json!({ "type": ["string", "integer"] })
        }
        _ => json!({ "type": "integer", "minimum": 0 }),
    }
}

/// How a verb is written.
fn written(verb: Verb) -> Value {
    if verb.is_word() {
        return json!({ "enum": [verb.name()] });
    }
    let mut properties = Map::new();
    properties.insert(verb.name().into(), value(verb));
    for &with in verb.with() {
        properties.insert(with.into(), json!({}));
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": [verb.name()],
        "additionalProperties": false,
    })
}

/// What can be done at a point; `None` is the clock.
fn deeds(point: Option<Point>) -> Value {
    let here = point.map_or(&[][..], point::verbs).iter();
    let here = here.map(|verb| json!({ "$ref": format!("#/definitions/{verb}") }));
    json!({ "anyOf": here.chain([json!({ "$ref": "#/definitions/card" })]).collect::<Vec<_>>() })
}

/// The schema of a plan.
fn schema() -> Value {
    let points = Point::ALL.iter().copied().filter(|&point| point != Point::Fault);
    let names = points.clone().map(|point| point.name()).chain([TIME]).collect::<Vec<_>>();
    let at = points.map(Some).chain([None]).map(|point| {
        let told = point.map_or(&[][..], point::told);
        let mut known = Map::new();
        for told in told {
            let schema =
                if told.words.is_empty() { json!({}) } else { json!({ "examples": told.words }) };
            known.insert(told.name.into(), schema);
        }
        json!({
            "if": { "properties": { "at": { "const": point.map_or(TIME, Point::name) } } },
            "then": { "properties": {
                "do": deeds(point),
                "where": { "type": "object", "properties": known },
            } },
        })
    });
    let mut definitions = Map::new();
    for &verb in Verb::ALL {
        definitions.insert(verb.name().into(), written(verb));
    }
    let card = Verb::ALL.iter().filter(|verb| verb.is_global());
    let card = card.map(|verb| json!({ "$ref": format!("#/definitions/{verb}") }));
    definitions.insert("card".into(), json!({ "anyOf": card.collect::<Vec<_>>() }));
    let number = |about: &str| json!({ "type": "integer", "minimum": 0, "description": about });
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": definitions,
        "title": "Fault rules of mlx5emu (docs/faults.md)",
        "type": "object",
        "additionalProperties": false,
        "properties": { "fault": { "type": "array", "items": {
            "type": "object",
            "required": ["name", "at", "do"],
            "additionalProperties": false,
            "properties": {
                "name": { "type": "string", "description": "its name, which no other rule has" },
                "at": { "enum": names, "description": "the point" },
                "where": { "type": "object", "description": "what must be so there" },
                "nth": number("fires from this match on"),
                "every": number("fires only at every so manieth match"),
                "probability": { "type": "number", "exclusiveMinimum": 0, "maximum": 1 },
                "seed": number("where chance begins"),
                "after": { "type": "string", "description": "only once this rule has fired" },
                "after_ms": number("only so much later"),
                "every_ms": number("at = \"time\": again so much later"),
                "count": number("how often it may fire; 0 is without end"),
                "do": { "description": "what happens" },
                "must_fire": { "type": "boolean" },
                "reset_on": { "enum": ["flr", "connect"] },
            },
            "allOf": at.collect::<Vec<_>>(),
        } } },
    })
}

/// The file is what the tables say. `UPDATE=1 cargo test -p faults schema` writes it.
#[test]
fn the_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/faults.schema.json");
    let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(path).unwrap(),
        text,
        "UPDATE=1 cargo test -p faults schema"
    );
}

/// Whether a value is as a schema of this file's kind says: `enum`, or properties of which some must
/// be there.
fn fits(root: &Value, schema: &Value, value: &Value) -> bool {
    let fits = |schema: &Value, value: &Value| fits(root, schema, value);
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        return fits(root.pointer(&name[1..]).unwrap(), value);
    }
    if let Some(any) = schema.get("anyOf").and_then(Value::as_array) {
        return any.iter().any(|schema| fits(schema, value));
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return words.contains(value);
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return true };
    let Some(table) = value.as_object() else { return false };
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let open = schema.get("additionalProperties") != Some(&Value::Bool(false));
    required.filter_map(Value::as_str).all(|key| table.contains_key(key))
        && table.iter().all(|(key, inner)| match properties.get(key) {
            Some(schema) => fits(schema, inner),
            None => open,
        })
}

#[test]
fn the_example_is_of_the_schema() {
    let text = include_str!("../../../docs/faults.example.toml");
    let root = schema();
    let fits = |schema: &Value, value: &Value| fits(&root, schema, value);
    let items = &root["properties"]["fault"]["items"];
    for rule in crate::parse(text).unwrap() {
        let rule = serde_json::to_value(&rule).unwrap();
        assert!(fits(items, &rule), "{rule}");
        let at = &rule["at"];
        let here = items["allOf"].as_array().unwrap().iter();
        let mut here = here.filter(|case| &case["if"]["properties"]["at"]["const"] == at);
        assert!(fits(&here.next().unwrap()["then"], &rule), "{rule}");
        assert!(!fits(items, &json!({ "name": "x", "at": at, "when": 3, "do": "lose" })));
    }
    assert!(!fits(&deeds(Some(Point::Event)), &json!("refuse")));
    assert!(!fits(&deeds(Some(Point::Event)), &json!({ "status": 1 })));
}

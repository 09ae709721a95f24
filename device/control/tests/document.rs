//! `docs/control.md` shows what the types say: each example is read as its type, and shows all its fields.

use std::collections::BTreeMap;

use control::{
    Answer, Envelope, Faults, Greeting, Metrics, Missing, Mkey, MkeyPage, Node, Released, Request,
    SCHEMA, SlotAsked, Status, TraceStatus, Translation,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../docs/control.md");

/// In the order of the document.
const REQUESTS: [&str; 13] = [
    "status",
    "mkey",
    "mkeys",
    "translate",
    "missing",
    "trace",
    "inspect",
    "metrics",
    "fault_add",
    "fault_list",
    "fault_clear",
    "fault_release",
    "slot",
];

/// The examples by the word behind "json".
fn examples() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for block in DOCUMENT.split("```json ").skip(1) {
        let (name, rest) = block.split_once('\n').unwrap();
        let (text, _) = rest.split_once("```").unwrap();
        all.entry(name).or_default().push(text);
    }
    all
}

fn check<T: Serialize + DeserializeOwned>(text: &str) -> T {
    let value: T = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e} in {text}"));
    let shown: Value = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_value(&value).unwrap(), shown, "an example must show every field");
    value
}

#[test]
fn examples_are_of_their_types() {
    let mut requests = Vec::new();
    for (name, texts) in examples() {
        for text in texts {
            match name {
                "greeting" => assert_eq!(check::<Greeting>(text).schema, SCHEMA),
                "answer" => {
                    check::<Answer>(text);
                }
                "request" => requests.push(match check::<Envelope>(text).request {
                    // A new request without an example does not compile here.
                    Request::Status {} => "status",
                    Request::Mkey { .. } => "mkey",
                    Request::Mkeys { .. } => "mkeys",
                    Request::Translate { .. } => "translate",
                    Request::Missing {} => "missing",
                    Request::Trace { .. } => "trace",
                    Request::Inspect { .. } => "inspect",
                    Request::Metrics {} => "metrics",
                    Request::FaultAdd { .. } => "fault_add",
                    Request::FaultList {} => "fault_list",
                    Request::FaultClear { .. } => "fault_clear",
                    Request::FaultRelease { .. } => "fault_release",
                    Request::Slot { .. } => "slot",
                }),
                "status" => drop(check::<Status>(text)),
                "mkey" => drop(check::<Mkey>(text)),
                "mkeys" => drop(check::<MkeyPage>(text)),
                "translation" => drop(check::<Translation>(text)),
                "slot" => drop(check::<SlotAsked>(text)),
                "missing" => drop(check::<Missing>(text)),
                "trace" => drop(check::<TraceStatus>(text)),
                "metrics" => drop(check::<Metrics>(text)),
                "node" => drop(check::<Node>(text)),
                "faults" => drop(check::<Faults>(text)),
                "released" => {
                    check::<Released>(text);
                }
                other => panic!("an example of unknown type {other}"),
            }
        }
    }
    assert_eq!(requests, REQUESTS);
}

#[test]
fn each_request_has_a_section() {
    for name in REQUESTS {
        assert!(DOCUMENT.contains(&format!("\n## `{name}`\n")), "no section on {name}");
    }
    assert!(DOCUMENT.contains(&format!("Schema {SCHEMA}.")));
}

#[test]
fn what_the_schema_does_not_have_is_refused() {
    for line in [
        r#"{"id":1,"do":"status","extra":1}"#,
        r#"{"id":1,"do":"missing","extra":1}"#,
        r#"{"id":1,"do":"mkey","key":"0x1","extra":1}"#,
        r#"{"id":1,"do":"mkey"}"#,
        r#"{"id":1,"do":"mkey","key":1}"#,
        r#"{"id":1,"do":"mkey","key":"1"}"#,
        r#"{"id":1,"do":"mkey","key":"0x+1"}"#,
        r#"{"id":1,"do":"mkey","key":"0x10000000000000000"}"#,
        r#"{"id":1,"do":"reboot"}"#,
        r#"{"id":1}"#,
        r#"{"do":"status"}"#,
        r#"{"id":-1,"do":"status"}"#,
        r#"[1]"#,
    ] {
        assert!(serde_json::from_str::<Envelope>(line).is_err(), "{line}");
    }
}

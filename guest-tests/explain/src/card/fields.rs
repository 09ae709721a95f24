//! What stands in the bytes of an event and beside them, for people.

use layouts::decode::{Content, Decoded};
use trace::TraceEvent;

use crate::story::Detail;

/// What stands beside the bytes.
pub(super) fn values(event: &TraceEvent) -> Vec<(String, String)> {
    let text = |name: &str| match (event.word(name), event.number(name)) {
        (Some(word), _) => word.to_owned(),
        (None, Some(number)) => match event.value_name(name) {
            Some(known) => known.to_owned(),
            None if ["len", "index", "vector", "eqn"].contains(&name) => number.to_string(),
            None => format!("{number:#x}"),
        },
        (None, None) => String::new(),
    };
    let names = event.values.iter().map(|(name, _)| name.to_string());
    names.map(|name| (name.clone(), text(&name))).collect()
}

/// Fields that people ask for, of whatever structure.
pub(super) fn important(event: &TraceEvent) -> Vec<(String, String)> {
    const NAMES: &[&str] = &[
        "start_addr",
        "len",
        "length",
        "log_page_size",
        "pd",
        "access_mode_1_0",
        "translations_octword_size",
        "translations_octword_actual_size",
        "mkey_index",
        "xlt_octowords",
        "raddr",
        "rkey",
        "lkey",
        "addr",
        "byte_count",
        "syndrome",
    ];
    let wanted = |field: &&Decoded| NAMES.contains(&field.path.last()) && !field.is_zero();
    event
        .fields()
        .iter()
        .filter(wanted)
        .map(|field| (field.path.last().to_owned(), text(field)))
        .collect()
}

fn text(field: &Decoded) -> String {
    match (&field.content, field.name) {
        (_, Some(name)) => name.to_owned(),
        (Content::Number(number), None) => format!("{number:#x}"),
        (Content::Bytes(bytes), None) => hex(bytes),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that are shown.
const SHOWN: usize = 1024;

pub(super) fn detail(event: &TraceEvent) -> Option<Detail> {
    if event.bytes.is_empty() {
        return None;
    }
    let fields = event.fields();
    let shown = fields.iter().filter(|field| !field.is_zero());
    Some(Detail {
        structure: event.structure.as_deref().unwrap_or("data").to_owned(),
        fields: shown.take(SHOWN).map(|field| (field.path.to_string(), text(field))).collect(),
        bytes: hex(event.bytes.get(..SHOWN).unwrap_or(&event.bytes)),
        length: event.length,
    })
}

/// Where the list of pages begins in a CREATE_MKEY command.
const CREATE_MKEY_LIST: usize = 0x110;

pub(super) fn entries_of_command(event: &TraceEvent) -> Vec<u64> {
    if event.structure.as_deref() == Some("create_mkey_in") {
        return entries(event.bytes.get(CREATE_MKEY_LIST..).unwrap_or_default());
    }
    // Queues have their pages in the command, too.
    let pages = event.fields().into_iter().filter(|field| field.path.last() == "pas");
    let number = |field: Decoded| match field.content {
        Content::Number(number) => Some(number & !0xfff),
        Content::Bytes(_) => None,
    };
    pages.filter_map(number).collect()
}

/// A list of pages: addresses, with rights in the lowest bits.
pub(super) fn entries(bytes: &[u8]) -> Vec<u64> {
    let words =
        bytes.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_be_bytes));
    words.map(|entry| entry & !0xfff).collect()
}

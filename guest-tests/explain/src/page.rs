//! The story as one HTML page that needs nothing else.
//!
//! The page is a template with a style, a script and the story as JSON in it. Texts that come again and
//! again are kept once, so that a page of some ten thousand spans stays small.

use std::collections::HashMap;

use serde::Serialize;

use crate::names::Category;
use crate::story::{Call, Detail, Lane, Span, Story};

const TEMPLATE: &str = include_str!("../page/page.html");
const STYLE: &str = include_str!("../page/page.css");
const SCRIPT: &str = concat!(include_str!("../page/lanes.js"), include_str!("../page/story.js"));

const LANES: &[(Lane, &str)] = &[
    (Lane::User, "program"),
    (Lane::Kernel, "kernel"),
    (Lane::Worker, "its threads"),
    (Lane::Interrupt, "interrupts"),
    (Lane::Bus, "bus"),
    (Lane::Card, "card"),
];

const CATEGORIES: &[Category] = &[
    Category::Library,
    Category::Uverbs,
    Category::Pinning,
    Category::Dma,
    Category::Driver,
    Category::Setup,
    Category::Waiting,
    Category::Other,
    Category::Bus,
    Category::Card,
];

/// Makes the page.
pub fn page(story: &Story) -> String {
    // Within a script element only this could end it.
    let json = serde_json::to_string(&data(story)).unwrap_or_default().replace("</", "<\\/");
    let parts = [
        ("{{TITLE}}", escaped(&format!("{} explained", story.command))),
        ("{{STYLE}}", STYLE.to_owned()),
        ("{{SCRIPT}}", SCRIPT.to_owned()),
        ("{{STORY}}", json),
    ];
    // Each place is filled once, and what was filled in is not looked at again.
    let mut page = String::new();
    let mut rest = TEMPLATE;
    for (place, text) in in_order(parts) {
        let (before, after) = rest.split_once(place).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(&text);
        rest = after;
    }
    page + rest
}

fn in_order(mut parts: [(&'static str, String); 4]) -> [(&'static str, String); 4] {
    parts.sort_by_key(|(place, _)| TEMPLATE.find(place));
    parts
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[derive(Serialize)]
struct Data<'a> {
    command: &'a str,
    kernel: &'a str,
    lanes: Vec<&'static str>,
    categories: Vec<Named>,
    texts: Vec<&'a str>,
    spans: Vec<Packed>,
    calls: &'a [Call],
    details: &'a [Detail],
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Named {
    id: Category,
    text: &'static str,
}

/// Lane, parent, start, end, name, title, category, failure, whether it is open, detail, facts; -1 is none.
type Packed = (usize, i64, i64, i64, i64, i64, usize, i64, u8, i64, Vec<(i64, i64)>);

fn data(story: &Story) -> Data<'_> {
    let mut texts = Texts::default();
    let spans = story.spans.iter().map(|span| packed(span, &mut texts)).collect();
    Data {
        command: &story.command,
        kernel: &story.kernel,
        lanes: LANES.iter().map(|(_, name)| *name).collect(),
        categories: CATEGORIES.iter().map(|&id| Named { id, text: id.text() }).collect(),
        texts: texts.list,
        spans,
        calls: &story.calls,
        details: &story.details,
        notes: crate::tree::notes(story),
    }
}

fn packed<'a>(span: &'a Span, texts: &mut Texts<'a>) -> Packed {
    let index = |index: Option<usize>| index.map_or(-1, |index| index as i64);
    let facts = span.facts.iter();
    let facts = facts.map(|(name, value)| (texts.of(Some(name)), texts.of(Some(value)))).collect();
    (
        LANES.iter().position(|(lane, _)| *lane == span.lane).unwrap_or(0),
        index(span.parent),
        span.start,
        span.end,
        texts.of(Some(&span.name)),
        texts.of(span.title.as_deref()),
        CATEGORIES.iter().position(|own| *own == span.category).unwrap_or(0),
        texts.of(span.failed.as_deref()),
        span.open.into(),
        index(span.detail),
        facts,
    )
}

/// Texts by number.
#[derive(Default)]
struct Texts<'a> {
    list: Vec<&'a str>,
    known: HashMap<&'a str, i64>,
}

impl<'a> Texts<'a> {
    fn of(&mut self, text: Option<&'a str>) -> i64 {
        let Some(text) = text else { return -1 };
        *self.known.entry(text).or_insert_with(|| {
            self.list.push(text);
            self.list.len() as i64 - 1
        })
    }
}

//! Spans of guest and card to one story.

use std::collections::{BTreeMap, BTreeSet};

use super::{Call, Lane, Span, Story, answers, failure, link};
use crate::capture::Capture;
use crate::card::Card;
use crate::clock::Clock;
use crate::events::Place;
use crate::format::Value;
use crate::names::{Category, family, known};
use crate::spans::{self, Kind, Spans};
use crate::words::{errno, facts};

/// What the other modules of the story look at beside the story itself.
pub(super) struct Sources<'a> {
    pub(super) guest: &'a Spans,
    pub(super) card: &'a Card,
    /// Where the guest's spans went; those of no interest went nowhere.
    pub(super) of_guest: Vec<Option<usize>>,
    /// Where the card's spans went.
    pub(super) of_card: Vec<Option<usize>>,
}

pub(super) fn story(capture: &Capture, clock: Option<Clock>, guest: &Spans, card: &Card) -> Story {
    let mut story = Story {
        command: capture.command.clone(),
        kernel: capture.kernel.clone(),
        spans: Vec::new(),
        calls: Vec::new(),
        details: Vec::new(),
        clock,
        notes: Vec::new(),
        children: Vec::new(),
    };
    let zero = guest.spans.iter().map(|span| span.start).min().unwrap_or(0);
    let mut of_guest = vec![None; guest.spans.len()];
    let touched = touched(guest);
    for (index, span) in guest.spans.iter().enumerate() {
        let parent = span.parent.and_then(|parent| of_guest.get(parent).copied().flatten());
        if parent.is_some() || of_interest(guest, span, touched.contains(&index)) {
            of_guest[index] = Some(story.spans.len());
            let told = told(guest, span, parent.and_then(|parent| story.spans.get(parent)), zero);
            story.spans.push(Span { parent, ..told });
        }
    }
    let mut of_card = vec![None; card.spans.len()];
    if let Some(clock) = story.clock {
        for (index, span) in card.spans.iter().enumerate() {
            let (start, end) = (clock.guest(span.start), clock.guest(span.end));
            of_card[index] = Some(story.spans.len());
            let parent = span.parent.and_then(|parent| of_card.get(parent).copied().flatten());
            let detail = span.detail.as_ref().map(|detail| {
                story.details.push(detail.clone());
                story.details.len() - 1
            });
            story.spans.push(Span {
                lane: span.lane,
                parent,
                start: start - zero,
                end: end.max(start) - zero,
                name: span.name.clone(),
                title: span.title.clone(),
                facts: span.facts.clone(),
                category: if span.lane == Lane::Bus { Category::Bus } else { Category::Card },
                failed: span.failed.clone(),
                open: false,
                detail,
            });
        }
    }
    notes(&mut story, capture, card);
    let mut sources = Sources { guest, card, of_guest, of_card };
    link::link(&mut story, &sources);
    sort(&mut story, &mut sources);
    story.find_children();
    for span in calls(&story) {
        let main = is_main(&story, span);
        if let Some(last) = story.calls.last_mut()
            && !main
            && alike(&story.spans, last.span, span)
        {
            last.times += 1;
            continue;
        }
        story.calls.push(Call { span, main, times: 1, answers: Vec::new(), frames: None });
    }
    for index in 0..story.calls.len() {
        let call = story.calls[index].span;
        let frames = answers::frames(&story, &sources, call);
        let mut lines = answers::answers(&story, &sources, call, frames.as_ref());
        if let Some(why) = failure::cause(&story, call) {
            story.calls[index].main = true;
            lines.insert(0, why);
        }
        story.calls[index].answers = lines;
        story.calls[index].frames = frames;
    }
    story
}

/// Puts the spans in the order of time.
fn sort(story: &mut Story, sources: &mut Sources<'_>) {
    let mut order: Vec<usize> = (0..story.spans.len()).collect();
    order.sort_by_key(|&index| story.spans.get(index).map_or(0, |span| span.start));
    let mut new = vec![0; order.len()];
    for (to, &from) in order.iter().enumerate() {
        new[from] = to;
    }
    let moved =
        |index: &mut Option<usize>| *index = index.and_then(|index| new.get(index).copied());
    story.spans = order.iter().filter_map(|&index| story.spans.get(index).cloned()).collect();
    story.spans.iter_mut().for_each(|span| moved(&mut span.parent));
    sources.of_guest.iter_mut().chain(&mut sources.of_card).for_each(moved);
}

fn notes(story: &mut Story, capture: &Capture, card: &Card) {
    let mut note = |text: String| story.notes.push(text);
    if capture.lost > 0 {
        note(format!(
            "the guest's tracer had no room for {} records: the end is missing",
            capture.lost
        ));
    }
    if card.dropped > 0 {
        note(format!("the card's trace could not keep up: {} events are missing", card.dropped));
    }
    if capture.records.iter().all(Vec::is_empty) {
        note(
            "the guest's tracer noted nothing: its kernel needs CONFIG_FUNCTION_GRAPH_TRACER, \
             CONFIG_KPROBE_EVENTS and CONFIG_UPROBE_EVENTS"
                .into(),
        );
    } else if capture.exchanges.is_empty() {
        note(
            "the card's clock could not be read: its trace can't be put beside the guest's".into(),
        );
    } else if !card.traced {
        note("there is no trace of the card: the story ends where the kernel calls it".into());
    } else if capture.exchanges.is_empty() {
        note(
            "the card's clock could not be read: its trace can't be put beside the guest's".into(),
        );
    }
}

/// Spans that hold a function of the graph: the system calls among them have to do with RDMA.
fn touched(guest: &Spans) -> BTreeSet<usize> {
    let mut touched = BTreeSet::new();
    for span in guest.spans.iter().filter(|span| span.kind == Kind::Function) {
        let mut outer = span.parent;
        while let Some(parent) = outer.filter(|&parent| touched.insert(parent)) {
            outer = guest.spans.get(parent).and_then(|span| span.parent);
        }
    }
    touched
}

/// What begins a tree of the story: the library's calls, and of the rest what has to do with RDMA.
fn of_interest(guest: &Spans, span: &spans::Span, touched: bool) -> bool {
    match (span.place, span.kind) {
        (_, Kind::Handler) => span.name.starts_with("mlx5"),
        (_, Kind::Function | Kind::Library) => true,
        (Place::Task(pid), Kind::System) => touched && guest.threads.contains(&pid),
        _ => false,
    }
}

fn told(guest: &Spans, span: &spans::Span, parent: Option<&Span>, zero: i64) -> Span {
    let lane = match (span.place, span.kind) {
        (Place::Interrupt(_) | Place::SoftInterrupt(_), _) => Lane::Interrupt,
        (Place::Task(pid), _) if !guest.threads.contains(&pid) => Lane::Worker,
        (_, Kind::Library) => Lane::User,
        _ => Lane::Kernel,
    };
    let known = known(&span.name).filter(|_| span.kind == Kind::Function);
    let category = match (span.kind, known) {
        (Kind::Library, _) => Category::Library,
        (Kind::System, _) => Category::Uverbs,
        (Kind::Handler, _) => Category::Driver,
        (Kind::Asleep, _) => Category::Waiting,
        (Kind::Preempted, _) => Category::Other,
        (Kind::Function, Some(known)) => known.category,
        (Kind::Function, None) => {
            let inherited = parent.map(|parent| parent.category);
            let own = || family(&span.name).unwrap_or(Category::Uverbs);
            inherited.unwrap_or_else(own)
        }
    };
    // What is done to make the driver's own queue pair is part of that, whatever it is.
    let category = match parent.map(|parent| parent.category) {
        Some(Category::Setup) if category != Category::Waiting => Category::Setup,
        _ => category,
    };
    let mut told = facts(&span.arguments);
    told.extend(facts(&span.results));
    Span {
        lane,
        parent: None,
        start: span.start - zero,
        end: span.end - zero,
        name: span.name.clone(),
        title: title(span, lane, known.map(|known| known.title)),
        facts: told,
        category,
        failed: failed(span),
        open: span.open,
        detail: None,
    }
}

fn title(span: &spans::Span, lane: Lane, known: Option<&'static str>) -> Option<String> {
    let number = |values: &BTreeMap<String, Value>, name: &str| match values.get(name) {
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    };
    match span.kind {
        Kind::Library => {
            let found = number(&span.results, "ret").filter(|_| span.name == "ibv_poll_cq");
            let found = found.map_or(String::new(), |found| format!(" found {found}"));
            return Some(format!("{}{found}", span.name));
        }
        Kind::System => return Some(format!("system call {}", span.name)),
        Kind::Handler => return Some(format!("interrupt {}", span.name)),
        Kind::Asleep if lane == Lane::Kernel => return Some("the thread sleeps".to_owned()),
        Kind::Asleep => return None,
        Kind::Preempted => return None,
        Kind::Function => {}
    }
    let known = known?;
    let ret = number(&span.results, "ret");
    Some(match (span.name.as_str(), ret) {
        ("cmd_exec", _) => match opcode(span) {
            Some(opcode) => format!("{known} {}", crate::card::opcode_name(opcode)),
            None => known.to_owned(),
        },
        ("ib_umem_find_best_pgsz", Some(size)) if size > 0 => format!("{known}: {size} bytes"),
        ("pin_user_pages_fast", Some(pages)) if pages > 0 => format!("{known}: {pages}"),
        ("dma_map_sgtable", _) => match number(&span.arguments, "entries") {
            Some(1) => format!("{known}: one run"),
            Some(entries) => format!("{known}: {entries} runs"),
            None => known.to_owned(),
        },
        _ => known.to_owned(),
    })
}

/// The opcode of a command: the first bytes of its input.
pub(super) fn opcode(span: &spans::Span) -> Option<layouts::Opcode> {
    match span.arguments.get("opcode")? {
        Value::Number(word) => {
            let [high, low, ..] = (*word as u32).to_le_bytes();
            Some(layouts::Opcode(u16::from_be_bytes([high, low])))
        }
        _ => None,
    }
}

/// Whether it failed, by its result and by what kind of result it has.
fn failed(span: &spans::Span) -> Option<String> {
    let number = |name: &str| match span.results.get(name) {
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    };
    let makes = ["ibv_create", "ibv_alloc", "ibv_open"];
    let pointer =
        span.kind == Kind::Library && makes.iter().any(|name| span.name.starts_with(name));
    match (number("mr"), number("ret")) {
        (Some(0), _) => Some("no memory region".to_owned()),
        (None, Some(0)) if pointer => Some("nothing was made".to_owned()),
        (None, Some(ret @ 1..=4095))
            if span.kind == Kind::Library && span.name != "ibv_poll_cq" =>
        {
            Some(errno(ret))
        }
        (None, Some(ret @ -4095..=-1)) => Some(errno(-ret)),
        _ => None,
    }
}

/// The calls of the library that are in no other, and what the kernel does for the program with the
/// card when there is no call.
fn calls(story: &Story) -> Vec<usize> {
    let touches = |index: usize| {
        let mut below = story.below(index);
        below.any(|(_, span)| span.lane == Lane::Kernel && known(&span.name).is_some())
    };
    let is_call = |&(index, span): &(usize, &Span)| {
        let own = matches!(span.lane, Lane::User | Lane::Kernel) && span.parent.is_none();
        own && (span.lane == Lane::User || touches(index))
    };
    story.spans.iter().enumerate().filter(is_call).map(|(index, _)| index).collect()
}

/// Whether two calls can be told in one line.
fn alike(spans: &[Span], one: usize, other: usize) -> bool {
    let words = |index: usize| {
        let span = spans.get(index)?;
        span.failed.is_none().then_some((&span.title, &span.facts))
    };
    words(one).is_some() && words(one) == words(other)
}

/// Registration and data are what is asked about; the rest prepares for it.
fn is_main(story: &Story, span: usize) -> bool {
    const MAIN: &[&str] = &["ibv_reg", "ibv_rereg", "ibv_dereg", "ibv_post_send"];
    story.spans.get(span).is_some_and(|span| MAIN.iter().any(|name| span.name.starts_with(name)))
}

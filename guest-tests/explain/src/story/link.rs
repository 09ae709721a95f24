//! What other threads, interrupts and the card did is put below what it was done for.
//!
//! Commands go through one worker in the order in which they were asked for, and through the card in the
//! same order. Work requests are found by their key or queue pair. The rest belongs to what the
//! command's thread was in the middle of at that time.

use std::collections::VecDeque;

use super::build::{Sources, opcode};
use super::{Lane, Span, Story};
use crate::card;
use crate::format::Value;
use crate::names::Category;

/// The worker that writes commands for the card.
const WRITES_COMMAND: &str = "cmd_work_handler";

pub(super) fn link(story: &mut Story, sources: &Sources<'_>) {
    let slack = story.clock.map_or(0, |clock| clock.error);
    commands(story, sources);
    commands_of_the_card(story, sources, slack);
    work_requests(story, sources, slack);
    by_time(story, slack);
}

fn adopt(story: &mut Story, child: usize, parent: usize) {
    if child != parent
        && let Some(span) = story.spans.get_mut(child)
        && span.parent.is_none()
    {
        span.parent = Some(parent);
    }
}

/// Workers below the commands that they write.
fn commands(story: &mut Story, sources: &Sources<'_>) {
    let mut asked = VecDeque::new();
    let mut pairs = Vec::new();
    for (index, span) in sources.guest.spans.iter().enumerate() {
        let Some(told) = sources.of_guest[index] else { continue };
        match span.name.as_str() {
            "cmd_exec" => asked.push_back((told, span)),
            // Called by its own thread when the driver polls for the answer.
            WRITES_COMMAND if span.parent.is_some() => {
                asked.pop_back();
            }
            WRITES_COMMAND => {
                // One that ended before has been refused before it came here.
                while asked.front().is_some_and(|(_, asked)| asked.end < span.start && !asked.open)
                {
                    asked.pop_front();
                }
                pairs.extend(asked.pop_front().map(|(asked, _)| (told, asked)));
            }
            _ => {}
        }
    }
    for (child, parent) in pairs {
        adopt(story, child, parent);
    }
}

/// The card's commands below the worker that rang for them.
fn commands_of_the_card(story: &mut Story, sources: &Sources<'_>, slack: i64) {
    let of_card = sources.card.spans.iter().zip(&sources.of_card);
    let mut waiting: VecDeque<(usize, u16)> = of_card
        .filter_map(|(span, told)| match span.kind {
            card::Kind::Command(opcode) => Some(((*told)?, opcode)),
            _ => None,
        })
        .collect();
    let guest = sources.guest.spans.iter().zip(&sources.of_guest);
    let rung: Vec<_> = guest.filter(|(span, _)| span.name == WRITES_COMMAND).collect();
    for (_, told) in rung {
        let Some(worker) = *told else { continue };
        let Some((start, parent)) = story.spans.get(worker).map(|span| (span.start, span.parent))
        else {
            continue;
        };
        // Commands of before the trace began.
        while waiting.front().is_some_and(|&(told, _)| story.spans[told].start < start - slack) {
            waiting.pop_front();
        }
        let Some(&(told, code)) = waiting.front() else { break };
        let asked = parent.and_then(|parent| guest_of(sources, parent)).and_then(opcode);
        if asked.is_none_or(|asked| asked.0 == code) {
            waiting.pop_front();
            adopt(story, told, worker);
        }
    }
}

fn guest_of<'a>(sources: &Sources<'a>, told: usize) -> Option<&'a crate::spans::Span> {
    let index = sources.of_guest.iter().position(|own| *own == Some(told))?;
    sources.guest.spans.get(index)
}

/// The card's work requests below whoever posted them.
fn work_requests(story: &mut Story, sources: &Sources<'_>, slack: i64) {
    let number = |span: &crate::spans::Span, name: &str| match span.arguments.get(name) {
        Some(Value::Number(number)) => Some(*number as u32),
        _ => None,
    };
    for (span, told) in sources.card.spans.iter().zip(&sources.of_card) {
        let (card::Kind::Work(qpn, key), Some(told)) = (span.kind, *told) else { continue };
        let start = story.spans[told].start;
        let posted = sources.guest.spans.iter().zip(&sources.of_guest).rev().find(|(span, own)| {
            let before = own.is_some_and(|own| story.spans[own].start <= start + slack);
            let same = match (span.name.as_str(), key) {
                ("mlx5r_umr_post_send_wait", Some(key)) => number(span, "mkey") == Some(key),
                ("ibv_post_send", None) => number(span, "qp") == Some(qpn),
                _ => false,
            };
            before && same
        });
        if let Some((_, Some(parent))) = posted {
            adopt(story, told, *parent);
        }
    }
}

/// Everything that has no parent yet, except the command's own threads.
fn by_time(story: &mut Story, slack: i64) {
    let own = |span: &Span| matches!(span.lane, Lane::User | Lane::Kernel);
    let hosts: Vec<(usize, i64, i64)> = story
        .spans
        .iter()
        .enumerate()
        .filter(|(_, span)| {
            own(span) && !matches!(span.category, Category::Waiting | Category::Other)
                || span.lane == Lane::Worker
        })
        .map(|(index, span)| (index, span.start, span.end))
        .collect();
    let roots: Vec<usize> = story
        .spans
        .iter()
        .enumerate()
        .filter(|(_, span)| span.parent.is_none() && !own(span) && span.lane != Lane::Worker)
        .map(|(index, _)| index)
        .collect();
    for root in roots {
        let Some((start, lane)) = story.spans.get(root).map(|span| (span.start, span.lane)) else {
            continue;
        };
        // What the card did is known with the clock's error only.
        let slack = if matches!(lane, Lane::Bus | Lane::Card) { slack } else { 0 };
        let around =
            |&&(_, begin, end): &&(usize, i64, i64)| begin <= start + slack && start <= end + slack;
        let exact = |&&(_, begin, end): &&(usize, i64, i64)| begin <= start && start <= end;
        let innermost = |list: &mut dyn Iterator<Item = &(usize, i64, i64)>| {
            list.max_by_key(|(_, begin, _)| *begin).map(|&(index, ..)| index)
        };
        let host = innermost(&mut hosts.iter().filter(exact))
            .or_else(|| innermost(&mut hosts.iter().filter(around)));
        if let Some(host) = host {
            adopt(story, root, host);
        }
    }
}

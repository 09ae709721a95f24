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
    causes_first(story, sources);
    work_requests(story, sources, slack);
    doorbells(story, sources);
    by_time(story, slack);
}

/// Moves the card's times so that commands arrive after they were written and handlers run after their
/// interrupts.
fn causes_first(story: &mut Story, sources: &Sources<'_>) {
    let Some(clock) = story.clock else { return };
    let of_card: Vec<usize> = sources.of_card.iter().copied().flatten().collect();
    let (mut earliest, mut latest) = (i64::MIN / 4, i64::MAX / 4);
    for span in of_card.iter().filter_map(|&index| story.spans.get(index)) {
        let parent = span.parent.and_then(|parent| story.spans.get(parent));
        if let Some(worker) = parent.filter(|parent| parent.name == WRITES_COMMAND) {
            earliest = earliest.max(worker.start - span.start);
        }
        if span.name == "interrupt" {
            let handler = |own: &&Span| {
                own.lane == Lane::Interrupt
                    && own.parent.is_none()
                    && own.start + clock.error >= span.start
            };
            if let Some(handler) = story.spans.iter().find(handler) {
                latest = latest.min(handler.start - span.start);
            }
        }
    }
    let by = clock.moved(earliest, latest);
    for index in of_card {
        if let Some(span) = story.spans.get_mut(index) {
            (span.start, span.end) = (span.start + by, span.end + by);
        }
    }
}

/// Doorbells beside what they began.
fn doorbells(story: &mut Story, sources: &Sources<'_>) {
    for (span, told) in sources.card.spans.iter().zip(&sources.of_card) {
        let began = span.began.and_then(|began| sources.of_card.get(began).copied().flatten());
        let parent = began.and_then(|began| story.spans.get(began)?.parent);
        if let (Some(told), Some(parent)) = (*told, parent) {
            adopt(story, told, parent);
        }
    }
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
    // Steps of the story, so that it does not tell an interrupt before what was interrupted.
    let busy = |span: &Span| match span.category {
        Category::Waiting | Category::Other => false,
        _ => span.title.is_some() && (own(span) || span.lane == Lane::Worker),
    };
    let root = |span: &Span| span.parent.is_none() && !own(span) && span.lane != Lane::Worker;
    let all = || story.spans.iter().enumerate();
    let mut hosts: Vec<Host> = all()
        .filter(|(_, span)| busy(span))
        .map(|(index, span)| Host { index, start: span.start, end: span.end })
        .collect();
    hosts.sort_by_key(|host| host.start);
    let mut roots: Vec<(i64, usize)> =
        all().filter(|(_, span)| root(span)).map(|(index, span)| (span.start, index)).collect();
    roots.sort_unstable();
    // What the card did is known with the clock's error only.
    for shift in [0, slack, -slack] {
        let found = innermost(&hosts, roots.iter().map(|(start, _)| start + shift));
        let mut left = Vec::new();
        for (&(start, root), host) in roots.iter().zip(found) {
            match host {
                Some(host) => adopt(story, root, host),
                None => left.push((start, root)),
            }
        }
        roots = left;
    }
}

/// A span that others may belong to.
struct Host {
    index: usize,
    start: i64,
    end: i64,
}

/// For each of the times, which ascend: the span that began last of those that had not ended.
fn innermost(hosts: &[Host], times: impl Iterator<Item = i64>) -> Vec<Option<usize>> {
    let mut coming = hosts.iter().peekable();
    let mut open: Vec<&Host> = Vec::new();
    times
        .map(|time| {
            while let Some(host) = coming.next_if(|host| host.start <= time) {
                open.push(host);
            }
            // One that ended below one that did not is found when it comes to the top.
            while open.pop_if(|host| host.end < time).is_some() {}
            open.last().map(|host| host.index)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_of_several_threads() {
        let host = |index, start, end| Host { index, start, end };
        // 0 and 1 are of one thread, 2 of another and 3 of the first again.
        let hosts = [host(0, 10, 100), host(1, 20, 30), host(2, 25, 60), host(3, 50, 55)];
        let times = [5, 10, 22, 26, 40, 52, 58, 70, 101];
        let expected = [None, Some(0), Some(1), Some(2), Some(2), Some(3), Some(2), Some(0), None];
        assert_eq!(innermost(&hosts, times.into_iter()), expected);
    }
}

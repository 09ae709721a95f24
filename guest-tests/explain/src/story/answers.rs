//! Answers to what people ask of a call.

use std::collections::{BTreeMap, BTreeSet};

use super::build::{Sources, opcode};
use super::{Frames, Lane, Span, Story, frames as lists};
use crate::format::Value;
use crate::names::{Category, GETS_MEMORY};
use crate::spans;
use crate::words::duration;

/// Everything below a span, itself included.
fn within(story: &Story, call: usize) -> BTreeSet<usize> {
    let mut list = vec![call];
    let mut at = 0;
    while let Some(&parent) = list.get(at) {
        list.extend(story.below(parent).map(|(index, _)| index));
        at += 1;
    }
    list.into_iter().collect()
}

/// The guest's own spans among them, with what was fetched.
fn guest<'a>(sources: &'a Sources<'_>, list: &BTreeSet<usize>) -> Vec<&'a spans::Span> {
    let told = sources.guest.spans.iter().zip(&sources.of_guest);
    told.filter(|(_, told)| told.is_some_and(|told| list.contains(&told)))
        .map(|(span, _)| span)
        .collect()
}

/// "1 page", "2 pages".
fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn number(values: &BTreeMap<String, Value>, name: &str) -> Option<u64> {
    match values.get(name) {
        Some(Value::Number(number)) => Some(*number as u64),
        _ => None,
    }
}

pub(super) fn frames(story: &Story, sources: &Sources<'_>, call: usize) -> Option<Frames> {
    let list = within(story, call);
    let guest = guest(sources, &list);
    let memory = guest
        .iter()
        .find(|span| GETS_MEMORY.contains(&span.name.as_str()) && !span.arguments.is_empty())?;
    let address = number(&memory.arguments, "address")?;
    let length = number(&memory.arguments, "length")?;
    let chosen = guest.iter().find(|span| span.name == "ib_umem_find_best_pgsz");
    let page_size = chosen.and_then(|span| number(&span.results, "ret")).unwrap_or(4096);
    let mapped = guest.iter().find(|span| span.name == "dma_map_sgtable")?;
    let pages = lists::pages(mapped);
    let entries = entries(sources, &list, &pages);
    Some(Frames::new(address, length, page_size, &pages, &entries))
}

/// The list of translations that the card read: of what it read for this call, the one that begins
/// where the guest's list begins, or the longest.
fn entries(sources: &Sources<'_>, list: &BTreeSet<usize>, pages: &[u64]) -> Vec<u64> {
    let card = sources.card.spans.iter().zip(&sources.of_card);
    let read = card.filter(|(_, told)| told.is_some_and(|told| list.contains(&told)));
    let mut lists: Vec<&Vec<u64>> = read.map(|(span, _)| &span.entries).collect();
    lists.retain(|entries| !entries.is_empty());
    let same = lists.iter().find(|entries| entries.first() == pages.first());
    same.map(|entries| entries.to_vec()).unwrap_or_default()
}

pub(super) fn answers(
    story: &Story,
    sources: &Sources<'_>,
    call: usize,
    frames: Option<&Frames>,
) -> Vec<String> {
    let list = within(story, call);
    let guest = guest(sources, &list);
    let mut lines: Vec<String> = time(story, call, &list).into_iter().collect();
    lines.extend(memory(&guest));
    lines.extend(key(&guest));
    lines.extend(commands(&guest));
    lines.extend(data(story, &list));
    lines.extend(frames.and_then(translations));
    lines
}

/// Where the time went.
fn time(story: &Story, call: usize, list: &BTreeSet<usize>) -> Option<String> {
    let mut sums: BTreeMap<Category, i64> = BTreeMap::new();
    for &index in list {
        let Some(span) = story.spans.get(index) else { continue };
        let own = |span: &Span| matches!(span.lane, Lane::User | Lane::Kernel);
        if own(span) {
            let inner = story.below(index).filter(|(_, inner)| own(inner));
            let inner: i64 = inner.map(|(_, inner)| inner.end - inner.start).sum();
            *sums.entry(span.category).or_default() += (span.end - span.start - inner).max(0);
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|&(_, sum)| -sum);
    let total = story.spans.get(call).map_or(0, |span| span.end - span.start);
    let share = |&(category, sum): &(Category, i64)| {
        format!("{} {} ({} %)", category.text(), duration(sum), sum * 100 / total.max(1))
    };
    let parts: Vec<String> = sums.iter().take(5).map(share).collect();
    (total > 0).then(|| format!("time: {} = {}", duration(total), parts.join(", ")))
}

fn memory(guest: &[&spans::Span]) -> Option<String> {
    let pins: Vec<_> = guest.iter().filter(|span| span.name == "pin_user_pages_fast").collect();
    let pinned = pins.iter().filter_map(|span| match span.results.get("ret") {
        Some(Value::Number(pages)) => u64::try_from(*pages).ok(),
        _ => None,
    });
    let pages: u64 = pinned.sum();
    let calls = match pins.len() {
        0 => return None,
        1 => "one call".to_owned(),
        calls => format!("{calls} calls"),
    };
    let slow: Vec<_> = guest.iter().filter(|span| span.name == "__gup_longterm_locked").collect();
    let faulted: u64 = slow.iter().filter_map(|span| number(&span.results, "ret")).sum();
    let how = match slow.is_empty() {
        true => "all by walking the page tables without a lock".to_owned(),
        false => {
            format!("{faulted} of them by faulting them in, under the lock of the address space")
        }
    };
    let runs = guest.iter().find(|span| span.name == "dma_map_sgtable");
    let runs = runs.and_then(|span| number(&span.arguments, "entries"));
    let runs = runs.map_or(String::new(), |runs| format!("; in {}", count(runs, "run")));
    Some(format!("pinned: {} in {calls}, {how}{runs}", count(pages, "page")))
}

/// Whether the cache had a key.
fn key(guest: &[&spans::Span]) -> Option<String> {
    let revoked = guest.iter().any(|span| span.name == "mlx5r_umr_revoke_mr");
    let has = |names: &[&str]| guest.iter().any(|span| names.contains(&span.name.as_str()));
    let took = ["mlx5_mr_cache_alloc", "_mlx5_mr_cache_alloc", "ib_frmr_pool_pop"];
    let umr = guest.iter().filter(|span| span.name == "mlx5r_umr_post_send_wait").count();
    let opcodes = || guest.iter().filter_map(|span| opcode(span));
    let created = opcodes().filter(|opcode| opcode.name() == Some("CREATE_MKEY")).count();
    let work = match umr {
        0 => String::new(),
        1 => ", changed by one UMR work request".to_owned(),
        more => format!(", changed by {more} UMR work requests"),
    };
    if !has(&took) && created == 0 && umr == 0 {
        return None;
    }
    if revoked {
        let destroyed = opcodes().any(|opcode| opcode.name() == Some("DESTROY_MKEY"));
        let then =
            if destroyed { "destroyed by a command" } else { "kept for the next registration" };
        return Some(format!("key: revoked by UMR, {then}"));
    }
    Some(match (has(&took), created) {
        (true, 0) => format!("key: from the driver's cache (hit){work}"),
        (true, made) => format!("key: the cache was empty, {made} CREATE_MKEY{work}"),
        (false, 0) => format!("key: its own{work}"),
        (false, made) => format!("key: made by {made} CREATE_MKEY{work}"),
    })
}

fn commands(guest: &[&spans::Span]) -> Option<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for span in guest.iter().filter(|span| span.name == "cmd_exec") {
        let name = opcode(span).map_or("unknown".to_owned(), crate::card::opcode_name);
        *counts.entry(name).or_default() += 1;
    }
    if counts.is_empty() {
        return None;
    }
    let total: usize = counts.values().sum();
    let list: Vec<String> =
        counts.into_iter().map(|(name, count)| format!("{count} {name}")).collect();
    Some(format!("commands to the card: {total} ({})", list.join(", ")))
}

/// What the card moved for the call.
fn data(story: &Story, list: &BTreeSet<usize>) -> Option<String> {
    let copies = list.iter().filter_map(|&index| story.spans.get(index));
    let copies = copies.filter(|span| span.name == "dma_copy" && span.failed.is_none());
    let length = |span: &Span| {
        let fact = span.facts.iter().find(|(name, _)| name == "len");
        fact.and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let lengths: Vec<u64> = copies.filter_map(length).collect();
    match lengths.len() {
        0 => None,
        pieces => Some(format!(
            "data: the card copied {} bytes in {pieces} pieces",
            lengths.iter().sum::<u64>()
        )),
    }
}

fn translations(frames: &Frames) -> Option<String> {
    let blocks = (frames.address % frames.page_size + frames.length).div_ceil(frames.page_size);
    let entries = if blocks == 1 { "1 entry".to_owned() } else { format!("{blocks} entries") };
    let (both, same) = frames.compared();
    let compared = match both {
        0 => "the card's list was not seen".to_owned(),
        both if both == same => {
            format!("the card's list is equal to the guest's page frames ({same} compared)")
        }
        both => format!("{} of {both} differ from the guest's page frames", both - same),
    };
    let size = frames.page_size;
    Some(format!("translations: {entries} of {size} bytes; {compared}"))
}

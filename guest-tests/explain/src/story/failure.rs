//! Why a call failed: the first that said so, and who that is.

use super::{Lane, Span, Story};

/// A sentence about where the failure began; nothing when the call did not fail.
pub(super) fn cause(story: &Story, call: usize) -> Option<String> {
    let span = story.spans.get(call)?;
    let said = span.failed.as_ref()?;
    if let Some(card) = failed_card(story, call) {
        let why = card.failed.as_deref().unwrap_or_default();
        let what = card.title.as_deref().unwrap_or(&card.name).trim_start_matches("card: ");
        return Some(format!("the failure began in the card: it answered {what} with {why}"));
    }
    let Some((index, kernel)) = deepest(story, call) else {
        return Some(match span.lane {
            Lane::User => {
                format!("the library refused the call itself ({said}): no system call failed")
            }
            _ => format!("it failed with {said}"),
        });
    };
    let errno = kernel.failed.as_deref().unwrap_or_default();
    let pinned = story.below(index).any(|(_, span)| span.name == "pin_user_pages_fast");
    let who = match (kernel.name.as_str(), errno) {
        ("ib_umem_get", "ENOMEM") if !pinned => {
            "the kernel's limit of locked memory (RLIMIT_MEMLOCK): no page was pinned, and the card saw nothing"
        }
        ("ib_umem_get", "EPERM") => {
            "the kernel: this program may lock no memory (RLIMIT_MEMLOCK is 0)"
        }
        ("ib_umem_get", "EINVAL") => {
            "the kernel: the range wraps around or its rights make no sense"
        }
        ("pin_user_pages_fast" | "__gup_longterm_locked", "EFAULT") => {
            "pinning: the range is not mapped, or may not be written"
        }
        ("pin_user_pages_fast" | "__gup_longterm_locked", _) => "pinning",
        ("dma_map_sgtable", _) => "DMA mapping",
        ("cmd_exec" | "mlx5_cmd_do" | "mlx5_cmd_exec", _) => "a command to the card",
        _ => {
            return Some(format!(
                "the failure began in the kernel: {} returned {errno}",
                kernel.name
            ));
        }
    };
    Some(format!("the failure began in {who}: {} returned {errno}", kernel.name))
}

/// The first answer or completion of the card below a call that is an error.
fn failed_card(story: &Story, call: usize) -> Option<&Span> {
    let mut below = story.below(call);
    below.find_map(|(index, span)| match (span.lane, &span.failed) {
        (Lane::Card, Some(_)) => Some(span),
        _ => failed_card(story, index),
    })
}

/// The innermost failure: from the call down, each time the last that failed.
fn deepest(story: &Story, call: usize) -> Option<(usize, &Span)> {
    let mut found = None;
    let mut at = call;
    while let Some((index, span)) = last_failed(story, at) {
        found = Some((index, span));
        at = index;
    }
    found
}

/// Functions without a result that was fetched are looked through.
fn last_failed(story: &Story, parent: usize) -> Option<(usize, &Span)> {
    let below: Vec<_> = story.below(parent).collect();
    below.into_iter().rev().find_map(|(index, span)| match &span.failed {
        Some(_) if span.lane != Lane::Card => Some((index, span)),
        _ => last_failed(story, index),
    })
}

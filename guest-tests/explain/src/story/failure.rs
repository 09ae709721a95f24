//! Why a call failed: the first that said so, and who that is.

use super::{Lane, Span, Story};
use crate::names::GETS_MEMORY;

/// A sentence about where the failure began; nothing when the call did not fail.
pub(super) fn cause(story: &Story, call: usize) -> Option<String> {
    let span = story.spans.get(call)?;
    let said = span.failed.as_ref()?;
    if span.lane != Lane::User {
        // System calls that fail are part of many a program's ordinary life.
        return None;
    }
    if let Some(card) = failed_card(story, call) {
        let why = card.failed.as_deref().unwrap_or_default();
        let what = card.title.as_deref().unwrap_or(&card.name).trim_start_matches("card: ");
        return Some(format!("failure: began in the card: it answered {what} with {why}"));
    }
    let Some((index, kernel)) = deepest(story, call) else {
        return Some(format!("failure: the library refused it ({said}): no system call failed"));
    };
    let errno = kernel.failed.as_deref().unwrap_or_default();
    let pinned = story.below(index).any(|(_, span)| span.name == "pin_user_pages_fast");
    let gets_memory = GETS_MEMORY.contains(&kernel.name.as_str());
    let who = match (kernel.name.as_str(), errno) {
        (_, "ENOMEM") if gets_memory && !pinned => {
            "the kernel's limit of locked memory (RLIMIT_MEMLOCK): no page was pinned, and the card saw nothing of it"
        }
        (_, "EPERM") if gets_memory => {
            "the kernel: this program may lock no memory (RLIMIT_MEMLOCK is 0)"
        }
        (_, "EINVAL") if gets_memory => {
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
    Some(format!("failure: began in {who}: {} returned {errno}", kernel.name))
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
    story.below(parent).rev().find_map(|(index, span)| match &span.failed {
        Some(_) if span.lane != Lane::Card => Some((index, span)),
        _ => last_failed(story, index),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Category;

    /// A story of one call: lane, depth, name and failure of each span.
    fn story(list: &[(Lane, usize, &str, Option<&str>)]) -> Story {
        let mut way: Vec<usize> = Vec::new();
        let mut spans = Vec::new();
        for (index, &(lane, depth, name, failed)) in list.iter().enumerate() {
            way.truncate(depth);
            spans.push(Span {
                lane,
                parent: way.last().copied(),
                start: 0,
                end: 0,
                name: name.to_owned(),
                title: None,
                facts: Vec::new(),
                category: Category::Other,
                failed: failed.map(str::to_owned),
                open: false,
                detail: None,
            });
            way.push(index);
        }
        let mut story = Story {
            command: String::new(),
            kernel: String::new(),
            spans,
            calls: Vec::new(),
            details: Vec::new(),
            clock: None,
            notes: Vec::new(),
            children: Vec::new(),
        };
        story.find_children();
        story
    }

    const CALL: (Lane, usize, &str, Option<&str>) =
        (Lane::User, 0, "ibv_reg_mr", Some("no memory region"));
    const SYSTEM: (Lane, usize, &str, Option<&str>) = (Lane::Kernel, 1, "ioctl", Some("ENOMEM"));

    #[test]
    fn the_limit_of_locked_memory() {
        let story = story(&[CALL, SYSTEM, (Lane::Kernel, 2, "ib_umem_get", Some("ENOMEM"))]);
        let why = cause(&story, 0).unwrap();
        assert!(why.contains("RLIMIT_MEMLOCK"), "{why}");
    }

    #[test]
    fn pinning_below_functions_without_results() {
        let story = story(&[
            CALL,
            (Lane::Kernel, 1, "ioctl", Some("EFAULT")),
            (Lane::Kernel, 2, "no result", None),
            (Lane::Kernel, 3, "ib_umem_get", Some("EFAULT")),
            (Lane::Kernel, 4, "pin_user_pages_fast", Some("EFAULT")),
        ]);
        let why = cause(&story, 0).unwrap();
        assert!(why.contains("pinning") && why.contains("EFAULT"), "{why}");
    }

    #[test]
    fn the_card_before_those_that_pass_it_on() {
        let story = story(&[
            CALL,
            SYSTEM,
            (Lane::Kernel, 2, "cmd_exec", Some("ENOMEM")),
            (Lane::Card, 3, "create_mkey_in", Some("status LIM_ERR (0x8), syndrome 0x18af6")),
        ]);
        let why = cause(&story, 0).unwrap();
        assert!(why.contains("card") && why.contains("0x18af6"), "{why}");
    }

    #[test]
    fn the_library_itself_and_success() {
        let refused = story(&[CALL, (Lane::Kernel, 1, "madvise", None)]);
        assert!(cause(&refused, 0).unwrap().contains("library"));
        // That something within failed is no failure when the call did not.
        let fine = story(&[
            (Lane::User, 0, "ibv_reg_mr", None),
            (Lane::Kernel, 1, "ioctl", Some("EAGAIN")),
        ]);
        assert_eq!(cause(&fine, 0), None);
    }
}

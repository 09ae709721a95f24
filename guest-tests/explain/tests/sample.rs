//! The story of a real registration.

mod common;

use explain::{Lane, Show, Span, Story};

fn story() -> Story {
    common::story()
}

/// The spans from a call down to the first of this name.
fn way<'a>(story: &'a Story, call: &str, name: &str) -> Vec<&'a str> {
    let is = |index: usize| story.spans[index].name == call;
    let mut indices = story.spans.iter().enumerate().filter(|(_, span)| span.name == name);
    let found = indices.find_map(|(index, _)| {
        let mut way = vec![index];
        while let Some(parent) = story.spans[*way.last()?].parent {
            way.push(parent);
        }
        way.iter().any(|&index| is(index)).then_some(way)
    });
    let way = found.unwrap_or_else(|| panic!("{name} is not below {call}"));
    way.iter().rev().map(|&index| story.spans[index].name.as_str()).collect()
}

#[test]
fn a_registration_is_nested_from_the_library_to_the_card() {
    let story = story();
    let to_pinning = way(&story, "ibv_reg_mr", "pin_user_pages_fast");
    let expected = [
        "ibv_reg_mr",
        "ioctl",
        "ib_uverbs_ioctl",
        "mlx5_ib_reg_user_mr",
        "ib_umem_get",
        "pin_user_pages_fast",
    ];
    let mut rest = to_pinning.iter();
    for name in expected {
        assert!(rest.any(|own| *own == name), "{name} in {to_pinning:?}");
    }
    let to_card = way(&story, "ibv_reg_mr", "create_qp_in");
    let mut rest = to_card.iter();
    for name in
        ["ibv_reg_mr", "mlx5r_umr_resource_init", "cmd_exec", "cmd_work_handler", "create_qp_in"]
    {
        assert!(rest.any(|own| *own == name), "{name} in {to_card:?}");
    }
}

#[test]
fn the_questions_are_answered() {
    let story = story();
    let call = story.calls.iter().find(|call| story.spans[call.span].name == "ibv_reg_mr").unwrap();
    let answers = call.answers.join("\n");
    for answer in [
        "pinned: 17 pages in one call",
        "key: from the driver's cache (hit), changed by one UMR work request",
        "translations: 17 entries of 4096 bytes; the card's list is equal to the guest's page frames (17 compared)",
    ] {
        assert!(answers.contains(answer), "{answer} in {answers}");
    }
}

#[test]
fn data_is_followed_through_the_card() {
    let story = story();
    let post =
        story.calls.iter().find(|call| story.spans[call.span].name == "ibv_post_send").unwrap();
    let answers = post.answers.join("\n");
    assert!(answers.contains("data: the card copied 32768 bytes"), "{answers}");
    let umr = way(&story, "mlx5r_umr_post_send_wait", "mlx5_wqe_ctrl_seg");
    assert!(umr.contains(&"ibv_reg_mr"), "{umr:?}");
    let dereg =
        story.calls.iter().find(|call| story.spans[call.span].name == "ibv_dereg_mr").unwrap();
    assert!(
        dereg
            .answers
            .iter()
            .any(|line| line == "key: revoked by UMR, kept for the next registration")
    );
}

#[test]
fn a_trace_is_cut_to_the_command() {
    let (guest, trace) = common::sample();
    let mut cut = Vec::new();
    explain::trim(&guest, trace.as_slice(), &mut cut).unwrap();
    let again = Story::new(&guest, Some(cut.as_slice())).unwrap();
    assert_eq!(again.spans.len(), story().spans.len(), "what was cut is of no use");
}

#[test]
fn damaged_files_are_refused_or_told_as_far_as_they_go() {
    let (guest, trace) = common::sample();
    for length in (0..guest.len()).step_by(guest.len() / 64) {
        let _ = Story::new(&guest[..length], Some(trace.as_slice()));
    }
    for at in (0..guest.len()).step_by(guest.len() / 64) {
        let mut damaged = guest.clone();
        damaged[at] ^= 0xff;
        let _ = Story::new(&damaged, Some(trace.as_slice()));
    }
    let without = Story::new(&guest, None::<&[u8]>).unwrap();
    assert!(without.notes.iter().any(|note| note.contains("no trace of the card")));
}

#[test]
fn causes_come_before_effects() {
    let story = story();
    assert!(story.spans.is_sorted_by_key(|span| span.start));
    let clock = story.clock.unwrap();
    let mut commands = 0;
    for span in story.spans.iter().filter(|span| span.lane == Lane::Card) {
        let Some(parent) = span.parent.map(|parent| &story.spans[parent]) else { continue };
        assert!(span.start >= parent.start - clock.error, "{} before {}", span.name, parent.name);
        commands += usize::from(parent.name == "cmd_work_handler");
    }
    assert!(commands >= 5, "{commands} commands have their worker");
    let inside = |span: &Span| {
        span.parent.is_none_or(|parent| {
            let parent = &story.spans[parent];
            parent.lane != span.lane
                || matches!(span.lane, Lane::Bus | Lane::Card | Lane::Interrupt)
                || (parent.start <= span.start && span.end <= parent.end)
        })
    };
    assert!(story.spans.iter().all(inside), "what nests in a lane lies within");
}

#[test]
fn the_tree_tells_it() {
    let story = story();
    let mut text = Vec::new();
    explain::tree(&story, Show::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for part in ["ibv_reg_mr", "pin pages: 17", "command CREATE_QP", "card: CREATE_QP", "→ time:"]
    {
        assert!(text.contains(part), "{part}");
    }
    assert!(!text.contains("dump_command"), "functions outside the story are left out");
    let mut all = Vec::new();
    explain::tree(&story, Show { everything: true, ..Show::default() }, &mut all).unwrap();
    assert!(String::from_utf8(all).unwrap().contains("dump_command"));
}

/// Lines of the page in `docs/` that show the sample; "…" stands for what is left out.
#[test]
fn the_documentation_shows_the_sample() {
    let mut text = Vec::new();
    explain::tree(&story(), Show::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let page = include_str!("../../../docs/explained.md");
    let blocks = page.split("```text\n").skip(1).take(2);
    let blocks: Vec<&str> = blocks.filter_map(|block| block.split("```").next()).collect();
    assert_eq!(blocks.len(), 2);
    for line in blocks.iter().flat_map(|block| block.lines()).filter(|line| line.trim() != "…") {
        let begins = line.strip_suffix('…').map(str::trim_end);
        let shown = text.lines().any(|own| match begins {
            Some(begin) => own.starts_with(begin),
            None => own == line,
        });
        assert!(shown, "not in the story: {line}");
    }
}

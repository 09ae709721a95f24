//! The arithmetic of ranges and page frames.

use control::Piece;

use crate::protocol::Region;

pub(crate) const PAGE: u64 = 4096;

/// A run of memory: DMA address and length.
pub(crate) type Run = (u64, u64);

/// Where the bytes of a registration must be according to the guest, as few runs as possible.
pub(crate) fn expected(region: &Region) -> Result<Vec<Run>, String> {
    let head = region.address.0 % PAGE;
    let beyond = || "the range ends beyond the last address".to_owned();
    let whole = region.length.checked_add(head).ok_or_else(beyond)?;
    region.address.0.checked_add(region.length).ok_or_else(beyond)?;
    let want = whole.div_ceil(PAGE);
    let mut have: u64 = 0;
    let mut runs = Vec::with_capacity(region.frames.len());
    for &(frame, count) in &region.frames {
        if frame == 0 {
            return Err("pages of the range have no frame, though it is registered".to_owned());
        }
        let no_frames = || format!("there are no {count} frames from {frame:#x} on");
        let start = frame.checked_mul(PAGE).ok_or_else(no_frames)?;
        let length = count.checked_mul(PAGE).ok_or_else(no_frames)?;
        start.checked_add(length).ok_or_else(no_frames)?;
        have = have.checked_add(count).ok_or_else(no_frames)?;
        runs.push((start, length));
    }
    if have != want {
        return Err(format!("the guest shows {have} frames for a range of {want} pages"));
    }
    Ok(joined(cut(runs, head, region.length)))
}

/// Leaves out the first `head` bytes, and everything after `length` more.
fn cut(runs: Vec<Run>, mut head: u64, mut length: u64) -> Vec<Run> {
    let mut kept = Vec::with_capacity(runs.len());
    for (start, size) in runs {
        let skip = head.min(size);
        head -= skip;
        let take = length.min(size - skip);
        length -= take;
        if take > 0 {
            kept.push((start + skip, take));
        }
    }
    kept
}

/// Adjacent runs as one.
fn joined(runs: impl IntoIterator<Item = Run>) -> Vec<Run> {
    let mut list: Vec<Run> = Vec::new();
    for (start, length) in runs {
        match list.last_mut() {
            Some((before, size)) if before.checked_add(*size) == Some(start) => {
                *size = size.saturating_add(length);
            }
            _ => list.push((start, length)),
        }
    }
    list
}

/// What the card answered, as few runs as possible.
pub(crate) fn answered(pieces: &[Piece]) -> Vec<Run> {
    joined(pieces.iter().map(|piece| (piece.address.0, piece.length.0)))
}

/// Where two lists of runs first differ, for people.
pub(crate) fn difference(guest: &[Run], card: &[Run]) -> Option<String> {
    let at = (0..guest.len().max(card.len())).find(|&i| guest.get(i) != card.get(i))?;
    let show = |run: Option<&Run>| match run {
        Some((start, length)) => format!("{length} bytes at {start:#x}"),
        None => "nothing more".to_owned(),
    };
    Some(format!(
        "run {at} of {}: the guest has {}, the card {}",
        guest.len(),
        show(guest.get(at)),
        show(card.get(at))
    ))
}

/// Whether the frames can be pages of the size that the guest claims.
pub(crate) fn fit_page_size(region: &Region) -> Result<(), String> {
    if !region.page.is_power_of_two() || region.page < PAGE {
        return Err(format!("there are no pages of {} bytes", region.page));
    }
    let mut virtual_page = region.address.0 / PAGE;
    let small = region.page / PAGE;
    for (index, &(frame, count)) in region.frames.iter().enumerate() {
        let begins_well = index == 0 || virtual_page.is_multiple_of(small);
        if !begins_well || frame % small != virtual_page % small {
            return Err(format!(
                "frames {frame:#x} … at {:#x} are no pages of {} bytes",
                virtual_page.saturating_mul(PAGE),
                region.page
            ));
        }
        virtual_page = virtual_page.saturating_add(count);
    }
    Ok(())
}

/// Frames that follow one another as one run: first frame and count.
pub(crate) fn merged(frames: &[(u64, u64)]) -> Vec<(u64, u64)> {
    joined(frames.iter().copied())
}

/// The number of pages that a range touches.
pub(crate) fn pages(region: &Region) -> u64 {
    region.frames.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count))
}

#[cfg(test)]
mod tests {
    use control::Hex;

    use super::*;

    fn region(address: u64, length: u64, frames: &[(u64, u64)]) -> Region {
        Region {
            id: 1,
            address: Hex(address),
            length,
            iova: Hex(address),
            access: 1,
            lkey: Hex(0x100),
            rkey: Hex(0x100),
            page: PAGE,
            domain: None,
            frames: frames.to_vec(),
        }
    }

    #[test]
    fn head_and_tail_are_cut() {
        let one_byte = region(0x7000_0801, 1, &[(5, 1)]);
        assert_eq!(expected(&one_byte).unwrap(), [(0x5801, 1)]);
        let three = region(0x7000_0ffe, 0x1004, &[(5, 1), (9, 1), (7, 1)]);
        assert_eq!(expected(&three).unwrap(), [(0x5ffe, 2), (0x9000, 0x1000), (0x7000, 2)]);
        let neighbours = region(0x7000_0ffe, 0x1004, &[(5, 1), (6, 2)]);
        assert_eq!(expected(&neighbours).unwrap(), [(0x5ffe, 0x1004)]);
        let whole = region(0x7000_0000, 0x1000, &[(5, 1)]);
        assert_eq!(expected(&whole).unwrap(), [(0x5000, 0x1000)]);
    }

    #[test]
    fn frames_that_do_not_add_up() {
        for (region, why) in [
            (region(0x7000_0000, 0x1001, &[(5, 1)]), "1 frames for a range of 2 pages"),
            (region(0x7000_0fff, 1, &[(5, 2)]), "2 frames for a range of 1 pages"),
            (region(0x7000_0000, 0x2000, &[(5, 1), (0, 1)]), "no frame"),
            (region(0x7000_0000, u64::MAX, &[(5, 1)]), "beyond the last address"),
            (region(0x7000_0000, 0x1000, &[(u64::MAX, 1)]), "no 1 frames"),
            (region(0x7000_0000, 0x1000, &[(1, u64::MAX)]), "frames from"),
            (region(0x7000_0000, 0x1000, &[(u64::MAX >> 12, 2)]), "no 2 frames"),
        ] {
            let error = expected(&region).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(difference(&[(1, 2)], &[(1, 2)]), None);
        let text = difference(&[(0x1000, 4096), (0x3000, 8)], &[(0x1000, 4096)]).unwrap();
        assert_eq!(text, "run 1 of 2: the guest has 8 bytes at 0x3000, the card nothing more");
        assert!(difference(&[], &[(1, 1)]).unwrap().contains("run 0 of 0"));
    }

    #[test]
    fn huge_pages_are_contiguous_and_aligned() {
        let huge = |address, frames: &[(u64, u64)]| Region {
            page: 2 << 20,
            ..region(address, PAGE, frames)
        };
        for (region, fits) in [
            (huge(0x4000_0000, &[(512, 512)]), true),
            (huge(0x4000_3000, &[(515, 509), (4096, 512)]), true),
            (huge(0x4000_0000, &[(513, 512)]), false),
            (huge(0x4000_0000, &[(512, 100), (1024 + 100, 412)]), false),
            (huge(0x4000_3000, &[(512, 509)]), false),
            (Region { page: 0, ..region(0, 1, &[(1, 1)]) }, false),
            (Region { page: 12288, ..region(0, 1, &[(1, 1)]) }, false),
            (Region { page: 2048, ..region(0, 1, &[(1, 1)]) }, false),
        ] {
            assert_eq!(fit_page_size(&region).is_ok(), fits, "{region:?}");
        }
    }
}

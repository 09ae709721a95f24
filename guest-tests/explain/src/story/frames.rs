//! The guest's page frames beside the translations that the card was given.

use serde::Serialize;

use crate::format::Value;
use crate::spans;

/// Both lists of one registration.
#[derive(Debug, Clone, Serialize)]
pub struct Frames {
    /// The first address of the registration.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Bytes of a page, as the driver chose it.
    pub page_size: u64,
    /// Page by page.
    pub lines: Vec<Line>,
    /// Pages of the guest's kernel that were looked at: of a long list, only the beginning is.
    pub seen: u64,
    /// Pages in the registration.
    pub pages: u64,
}

/// One page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Where the program sees it.
    pub address: u64,
    /// Where the guest's kernel has it, if that was seen.
    pub frame: Option<u64>,
    /// What the card was told, if that was seen.
    pub entry: Option<u64>,
}

const PAGE: u64 = 4096;
/// Bytes of the kernel's description of a page.
const STRUCT_PAGE: u64 = 64;
/// Words of an entry of a scatter list: page and flags, offset and length, two more.
const WORDS: usize = 4;
/// More lines are not kept.
const MOST: usize = 4096;

/// The addresses of the pages of a scatter list, as the probe of `dma_map_sgtable` fetched it.
pub(super) fn pages(span: &spans::Span) -> Vec<u64> {
    let number = |name: &str| match span.arguments.get(name) {
        Some(Value::Number(number)) => Some(*number as u64),
        _ => None,
    };
    let (Some(base), Some(count)) = (number("vmemmap"), number("entries")) else {
        return Vec::new();
    };
    let lists = span.arguments.iter().filter(|(name, _)| name.starts_with("list"));
    let words = lists.flat_map(|(_, value)| match value {
        Value::Numbers(words) => words.as_slice(),
        _ => &[],
    });
    let words: Vec<u64> = words.copied().collect();
    let mut pages = Vec::new();
    for entry in words.chunks_exact(WORDS).take(count as usize) {
        let [link, sizes, ..] = entry else { break };
        let (offset, length) = (sizes & 0xffff_ffff, sizes >> 32);
        let page = (link & !3).wrapping_sub(base) / STRUCT_PAGE;
        let first = page.wrapping_mul(PAGE).wrapping_add(offset);
        // The list is of whole pages, except where a huge page is used in part.
        pages
            .extend((0..length.div_ceil(PAGE)).map(|n| first.wrapping_add(n * PAGE) & !(PAGE - 1)));
        if pages.len() > MOST {
            break;
        }
    }
    pages
}

impl Frames {
    /// Puts both lists side by side.
    pub(super) fn new(
        address: u64,
        length: u64,
        page_size: u64,
        pages: &[u64],
        entries: &[u64],
    ) -> Self {
        let page_size = page_size.max(PAGE);
        let first = address & !(PAGE - 1);
        let count = (address % PAGE + length).div_ceil(PAGE);
        let line = |n: u64| {
            let at = first + n * PAGE;
            // Entries are of the page size that the driver chose.
            let entry = (at / page_size - address / page_size) as usize;
            let entry = entries.get(entry).map(|entry| entry + at % page_size);
            Line { address: at, frame: pages.get(n as usize).copied(), entry }
        };
        Self {
            address,
            length,
            page_size,
            lines: (0..count.min(MOST as u64)).map(line).collect(),
            seen: pages.len() as u64,
            pages: count,
        }
    }

    /// Pages of which both sides were seen, and how many of them are the same.
    pub fn compared(&self) -> (usize, usize) {
        let both = self.lines.iter().filter_map(|line| Some((line.frame?, line.entry?)));
        let both: Vec<_> = both.collect();
        (both.len(), both.iter().filter(|(frame, entry)| frame == entry).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lists_are_put_side_by_side() {
        let frames =
            Frames::new(0x7f00_0801, 0x2000, 4096, &[0x5000, 0x9000, 0xb000], &[0x5000, 0x9000]);
        assert_eq!(frames.pages, 3);
        let line = |address, frame, entry| Line { address, frame: Some(frame), entry };
        let expected = [
            line(0x7f00_0000, 0x5000, Some(0x5000)),
            line(0x7f00_1000, 0x9000, Some(0x9000)),
            line(0x7f00_2000, 0xb000, None),
        ];
        assert_eq!(frames.lines, expected);
        assert_eq!(frames.compared(), (2, 2));
    }

    #[test]
    fn an_entry_may_be_of_many_pages() {
        let frames = Frames::new(0x20_1000, 0x2000, 2 << 20, &[0x40_1000, 0x40_2000], &[0x40_0000]);
        assert_eq!(frames.lines.last().and_then(|line| line.entry), Some(0x40_2000));
        assert_eq!(frames.compared(), (2, 2));
    }
}

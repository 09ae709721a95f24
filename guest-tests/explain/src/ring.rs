//! The kernel's ring buffer: pages of records, each with the time since the one before.
//!
//! The layout is what `events/header_page` and `events/header_event` describe; programs outside the
//! kernel have relied on it since 2.6.31.

const PAGE: usize = 4096;
/// Before the records of a page: the time of its first, and how many bytes of records it has.
const HEAD: usize = 16;
/// Flags beside the number of bytes: records were lost before this page.
const COMMITTED: u64 = 0xf_ffff;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of a record's own time difference.
const DELTA_BITS: u32 = 27;
/// An absolute time has so many bits; the rest is that of the time before.
const STAMP_BITS: u32 = 59;

/// Calls `each` with the time and the bytes of every record.
pub(crate) fn records(bytes: &[u8], mut each: impl FnMut(u64, &[u8])) {
    for page in bytes.chunks(PAGE) {
        let Some(mut time) = word64(page, 0) else { continue };
        let used = word64(page, 8).unwrap_or(0) & COMMITTED;
        let end = page.len().min(HEAD.saturating_add(used as usize));
        let mut rest = page.get(HEAD..end).unwrap_or_default();
        while let Some((head, body)) = split_word(rest) {
            let (kind, delta) = (head & 31, head >> 5);
            match kind {
                PADDING if delta == 0 => break,
                TIME_EXTEND | TIME_STAMP => {
                    let Some((high, after)) = split_word(body) else { break };
                    let value = (u64::from(high) << DELTA_BITS) | u64::from(delta);
                    time = match kind {
                        TIME_EXTEND => time.wrapping_add(value),
                        _ => time >> STAMP_BITS << STAMP_BITS | value,
                    };
                    rest = after;
                }
                _ => {
                    time = time.wrapping_add(delta.into());
                    let Some((record, after)) = record(kind, body) else { break };
                    if kind != PADDING {
                        each(time, record);
                    }
                    rest = after;
                }
            }
        }
    }
}

/// A record's bytes and what follows it. Long ones have their length before them.
fn record(kind: u32, body: &[u8]) -> Option<(&[u8], &[u8])> {
    if (1..PADDING).contains(&kind) {
        return body.split_at_checked(kind as usize * 4);
    }
    let (length, body) = split_word(body)?;
    body.split_at_checked((length as usize).checked_sub(4)?.next_multiple_of(4))
}

fn split_word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*word), rest))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(time: u64, records: &[u32]) -> Vec<u8> {
        let mut page = time.to_le_bytes().to_vec();
        page.extend((records.len() as u64 * 4).to_le_bytes());
        page.extend(records.iter().flat_map(|word| word.to_le_bytes()));
        page.resize(PAGE, 0xee);
        page
    }

    fn all(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut all = Vec::new();
        records(bytes, |time, record| all.push((time, record.to_vec())));
        all
    }

    #[test]
    fn every_kind_of_record() {
        let words = [
            5 << 5 | 1,
            0xaaaa, // 5 ns later, one word
            7 << 5 | TIME_EXTEND,
            1, // 7 + 2^27 ns later
            0,
            8,
            0xbbbb, // long form: 8 bytes with the length, so one word
            3 << 5 | PADDING,
            4, // left out by the kernel after all
            9 << 5 | TIME_STAMP,
            0,
            1 << 5 | 1,
            0xcccc,
        ];
        let mut bytes = page(1000, &words);
        bytes.extend(page(5000, &[2, 1, 2]));
        let word = |n: u32| n.to_le_bytes().to_vec();
        let expected = [
            (1005, word(0xaaaa)),
            (1012 + (1 << 27), word(0xbbbb)),
            (10, word(0xcccc)),
            (5000, [word(1), word(2)].concat()),
        ];
        assert_eq!(all(&bytes), expected);
    }

    #[test]
    fn torn_pages_end_where_they_are_torn() {
        let whole = page(1, &[1, 7, 0, 4096, 1]);
        for length in 0..whole.len().min(64) {
            assert!(all(&whole[..length]).len() <= 1, "{length}");
        }
        assert_eq!(all(&page(1, &[0, 0])), []);
    }
}

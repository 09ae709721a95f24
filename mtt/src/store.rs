//! Where a key's translations are kept: 64-bit words by index. Two words are one octword; an MTT
//! entry is one word, a KLM or KSM entry two. They stay in the byte order of the bus, so that a list
//! is taken over at the speed of a copy; a word is turned when it is read.
//!
//! Memory is taken for what is filled, not for what the key reserves: a short list is one exact
//! allocation, a longer one is made of blocks that come into being when they are first written.
//! What was never written reads as zero, which is an entry that is not present in every mode.

/// Words in one block of a long list: a page of memory, so that writing here and there in a huge
/// key costs little, and the table of blocks is 1/512 of what it leads to.
const BLOCK: usize = 512;

type Block = Box<[u64; BLOCK]>;

/// The translations of one key.
#[derive(Debug)]
pub(crate) enum Store {
    /// The words from 0 on; at most [`BLOCK`].
    Flat(Box<[u64]>),
    /// Any number of words.
    Blocks(Box<Blocks>),
}

// It shares a cache line with the rest of its key.
const _: () = assert!(size_of::<Store>() == 16);

#[derive(Debug, Default)]
pub(crate) struct Blocks {
    table: Vec<Option<Block>>,
    allocated: usize,
    present: u64,
}

impl Store {
    /// No translations.
    pub fn new() -> Self {
        Self::Flat(Box::default())
    }

    /// The first `words` words of the bytes in `segments`, each with the bits in `set` set; `None`
    /// if there are fewer.
    pub fn from_segments<'a>(
        segments: impl IntoIterator<Item = &'a [u8]>,
        words: usize,
        set: u64,
    ) -> Option<Self> {
        if words == 0 {
            return Some(Self::new());
        }
        let mut left = words;
        // The driver's mailboxes hold whole entries, so a word never lies across two segments.
        let segments = segments.into_iter().filter(|segment| !segment.is_empty());
        let segments = segments.map_while(|segment| {
            let take = segment.len().min(left * 8);
            left -= take / 8;
            segment.get(..take).filter(|_| take != 0)
        });
        let mut filled = 0;
        let store = if words <= BLOCK {
            let mut flat = Vec::with_capacity(words);
            for segment in segments {
                flat.extend(words_of(segment, set));
            }
            filled += flat.len();
            Self::Flat(flat.into())
        } else {
            let mut blocks = Blocks::default();
            for segment in segments {
                filled += blocks.write(filled, segment, set);
            }
            Self::Blocks(Box::new(blocks))
        };
        (filled == words).then_some(store)
    }

    /// The word at `index`.
    #[inline]
    pub fn get(&self, index: u64) -> u64 {
        let index = index as usize;
        u64::from_be(match self {
            Self::Flat(words) => words.get(index).copied().unwrap_or(0),
            Self::Blocks(blocks) => blocks.get(index),
        })
    }

    /// The octword at `index`.
    #[inline]
    pub fn octword(&self, index: u64) -> [u8; 16] {
        let Some(word) = index.checked_mul(2) else { return [0; 16] };
        let (high, low) = (self.get(word), self.get(word + 1));
        (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
    }

    /// Octwords from this one on are zero.
    pub fn end(&self) -> u64 {
        let words = match self {
            Self::Flat(words) => words.len(),
            Self::Blocks(blocks) => blocks.table.len() * BLOCK,
        };
        words.div_ceil(2) as u64
    }

    /// How many words of memory it takes.
    pub fn cost(&self) -> u64 {
        match self {
            Self::Flat(words) => words.len() as u64,
            Self::Blocks(blocks) => blocks.cost(),
        }
    }

    /// How many words it will take at most once words `from` to `to` are written.
    pub fn cost_with(&self, from: u64, to: u64) -> u64 {
        let blocks_to = |words: u64| words.div_ceil(BLOCK as u64);
        if from >= to {
            return self.cost();
        }
        match self {
            Self::Flat(words) if to <= BLOCK as u64 => to.max(words.len() as u64),
            Self::Flat(words) => {
                let touched = blocks_to(to) - from / BLOCK as u64;
                let kept = u64::from(!words.is_empty() && from >= BLOCK as u64);
                (touched + kept) * BLOCK as u64 + blocks_to(to)
            }
            Self::Blocks(blocks) => {
                let range = (from / BLOCK as u64) as usize..blocks_to(to) as usize;
                let absent = range.filter(|&at| blocks.block(at).is_none()).count();
                let table = (blocks.table.len() as u64).max(blocks_to(to));
                (blocks.allocated + absent) as u64 * BLOCK as u64 + table
            }
        }
    }

    /// Writes the whole words in `bytes` from word `at` on.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let (at, count) = (at as usize, bytes.len() / 8);
        if count == 0 {
            return;
        }
        match self {
            Self::Flat(words) if at + count <= BLOCK => {
                if words.len() < at + count {
                    let mut longer = Vec::with_capacity(at + count);
                    longer.extend_from_slice(words);
                    longer.resize(at + count, 0);
                    *words = longer.into();
                }
                for (word, new) in words.iter_mut().skip(at).zip(words_of(bytes, 0)) {
                    *word = new;
                }
            }
            Self::Flat(words) => {
                let mut blocks = Blocks::default();
                if !words.is_empty() {
                    blocks.put(0, words.iter().copied());
                }
                blocks.write(at, bytes, 0);
                *self = Self::Blocks(Box::new(blocks));
            }
            Self::Blocks(blocks) => {
                blocks.write(at, bytes, 0);
            }
        }
    }

    /// How many words are not zero.
    pub fn present(&self) -> u64 {
        match self {
            Self::Flat(words) => count(words),
            Self::Blocks(blocks) => blocks.present,
        }
    }
}

impl Blocks {
    fn block(&self, at: usize) -> Option<&Block> {
        self.table.get(at)?.as_ref()
    }

    #[inline]
    fn get(&self, index: usize) -> u64 {
        self.block(index / BLOCK).map_or(0, |block| block[index % BLOCK])
    }

    fn cost(&self) -> u64 {
        (self.allocated * BLOCK + self.table.len()) as u64
    }

    /// Writes into the block that has word `at` and returns how many words fitted.
    fn put(&mut self, at: usize, words: impl ExactSizeIterator<Item = u64>) -> usize {
        let (index, start) = (at / BLOCK, at % BLOCK);
        if self.table.len() <= index {
            self.table.resize_with(index + 1, || None);
        }
        let Some(slot) = self.table.get_mut(index) else { return 0 };
        let block = slot.get_or_insert_with(|| {
            self.allocated += 1;
            zeroed()
        });
        let Some(room) = block.get_mut(start..) else { return 0 };
        let count_of = words.len().min(room.len());
        let Some(target) = room.get_mut(..count_of) else { return 0 };
        self.present -= count(target);
        for (word, new) in target.iter_mut().zip(words) {
            *word = new;
        }
        self.present += count(target);
        count_of
    }

    fn write(&mut self, at: usize, bytes: &[u8], set: u64) -> usize {
        let mut done = 0;
        while let Some(rest) = bytes.get(done * 8..).filter(|rest| rest.len() >= 8) {
            done += self.put(at + done, words_of(rest, set));
        }
        done
    }
}

fn zeroed() -> Block {
    // From a vector, because a boxed array would be built on the stack first.
    match vec![0; BLOCK].into_boxed_slice().try_into() {
        Ok(block) => block,
        Err(_) => Box::new([0; BLOCK]),
    }
}

/// The words of `bytes`, as they are kept, with the bits in `set` set.
fn words_of(bytes: &[u8], set: u64) -> impl ExactSizeIterator<Item = u64> {
    let set = set.to_be();
    bytes.as_chunks::<8>().0.iter().map(move |&bytes| u64::from_ne_bytes(bytes) | set)
}

/// How many are not zero. (The sum can't overflow, and an addition that is not checked lets the
/// compiler take several words at once.)
fn count(words: &[u64]) -> u64 {
    words.iter().fold(0, |count: u64, &word| count.wrapping_add(u64::from(word != 0)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn a_list_is_taken_as_long_as_announced() {
        let list = bytes(&[1, 2, 3, 4]);
        let segments = [&list[..8], &[], &list[8..]];
        let store = Store::from_segments(segments, 3, 0x100).unwrap();
        assert_eq!([0, 1, 2, 3, u64::MAX].map(|at| store.get(at)), [0x101, 0x102, 0x103, 0, 0]);
        assert_eq!(store.octword(1), (0x103u128 << 64).to_be_bytes());
        assert_eq!(store.octword(u64::MAX), [0; 16]);
        assert_eq!((store.cost(), store.present(), store.end()), (3, 3, 2));
        assert!(Store::from_segments(segments, 5, 0).is_none());
        assert!(Store::from_segments([&list[..31]], 4, 0).is_none());
        assert_eq!(Store::from_segments([&list[..]], 0, 0).unwrap().cost(), 0);
    }

    #[test]
    fn a_long_list_is_the_same_as_a_short_one() {
        let words: Vec<u64> = (1..2000).collect();
        let list = bytes(&words);
        let segments = [&list[..256], &list[256..9000], &list[9000..]];
        let store = Store::from_segments(segments, words.len(), 0).unwrap();
        for (at, &word) in words.iter().enumerate() {
            assert_eq!(store.get(at as u64), word);
        }
        assert_eq!((store.present(), store.cost()), (1999, 4 * 512 + 4));
        assert!(Store::from_segments(segments, words.len() + 1, 0).is_none());
    }

    proptest! {
        /// Reads, counts and costs are those of a map of words, whatever is written where.
        #[test]
        fn as_a_map(
            writes in prop::collection::vec(
                (
                    prop_oneof![0..20u64, 0..600u64, 0..5000u64],
                    prop_oneof![0..20usize, 0..1200usize],
                    0..3u64,
                ),
                0..8,
            ),
        ) {
            let mut store = Store::new();
            let mut map = BTreeMap::new();
            for (at, count, first) in writes {
                let words: Vec<u64> = (0..count as u64).map(|word| word * first).collect();
                let promised = store.cost_with(at, at + count as u64);
                store.write(at, &bytes(&words));
                prop_assert_eq!(store.cost(), promised);
                map.extend((at..).zip(words));
            }
            for at in 0..7000 {
                prop_assert_eq!(store.get(at), map.get(&at).copied().unwrap_or(0));
            }
            let present = map.values().filter(|&&word| word != 0).count();
            prop_assert_eq!(store.present(), present as u64);
            let end = map.keys().next_back().map_or(0, |last| last / 2 + 1);
            prop_assert!(store.end() >= end);
        }
    }
}

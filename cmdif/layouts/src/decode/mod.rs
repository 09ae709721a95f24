//! The bytes of a structure, taken apart by its description.
//!
//! Everything that is not zero comes out: a field by its name, and bits that no field covers as
//! `raw[OFFSET]`, a word each. Which part of a union is meant follows from other fields (`unions`).

mod names;
mod path;
mod places;
mod unions;
mod wqe;

pub use names::value_name;
pub use path::{Path, Step};
pub use places::{Place, places, work_request_places};

use crate::{LayoutInfo, WqeCtrlSeg, WqeDataSeg, get_bits};

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A number.
    Number(u64),
    /// An array of bytes, a GID or text for example.
    Bytes(Vec<u8>),
}

/// One field of some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// Where it is.
    pub path: Path,
    /// What it holds.
    pub content: Content,
    /// What the value is called, as `CREATE_MKEY` for an opcode.
    pub name: Option<&'static str>,
}

impl Decoded {
    /// Nothing but zero bits.
    pub fn is_zero(&self) -> bool {
        match &self.content {
            Content::Number(value) => *value == 0,
            Content::Bytes(bytes) => bytes.iter().all(|&byte| byte == 0),
        }
    }
}

/// A structure of which there may be several, one after the other.
const REPEATED: &str = "piece";

/// What is known beside the bytes, by name: `op_mod` and `register_id` of the command that is
/// answered, `st` of a work request's queue pair.
pub type Hints<'a> = &'a dyn Fn(&str) -> Option<u64>;

/// Every field of `bytes`, which hold the structure `layout`, in the order of declaration; fields
/// behind the end of the bytes are left out.
pub fn decode(layout: &'static LayoutInfo, bytes: &[u8], hints: Hints<'_>) -> Vec<Decoded> {
    let mut decoder = Decoder::new(bytes, hints);
    let root = Step { name: layout.name, structure: None, index: None };
    if layout.name == WqeCtrlSeg::INFO.name {
        decoder.within(root, |decoder| wqe::decode(decoder));
    } else if layout.name == WqeDataSeg::INFO.name && bytes.len() > layout.size {
        decoder.within(root, |decoder| wqe::data(decoder, 0));
    } else if layout.name == REPEATED && layout.size > 0 {
        for (index, at) in (0..bytes.len()).step_by(layout.size).enumerate() {
            let step = Step { name: layout.name, structure: None, index: Some(index) };
            decoder.within(root, |decoder| {
                decoder.within(step, |decoder| decoder.structure(layout, at))
            });
        }
    } else {
        decoder.within(root, |decoder| decoder.structure(layout, 0));
    }
    decoder.finish(root)
}

/// The fields that `bytes`, which were found at byte `at` of the structure `layout`, hold wholly.
pub fn decode_at(layout: &'static LayoutInfo, at: usize, bytes: &[u8]) -> Vec<Decoded> {
    let mut decoder = Decoder::new(bytes, &|_| None);
    let root = Step { name: layout.name, structure: None, index: None };
    decoder.within(root, |decoder| decoder.window(layout, at));
    decoder.finish(root)
}

/// The state of taking one structure apart.
struct Decoder<'a> {
    /// The bytes, with zeros behind them so that every word of them can be read.
    bytes: Vec<u8>,
    /// How many there are without the zeros.
    len: usize,
    /// Bits that a field covers.
    covered: Vec<u8>,
    hints: Hints<'a>,
    path: Vec<Step>,
    out: Vec<Decoded>,
}

impl<'a> Decoder<'a> {
    fn new(bytes: &[u8], hints: Hints<'a>) -> Self {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(4) + 8, 0);
        let covered = vec![0; bytes.len()];
        Self { bytes: padded, len: bytes.len(), covered, hints, path: Vec::new(), out: Vec::new() }
    }

    fn within(&mut self, step: Step, then: impl FnOnce(&mut Self)) {
        self.path.push(step);
        then(self);
        self.path.pop();
    }

    fn from(&self, at: usize) -> &[u8] {
        self.bytes.get(at..).unwrap_or_default()
    }

    /// Everything in the structure that begins at byte `at`.
    fn structure(&mut self, layout: &'static LayoutInfo, at: usize) {
        self.structure_without_arrays(layout, at);
        for array in layout.arrays {
            let begin = at + array.byte;
            if let Some(inner) = unions::inside(layout, array, self.from(at), self.hints) {
                let step = Step::part(array.name, inner.name);
                self.within(step, |decoder| decoder.structure(inner, begin));
                continue;
            }
            let room = self.len.saturating_sub(begin);
            let size = match array.count {
                0 => room,
                count => room.min(count * array.element),
            };
            self.array(array.name, array.element, begin, size);
        }
    }

    fn structure_without_arrays(&mut self, layout: &'static LayoutInfo, at: usize) {
        for field in layout.fields {
            if at * 8 + field.bit + field.width > self.len * 8 {
                continue;
            }
            let value = get_bits(self.from(at), field.bit, field.width);
            self.cover(at * 8 + field.bit, field.width);
            let name = names::value_name(layout.name, field.name, value);
            self.push(Step::named(field.name), Content::Number(value), name);
        }
        if at + layout.size <= self.len
            && let Some((field, value, name)) = names::derived(layout.name, self.from(at))
        {
            self.push(Step::named(field), Content::Number(value), name);
        }
        for part in layout.parts {
            let begin = at + part.byte;
            if begin < self.len && unions::applies(layout, part, self.from(at), self.hints) {
                let step = Step::part(part.name, part.layout.name);
                self.within(step, |decoder| decoder.structure(part.layout, begin));
            }
        }
    }

    /// What lies wholly in our bytes when they begin at byte `at` of the structure.
    fn window(&mut self, layout: &'static LayoutInfo, at: usize) {
        let (first, end) = (at * 8, (at + self.len) * 8);
        for field in layout.fields {
            if field.bit < first || field.bit + field.width > end || !at.is_multiple_of(4) {
                continue;
            }
            let value = get_bits(&self.bytes, field.bit - first, field.width);
            self.cover(field.bit - first, field.width);
            let name = names::value_name(layout.name, field.name, value);
            self.push(Step::named(field.name), Content::Number(value), name);
        }
        for part in layout.parts.iter().filter(|part| part.byte <= at) {
            let step = Step::part(part.name, part.layout.name);
            self.within(step, |decoder| decoder.window(part.layout, at - part.byte));
        }
    }

    fn array(&mut self, name: &'static str, element: usize, begin: usize, size: usize) {
        if element == 1 && size > 0 {
            let bytes = self.from(begin).get(..size).unwrap_or_default().to_vec();
            self.cover(begin * 8, size * 8);
            self.push(Step::named(name), Content::Bytes(bytes), None);
            return;
        }
        for (index, at) in (begin..begin + size).step_by(element.max(1)).enumerate() {
            let Some(bytes) = self.bytes.get(at..at + element).filter(|_| at + element <= self.len)
            else {
                break;
            };
            let content = match element {
                2 | 4 | 8 => Content::Number(
                    bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)),
                ),
                _ => Content::Bytes(bytes.to_vec()),
            };
            self.cover(at * 8, element * 8);
            self.push(Step { name, structure: None, index: Some(index) }, content, None);
        }
    }

    fn path_to(&self, last: Step) -> Path {
        let mut steps = self.path.clone();
        steps.push(last);
        Path(steps)
    }

    fn push(&mut self, last: Step, content: Content, name: Option<&'static str>) {
        let path = self.path_to(last);
        self.out.push(Decoded { path, content, name });
    }

    fn cover(&mut self, bit: usize, width: usize) {
        for bit in bit..bit + width {
            if let Some(byte) = self.covered.get_mut(bit / 8) {
                *byte |= 0x80 >> (bit % 8);
            }
        }
    }

    /// What was found, and behind it the words in which something else is.
    fn finish(mut self, root: Step) -> Vec<Decoded> {
        for (at, (bytes, covered)) in
            self.bytes.chunks(4).zip(self.covered.chunks(4)).enumerate().map(|(n, w)| (n * 4, w))
        {
            let word = |bytes: &[u8]| {
                let mut word = [0; 4];
                word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                u32::from_be_bytes(word)
            };
            let rest = word(bytes) & !word(covered);
            if rest != 0 {
                let raw = Step { name: "raw", structure: None, index: Some(at) };
                let path = Path(vec![root, raw]);
                self.out.push(Decoded { path, content: Content::Number(rest.into()), name: None });
            }
        }
        self.out
    }
}

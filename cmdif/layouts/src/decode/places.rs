//! Where every field of a structure is, those of inner structures too.

use super::{Path, Step, wqe};
use crate::{LayoutInfo, Mkc, QpType, WqeCtrlSeg, WqeDataSeg, WqeOpcode, get_bits};

/// One field of a structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// How it is reached.
    pub path: Path,
    /// The innermost structure that it is in.
    pub structure: &'static str,
    /// Where its bits are: offset and width of each run, the highest bits first.
    pub runs: Vec<(usize, usize)>,
}

impl Place {
    /// How many bits it has.
    pub fn width(&self) -> usize {
        self.runs.iter().map(|(_, width)| width).sum()
    }

    /// Its value in these bytes, if they hold the words that it is in.
    pub fn get(&self, bytes: &[u8]) -> Option<u64> {
        self.runs.iter().try_fold(0_u64, |value, &(bit, width)| {
            let shifted = value.checked_shl(width as u32).unwrap_or(0);
            ((bit + width).next_multiple_of(32) <= bytes.len() * 8)
                .then(|| shifted | get_bits(bytes, bit, width))
        })
    }
}

/// All fields of a structure, of every part of its unions; without arrays.
pub fn places(layout: &'static LayoutInfo) -> Vec<Place> {
    let mut all = Vec::new();
    let root = Step { name: layout.name, structure: None, index: None };
    collect(layout, 0, &mut vec![root], &mut all);
    all
}

/// Data segments of a work request whose fields have places.
const DATA_SEGMENTS: usize = 4;

/// The fields of a whole work request of this opcode, of queue pairs of this type: of the control
/// segment, of those behind it, and of the first data segments.
pub fn work_request_places(opcode: WqeOpcode, service: Option<QpType>) -> Vec<Place> {
    let mut all = places(&WqeCtrlSeg::INFO);
    let mut path = vec![Step::named(WqeCtrlSeg::INFO.name)];
    let mut segment = |step, layout, at| {
        path.push(step);
        collect(layout, at, &mut path, &mut all);
        path.pop();
    };
    let (segments, data) = wqe::segments(opcode, service);
    for (name, layout, at) in segments {
        segment(Step::part(name, layout.name), layout, at);
    }
    for index in 0..DATA_SEGMENTS {
        let layout = &WqeDataSeg::INFO;
        let step = Step { index: Some(index), ..Step::part("data", layout.name) };
        segment(step, layout, data + index * layout.size);
    }
    all
}

fn collect(layout: &'static LayoutInfo, at: usize, path: &mut Vec<Step>, all: &mut Vec<Place>) {
    let mut add = |name, runs| {
        let mut steps = path.clone();
        steps.push(Step { name, structure: None, index: None });
        all.push(Place { path: Path(steps), structure: layout.name, runs });
    };
    for field in layout.fields {
        add(field.name, vec![(at * 8 + field.bit, field.width)]);
    }
    if layout.name == Mkc::INFO.name {
        // What `decode` puts together, too.
        let parts = ["access_mode_4_2", "access_mode_1_0"].map(|name| layout.field(name));
        let runs = parts.into_iter().flatten().map(|field| (at * 8 + field.bit, field.width));
        add("access_mode", runs.collect());
    }
    for part in layout.parts {
        path.push(Step { name: part.name, structure: Some(part.layout.name), index: None });
        collect(part.layout, at + part.byte, path, all);
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CreateMkeyIn, decode};

    #[test]
    fn places_are_where_decoding_finds_the_fields() {
        let bytes: Vec<u8> = (0..CreateMkeyIn::SIZE).map(|n| n as u8 ^ 0xa5).collect();
        let places = places(&CreateMkeyIn::INFO);
        for field in decode::decode(&CreateMkeyIn::INFO, &bytes, &|_| None) {
            let decode::Content::Number(number) = field.content else { continue };
            if field.path.last() == "raw" || field.path.0.iter().any(|step| step.index.is_some()) {
                continue;
            }
            let place = places.iter().find(|place| place.path == field.path).unwrap();
            assert_eq!(place.get(&bytes), Some(number), "{}", field.path);
        }
        let opcode = places.iter().find(|place| place.path.is("opcode")).unwrap();
        assert_eq!((opcode.get(&bytes[..3]), opcode.get(&bytes[..4])), (None, Some(0xa5a4)));
        assert!(places.iter().any(|place| place.path.is("mkc.access_mode") && place.width() == 5));
    }

    /// The same for work requests, whose segments follow from the opcode and the service.
    #[test]
    fn places_of_work_requests_are_where_decoding_finds_the_fields() {
        for opcode in [WqeOpcode::SEND, WqeOpcode::RDMA_WRITE, WqeOpcode::ATOMIC_CS, WqeOpcode::UMR]
        {
            for service in [QpType::RC, QpType::UD, QpType::XRC] {
                let mut bytes = [0; 0xa0];
                bytes[3] = opcode.0;
                // Its flags say that translations are not inline.
                bytes[0x50..].fill(0x15);
                let places = work_request_places(opcode, Some(service));
                let hints = |name: &str| (name == "st").then_some(u64::from(service.0));
                let fields = decode::decode(&WqeCtrlSeg::INFO, &bytes, &hints);
                for field in fields {
                    let decode::Content::Number(number) = field.content else { continue };
                    if field.path.last() == "raw" || field.path.0.iter().any(|s| s.index > Some(3))
                    {
                        continue;
                    }
                    let place = places.iter().find(|place| place.path == field.path);
                    let value = place.and_then(|place| place.get(&bytes));
                    assert_eq!(value, Some(number), "{opcode} {service}: {}", field.path);
                }
            }
        }
    }
}

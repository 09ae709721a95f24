//! The sample: the default command on Debian's 6.12, as guest and card traced it. `README.md` beside it says
//! how it is made.

use std::io::Read as _;

use explain::Story;
use flate2::read::GzDecoder;

const GUEST: &[u8] = include_bytes!("../sample/guest.gz");
const CARD: &[u8] = include_bytes!("../sample/card.trace.gz");

/// What guest and card wrote.
pub fn sample() -> (Vec<u8>, Vec<u8>) {
    let unpacked = |packed: &[u8]| {
        let mut bytes = Vec::new();
        GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        bytes
    };
    (unpacked(GUEST), unpacked(CARD))
}

/// The story of the sample.
pub fn story() -> Story {
    let (guest, trace) = sample();
    Story::new(&guest, Some(trace.as_slice())).unwrap()
}

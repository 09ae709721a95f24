//! What tests need to make a trace in memory.

use super::{Clocks, Encoder, Entry, Settings, TraceHeader, TraceReader};
use crate::Writer;

pub fn header() -> TraceHeader {
    TraceHeader {
        program: "mlx5emu 0.1.0".into(),
        clocks: Clocks { monotonic: 1, realtime: 2 },
        functions: vec!["/tmp/card".into()],
        settings: Settings::default(),
    }
}

pub fn file(blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    for block in blocks {
        writer.records(block).unwrap();
    }
    drop(writer);
    file
}

/// What an encoder, which began with a header, holds.
pub fn read(mut encoder: Encoder) -> Vec<Entry> {
    let file = file(&[encoder.take(Vec::new())]);
    TraceReader::new(&file[..]).unwrap().collect::<Result<_, _>>().unwrap()
}

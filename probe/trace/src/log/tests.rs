use layouts::{CreateMkeyIn, Opcode};
use probe::{Point, Site, Value};
use proptest::prelude::*;

use super::sample::{file, header};
use super::*;
use crate::{End, Writer};

fn site<'a>(bytes: &'a [u8], values: &'a [(&'static str, Value)]) -> Site<'a> {
    Site { point: Point::Command, layout: Some(&CreateMkeyIn::INFO), bytes, values }
}

fn events(file: &[u8]) -> Vec<Entry> {
    TraceReader::new(file).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn what_is_told_is_read() {
    let mut encoder = Encoder::new();
    encoder.header(&header());
    let mut bytes = [0; 0x110];
    let mut input = CreateMkeyIn(&mut bytes[..]);
    input.set_opcode(Opcode::CREATE_MKEY.0);
    input.memory_key_mkey_entry_mut().set_pd(3);
    let values = [("slot", Value::Number(5)), ("refused", Value::Word("wrong_variant"))];
    encoder.event(10, 0, 77, &site(&bytes, &values));
    encoder.settings(15, &Settings { level: Level::All, filter: Some("slot=1".into()) });
    encoder.dropped(20, 1000);
    let block = encoder.take(Vec::new());
    let file = file(&[block]);
    let mut reader = TraceReader::new(&file[..]).unwrap();
    assert_eq!(reader.header(), &header());
    let Some(Entry::Event(event)) = reader.next_entry().unwrap() else { panic!() };
    assert_eq!((event.time, event.thread, event.point), (10, 77, Point::Command));
    assert_eq!(event.structure.as_deref(), Some("create_mkey_in"));
    assert_eq!(event.number("slot"), Some(5));
    assert_eq!(event.word("refused"), Some("wrong_variant"));
    assert_eq!(event.opcode(), Some(Opcode::CREATE_MKEY));
    assert_eq!(event.field("mkc.pd"), Some(3));
    let settings = Settings { level: Level::All, filter: Some("slot=1".into()) };
    assert_eq!(reader.next_entry().unwrap(), Some(Entry::Settings { time: 15, settings }));
    assert_eq!(reader.next_entry().unwrap(), Some(Entry::Dropped { time: 20, count: 1000 }));
    assert_eq!(reader.next_entry().unwrap(), None);
    assert_eq!(reader.end(), Some(End::Whole));
}

#[test]
fn numbers_of_every_length_are_read() {
    let mut encoder = Encoder::new();
    encoder.header(&header());
    let edges = [0, 0xff, 0x100, 0xffff, 0x1_0000, 0xffff_ffff, 0x1_0000_0000, u64::MAX];
    let values = edges.map(|number| ("key", Value::Number(number)));
    encoder.event(0, 0, 0, &site(&[1, 2, 3], &values));
    let file = file(&[encoder.take(Vec::new())]);
    let Entry::Event(event) = &events(&file)[0] else { panic!() };
    let numbers: Vec<_> = event.values.iter().map(|(_, value)| value.clone()).collect();
    assert_eq!(numbers, edges.map(TraceValue::Number));
    assert_eq!(event.bytes, [1, 2, 3]);
}

#[test]
fn a_long_structure_is_cut_and_says_so() {
    let mut encoder = Encoder::new();
    encoder.header(&header());
    encoder.event(0, 0, 0, &site(&vec![1; MAX_BYTES + 5], &[]));
    let file = file(&[encoder.take(Vec::new())]);
    let Entry::Event(event) = &events(&file)[0] else { panic!() };
    assert_eq!(event.bytes.len(), MAX_BYTES);
    assert_eq!(event.length, MAX_BYTES as u64 + 5);
}

#[test]
fn other_files_are_no_traces() {
    let mut recording = Vec::new();
    Writer::new(&mut recording).unwrap().record(1, |to| to.extend_from_slice(b"{}")).unwrap();
    for (bytes, why) in [
        (recording, "no trace: it is a recording, for mlx5emu replay"),
        (file(&[]), "no trace: the file is empty"),
    ] {
        let error = TraceReader::new(&bytes[..]).unwrap_err();
        assert_eq!(error.to_string(), why);
    }
}

proptest! {
    #[test]
    fn a_torn_trace_is_read_up_to_there(cut in any::<prop::sample::Index>()) {
        let mut encoder = Encoder::new();
        encoder.header(&header());
        let mut blocks = vec![encoder.take(Vec::new())];
        let begin = file(&blocks).len();
        for time in 0..20 {
            encoder.event(time, 0, 0, &site(&[0; 32], &[("slot", Value::Number(time))]));
            blocks.push(encoder.take(Vec::new()));
        }
        let whole = file(&blocks);
        let cut = begin + cut.index(whole.len() - begin);
        let entries = events(&whole[..cut]);
        for (time, entry) in entries.iter().enumerate() {
            let Entry::Event(event) = entry else { panic!() };
            prop_assert_eq!(event.number("slot"), Some(time as u64));
        }
        prop_assert!(entries.len() < 20);
    }

    #[test]
    fn any_record_is_read_or_refused(records: Vec<(u8, Vec<u8>)>) {
        let mut encoder = Encoder::new();
        encoder.header(&header());
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file).unwrap();
        writer.records(&encoder.take(Vec::new())).unwrap();
        for (number, body) in records {
            writer.record(0x40 + u16::from(number % 6), |to| to.extend(body)).unwrap();
        }
        drop(writer);
        for entry in TraceReader::new(&file[..]).unwrap().map_while(Result::ok) {
            if let Entry::Event(event) = entry {
                let _ = event.fields();
            }
        }
    }
}

use dma::DmaError;
use proptest::prelude::*;

use crate::{
    End, Event, EventError, MAX_BLOCK, Next, ReadError, Reader, Record, WriteError, Writer,
};

type Records = Vec<(u16, Vec<u8>)>;

fn write(bodies: &[(u16, Vec<u8>)], flush_each: bool) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    for (kind, body) in bodies {
        writer.record(*kind, |to| to.extend_from_slice(body)).unwrap();
        if flush_each {
            writer.flush().unwrap();
        }
    }
    drop(writer);
    file
}

/// Everything up to the end, and how it ended.
fn read(file: &[u8]) -> Result<(Records, End), ReadError> {
    let mut reader = Reader::new(file)?;
    let mut all = Vec::new();
    while let Some(record) = reader.next_record()? {
        assert_eq!(record.index, all.len() as u64);
        all.push((record.kind, record.body.to_vec()));
    }
    assert!(reader.next_record()?.is_none(), "the end is the end");
    Ok((all, reader.end().unwrap()))
}

fn records() -> impl Strategy<Value = Records> {
    prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..300)), 0..20)
}

proptest! {
    #[test]
    fn what_is_written_is_read(records in records(), flush_each: bool) {
        let file = write(&records, flush_each);
        prop_assert_eq!(read(&file).unwrap(), (records, End::Whole));
    }

    #[test]
    fn a_torn_file_is_read_up_to_there(records in records(), cut in any::<prop::sample::Index>()) {
        let file = write(&records, true);
        let cut = 12 + cut.index(file.len() - 11);
        let (some, end) = read(&file[..cut]).unwrap();
        prop_assert_eq!(&some[..], &records[..some.len()]);
        match end {
            End::Whole => prop_assert_eq!(write(&records[..some.len()], true).len(), cut),
            End::Torn(at) => prop_assert!((at as usize) < cut),
        }
    }

    #[test]
    fn a_changed_byte_is_noticed(records in records(), at in any::<prop::sample::Index>(), flip in 1u8..) {
        let mut file = write(&records, false);
        prop_assume!(!records.is_empty());
        let at = 12 + at.index(file.len() - 12);
        file[at] ^= flip;
        // A length that was changed may point past the end: then it looks like a torn block.
        match read(&file) {
            Err(ReadError::Damaged(12)) => {}
            Ok((some, End::Torn(12))) => prop_assert!(some.is_empty()),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
        let _ = read(&bytes);
        let mut file = write(&[], false);
        file.extend_from_slice(&bytes);
        let _ = read(&file);
    }

    #[test]
    fn any_body_is_decoded_or_refused(kind in 0u16..0x40, body: Vec<u8>) {
        if let Ok(event) = Event::decode(Record { index: 0, kind, body: &body }) {
            let mut again = Vec::new();
            event.encode(&mut again);
            // A refused compare-and-exchange has no value, whatever stood there.
            if !matches!(event, Event::CompareExchange { outcome: Err(_), .. }) {
                prop_assert_eq!(&again, &body);
            }
            prop_assert_eq!(event.kind(), kind);
        }
    }
}

#[test]
fn other_files_are_refused() {
    assert!(matches!(Reader::new(&b""[..]), Err(ReadError::Magic)));
    assert!(matches!(Reader::new(&b"mlx5emu"[..]), Err(ReadError::Magic)));
    assert!(matches!(Reader::new(&b"{\"json\": true}..."[..]), Err(ReadError::Magic)));
    let mut newer = write(&[], false);
    newer[8] = 2;
    assert!(matches!(Reader::new(&newer[..]), Err(ReadError::Version(2))));
}

#[test]
fn a_record_longer_than_a_block_is_refused_and_the_rest_stays_readable() {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    writer.record(1, |to| to.push(1)).unwrap();
    let error = writer.record(2, |to| to.resize(to.len() + MAX_BLOCK, 0)).unwrap_err();
    assert!(matches!(error, WriteError::TooLong(_)), "{error}");
    // The longest that fits, behind another: they end up in two blocks.
    writer.record(3, |to| to.resize(to.len() + MAX_BLOCK - 6, 0)).unwrap();
    drop(writer);
    let (all, end) = read(&file).unwrap();
    assert_eq!(all.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(end, End::Whole);
}

#[test]
fn every_event_survives_the_file() {
    let refused = [
        DmaError::Unmapped { addr: 1, len: 2 },
        DmaError::Forbidden { addr: 3, len: 4, write: true },
        DmaError::Forbidden { addr: 3, len: 4, write: false },
        DmaError::Gone { addr: 5, len: 6 },
        DmaError::Misaligned { addr: 7 },
    ];
    let mut events = vec![
        Event::Header("{}"),
        Event::BarRead { now: 1, offset: 0x1fc, data: &[1, 2, 3, 4] },
        Event::BarWrite { now: 2, offset: 0x18, data: &[0, 0, 0, 1] },
        Event::Poll { now: 3 },
        Event::Reset,
        Event::Connected { now: 5 },
        Event::Control("{\"do\":\"status\"}"),
        Event::Polled(Next::Now),
        Event::Polled(Next::At(u64::MAX)),
        Event::Polled(Next::Idle),
        Event::Answered { ok: true, json: "{}" },
        Event::Answered { ok: false, json: "{}" },
        Event::DmaRead { addr: 0x1000, len: 3, outcome: Ok(b"abc") },
        Event::DmaWrite { addr: 0x1000, data: b"abc", outcome: Ok(()) },
        Event::DmaCopy { src: 1, dst: 2, len: 3, outcome: Ok(()) },
        Event::CompareExchange { addr: 8, old: [1; 8], new: [2; 8], outcome: Ok([3; 8]) },
        Event::Interrupt(63),
    ];
    for error in refused {
        events.push(Event::DmaRead { addr: 0x1000, len: 3, outcome: Err(error) });
        events.push(Event::DmaWrite { addr: 0x1000, data: b"abc", outcome: Err(error) });
        events.push(Event::DmaCopy { src: 1, dst: 2, len: 3, outcome: Err(error) });
        events.push(Event::CompareExchange {
            addr: 8,
            old: [1; 8],
            new: [2; 8],
            outcome: Err(error),
        });
    }
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    for event in &events {
        writer.record(event.kind(), |to| event.encode(to)).unwrap();
    }
    drop(writer);
    let mut reader = Reader::new(&file[..]).unwrap();
    for event in &events {
        let record = reader.next_record().unwrap().unwrap();
        assert_eq!(Event::decode(record).as_ref(), Ok(event));
    }
    assert!(reader.next_record().unwrap().is_none());
    let unknown = Record { index: 0, kind: 0x7fff, body: &[] };
    assert_eq!(Event::decode(unknown), Err(EventError::Kind(0x7fff)));
}

#[test]
fn a_writer_that_failed_writes_nothing_more() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
            let n = data.len().min(self.0);
            self.0 -= n;
            if n == 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(n) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut writer = Writer::new(Full(20)).unwrap();
    writer.record(1, |to| to.push(1)).unwrap();
    assert!(writer.flush().is_err());
    writer.record(1, |to| to.push(1)).unwrap();
    assert!(writer.flush().is_err());
}

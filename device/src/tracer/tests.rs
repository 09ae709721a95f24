use std::fs::File;
use std::time::Instant;

use probe::{Point, Probe, at};
use tempfile::TempDir;
use trace::{Entry, Level, Settings, TraceReader, Writer};

use super::shared::{ROOM, Shared};
use super::*;

fn options(dir: &TempDir) -> TraceOptions {
    TraceOptions { file: dir.path().join("trace"), settings: Settings::default() }
}

fn entries(path: &Path) -> Vec<Entry> {
    TraceReader::new(File::open(path).unwrap()).unwrap().collect::<Result<_, _>>().unwrap()
}

fn vectors(entries: &[Entry]) -> Vec<u64> {
    let event = |entry: &Entry| match entry {
        Entry::Event(event) => event.number("vector"),
        _ => None,
    };
    entries.iter().filter_map(event).collect()
}

#[test]
fn what_the_probe_tells_is_in_the_file() {
    let dir = TempDir::new().unwrap();
    let (options, probe) = (options(&dir), Probe::new());
    let tracer = Tracer::start(options.clone(), "card", Instant::now(), &probe).unwrap();
    for vector in 0..1000u16 {
        at!(probe, Interrupt, vector = vector);
        at!(probe, RegisterRead, offset = vector);
    }
    let status = tracer.status();
    assert_eq!((status.events, status.dropped, &*status.level), (1000, 0, "work"));
    drop(tracer);
    let entries = entries(&options.file);
    assert_eq!(vectors(&entries), (0..1000).collect::<Vec<_>>());
    let Entry::Event(event) = &entries[0] else { panic!() };
    assert_eq!(event.point, Point::Interrupt);
    let times = entries.iter().map(|entry| match entry {
        Entry::Event(event) => event.time,
        other => panic!("{other:?}"),
    });
    assert!(times.is_sorted());
}

#[test]
fn a_trace_is_for_its_owner_and_never_replaces_a_file() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = TempDir::new().unwrap();
    let options = options(&dir);
    let start = || Tracer::start(options.clone(), "card", Instant::now(), &Probe::new());
    drop(start().unwrap());
    assert_eq!(options.file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(matches!(start(), Err(StartTraceError::Io(_))));
}

#[test]
fn level_and_filter_are_changed_on_the_way() {
    let dir = TempDir::new().unwrap();
    let (options, probe) = (options(&dir), Probe::new());
    let mut tracer = Tracer::start(options.clone(), "card", Instant::now(), &probe).unwrap();
    at!(probe, Interrupt, vector = 1u16);
    tracer.change(None, Some("vector=3"), &probe).unwrap();
    at!(probe, Interrupt, vector = 2u16);
    at!(probe, Interrupt, vector = 3u16);
    tracer.change(Some("off"), Some(""), &probe).unwrap();
    assert!(!probe.armed(Point::Interrupt), "nothing is computed any more");
    at!(probe, Interrupt, vector = 4u16);
    assert!(tracer.change(Some("more"), None, &probe).is_err());
    assert!(tracer.change(None, Some("vector=="), &probe).is_err());
    tracer.change(Some("commands"), None, &probe).unwrap();
    at!(probe, Interrupt, vector = 5u16);
    drop(tracer);
    let entries = entries(&options.file);
    assert_eq!(vectors(&entries), [1, 3, 5]);
    let changes: Vec<_> = entries
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Settings { settings, .. } => Some((settings.level, settings.filter)),
            _ => None,
        })
        .collect();
    assert_eq!(
        changes,
        [(Level::Work, Some("vector=3".to_owned())), (Level::Off, None), (Level::Commands, None)]
    );
}

/// While nobody writes, a bounded buffer fills and the rest is counted; then the file tells how many
/// are missing.
#[test]
fn what_does_not_fit_is_counted() {
    let header = TraceHeader {
        program: "test".into(),
        clocks: Clocks { monotonic: 0, realtime: 0 },
        functions: Vec::new(),
        settings: Settings::default(),
    };
    let shared = Shared::new(&header, None);
    let bytes = vec![0; 60_000];
    let note = |time, vector: u64| {
        let values = [("vector", probe::Value::Number(vector))];
        let point = Point::Interrupt;
        shared.note(time, || time, &Site { point, layout: None, bytes: &bytes, values: &values });
    };
    let many = 2 * ROOM as u64 / 60_000;
    (0..many).for_each(|n| note(n, n));
    let (events, dropped) = shared.counts();
    assert_eq!(events + dropped, many);
    assert!(dropped > many / 3);
    // Nothing is noted after the drop, so it is told at the very end.
    shared.stop();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("trace");
    shared.write(Writer::new(File::create_new(&path).unwrap()).unwrap(), &path);
    let entries = entries(&path);
    assert_eq!(vectors(&entries), (0..events).collect::<Vec<_>>());
    assert_eq!(entries.last(), Some(&Entry::Dropped { time: many - 1, count: dropped }));
}

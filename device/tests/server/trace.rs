//! A trace of a driver's session, from power-on to power-off.

use std::fs::File;
use std::path::Path;

use ::trace::{Entry, Level, Settings, TraceEvent, TraceReader};
use control::{ClientError, RefusalKind, Request, TraceStatus};
use device::tracer::TraceOptions;
use layouts::Opcode;
use probe::Point;

use crate::boot::session;
use crate::running::Running;

fn traced(level: Level, filter: Option<&str>) -> Running {
    Running::start_with(|options| {
        let settings = Settings { level, filter: filter.map(Into::into) };
        let file = options.socket.with_file_name("trace");
        options.trace = Some(TraceOptions { file, settings });
    })
}

fn events(file: &Path) -> Vec<TraceEvent> {
    let reader = TraceReader::new(File::open(file).unwrap()).unwrap();
    let event = |entry| match entry {
        Ok(Entry::Event(event)) => event,
        other => panic!("{other:?}"),
    };
    reader.map(event).collect()
}

#[test]
fn a_session_is_traced_with_all_that_belongs_to_it() {
    let running = traced(Level::All, None);
    session(&running);
    running.wait_disconnected();
    let status: TraceStatus =
        running.control().ask(Request::Trace { level: None, filter: None }).unwrap();
    assert_eq!((&*status.level, status.dropped), ("all", 0));
    let dir = running.stop();
    let events = events(&dir.path().join("trace"));
    let count = |point| events.iter().filter(|event| event.point == point).count();
    for point in [
        Point::RegisterRead,
        Point::RegisterWrite,
        Point::Mailbox,
        Point::Pages,
        Point::Event,
        Point::Interrupt,
        Point::Doorbell,
        Point::WorkRequest,
        Point::Completion,
        Point::Translation,
        Point::DmaRead,
        Point::DmaWrite,
        Point::Create,
        Point::Modify,
        Point::Destroy,
        Point::Reset,
    ] {
        assert!(count(point) > 0, "no {point}");
    }
    assert_eq!(count(Point::Command), count(Point::Reply));
    // Of every structure all is named or shown raw, and every command's name is known.
    for event in &events {
        if event.structure.is_some() {
            assert!(event.layout().is_some(), "{event:?}");
        }
        if let (Point::Command | Point::Reply, Some(opcode)) = (event.point, event.opcode()) {
            assert!(opcode.name().is_some(), "{opcode}");
            let raw = event.fields().into_iter().find(|field| field.path.last() == "raw");
            assert_eq!(raw, None, "{opcode} has bits without a name");
        }
    }
    let of = |opcode| move |event: &&TraceEvent| event.opcode() == Some(opcode);
    let init = events.iter().find(of(Opcode::INIT_HCA)).unwrap();
    let teardown = events.iter().find(of(Opcode::TEARDOWN_HCA)).unwrap();
    assert!(init.time < teardown.time);
}

#[test]
fn a_filter_keeps_what_matches() {
    let running = traced(Level::Commands, Some("command.opcode=CREATE_MKEY"));
    session(&running);
    running.wait_disconnected();
    let dir = running.stop();
    let events = events(&dir.path().join("trace"));
    assert!(!events.is_empty());
    for event in events {
        let matches = (event.point, event.opcode());
        assert_eq!(matches, (Point::Command, Some(Opcode::CREATE_MKEY)));
    }
}

#[test]
fn who_does_not_trace_says_so() {
    let running = Running::start();
    let refused =
        running.control().ask_json(Request::Trace { level: Some("all".into()), filter: None });
    assert!(
        matches!(&refused, Err(ClientError::Refused(why)) if why.kind == RefusalKind::NotFound),
        "{refused:?}"
    );
}

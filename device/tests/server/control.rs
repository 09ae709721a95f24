//! The control socket of a running server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use control::{
    Answer, ClientError, Greeting, Hex, MAX_LINE, Missing, MkeyPage, RefusalKind, Request,
};

use crate::running::{CONFIG, Running, read};

fn connect(running: &Running) -> BufReader<UnixStream> {
    let mut stream =
        BufReader::new(UnixStream::connect(running.dir.path().join("control")).unwrap());
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    serde_json::from_str::<Greeting>(&line).unwrap();
    stream
}

fn answer(stream: &mut BufReader<UnixStream>) -> Answer {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

fn is_bad_request(answer: &Answer) -> bool {
    answer.error.as_ref().is_some_and(|error| error.kind == RefusalKind::BadRequest)
}

#[test]
fn sockets_are_for_their_owner() {
    let running = Running::start();
    for name in ["socket", "control"] {
        let mode = running.dir.path().join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn requests_are_answered() {
    let running = Running::start();
    let mut control = running.control();
    let status: control::Status = control.ask(Request::Status {}).unwrap();
    assert_eq!((status.connected, status.connections), (false, 0));
    let _: Missing = control.ask(Request::Missing {}).unwrap();
    let keys: MkeyPage =
        control.ask(Request::Mkeys { live_only: false, from: 0, limit: 10 }).unwrap();
    assert_eq!((keys.keys.len(), keys.next), (0, None));
    let refused = control.ask_json(Request::Mkey { key: Hex(0x1234) }).unwrap_err();
    assert!(
        matches!(&refused, ClientError::Refused(why) if why.kind == RefusalKind::NotFound),
        "{refused}"
    );
}

#[test]
fn what_is_no_request_does_not_end_the_connection() {
    let running = Running::start();
    let mut stream = connect(&running);
    for line in ["hello", "{\"id\":1,\"do\":\"status\",\"now\":true}", "{\"id\":1,\"do\":\"halt\"}"]
    {
        writeln!(stream.get_mut(), "{line}").unwrap();
        assert!(is_bad_request(&answer(&mut stream)), "{line}");
    }
    writeln!(stream.get_mut(), "{{\"id\":2,\"do\":\"status\"}}").unwrap();
    assert!(answer(&mut stream).ok.is_some());
}

#[test]
fn a_line_that_is_too_long_does() {
    let running = Running::start();
    let mut stream = connect(&running);
    // The server may close while the rest is being sent.
    let _ = stream.get_mut().write_all(&vec![b' '; MAX_LINE + 1]);
    assert!(is_bad_request(&answer(&mut stream)));
    let mut rest = Vec::new();
    // It was closed with our bytes unread, which may count as an error.
    let _ = stream.read_to_end(&mut rest);
    assert_eq!(rest, b"");
    running.status();
}

#[test]
fn clients_that_go_or_do_not_read_disturb_nobody() {
    let running = Running::start();
    let mut card = running.connect();
    let mut silent = connect(&running);
    silent.get_ref().set_nonblocking(true).unwrap();
    let request = b"{\"id\":1,\"do\":\"status\"}\n".repeat(1000);
    while silent.get_mut().write(&request).is_ok() {}
    for some in [&b""[..], b"{", b"{\"id\":1,\"do\":\"status\"}\n"] {
        let mut gone = UnixStream::connect(running.dir.path().join("control")).unwrap();
        gone.write_all(some).unwrap();
        drop(gone);
    }
    assert_eq!(read(&mut card, CONFIG, 0), [0xb3, 0x15, 0x1b, 0x10]);
    assert!(running.status().connected);
    silent.get_ref().set_nonblocking(false).unwrap();
    assert!(answer(&mut silent).ok.is_some(), "it is served once it reads");
}

#[test]
fn clients_are_bounded() {
    let running = Running::start();
    let all: Vec<_> = (0..32).map(|_| connect(&running)).collect();
    let mut stream = UnixStream::connect(running.dir.path().join("control")).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "one too many");
    drop(all);
    crate::running::wait("the others to be forgotten", || {
        let mut stream = UnixStream::connect(running.dir.path().join("control")).unwrap();
        stream.read(&mut [0]).unwrap_or(0) == 1
    });
}

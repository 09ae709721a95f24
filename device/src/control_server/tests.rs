use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;

use control::{Answer, Greeting, MAX_LINE, Refusal, RefusalKind, Request, SCHEMA};
use serde_json::{Value, json};

use super::client::{Client, Reply, Turn};

/// A stream whose other end the test holds.
#[derive(Debug, Clone, Default)]
struct Stream(Rc<RefCell<Ends>>);

#[derive(Debug, Default)]
struct Ends {
    /// To be read by the client; an empty piece is its end.
    input: VecDeque<Vec<u8>>,
    output: Vec<u8>,
    /// How much can be written before the stream is full.
    room: usize,
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut ends = self.0.borrow_mut();
        let Some(mut piece) = ends.input.pop_front() else {
            return Err(ErrorKind::WouldBlock.into());
        };
        let n = piece.len().min(buf.len());
        buf[..n].copy_from_slice(&piece[..n]);
        if n < piece.len() {
            ends.input.push_front(piece.split_off(n));
        }
        Ok(n)
    }
}

impl Write for Stream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut ends = self.0.borrow_mut();
        let n = data.len().min(ends.room);
        if n == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        ends.room -= n;
        ends.output.extend_from_slice(&data[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Peer {
    client: Client<Stream>,
    stream: Stream,
    asked: usize,
    reply: Reply,
}

impl Peer {
    fn new() -> Self {
        let stream = Stream::default();
        stream.0.borrow_mut().room = usize::MAX;
        Self { client: Client::new(stream.clone()), stream, asked: 0, reply: Ok(json!({})) }
    }

    fn send(&self, data: impl AsRef<[u8]>) {
        self.stream.0.borrow_mut().input.push_back(data.as_ref().to_vec());
    }

    fn close(&self) {
        self.send("");
    }

    /// Turns until the client waits or is gone.
    fn run(&mut self) -> Turn {
        loop {
            let Self { client, asked, reply, .. } = self;
            let turn = client.turn(&mut |_: &Request| {
                *asked += 1;
                reply.clone()
            });
            if turn != Turn::More {
                return turn;
            }
        }
    }

    fn lines(&self) -> Vec<String> {
        let output = std::mem::take(&mut self.stream.0.borrow_mut().output);
        String::from_utf8(output).unwrap().lines().map(Into::into).collect()
    }

    fn answers(&self) -> Vec<Answer> {
        self.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn greeted() -> Self {
        let mut peer = Self::new();
        assert_eq!(peer.run(), Turn::Wait);
        let greeting: Greeting = serde_json::from_str(&peer.lines()[0]).unwrap();
        assert_eq!(greeting.schema, SCHEMA);
        peer
    }
}

fn is_bad_request(answer: &Answer, id: u64) -> bool {
    answer.id == id
        && answer.ok.is_none()
        && answer.error.as_ref().is_some_and(|error| error.kind == RefusalKind::BadRequest)
}

#[test]
fn requests_are_answered_in_order_however_they_arrive() {
    let mut peer = Peer::greeted();
    let text = "{\"id\":1,\"do\":\"status\"}\n{\"id\":2,\"do\":\"missing\"}\n{\"id\":3,\"do\":\"status\"}\n";
    for byte in text.bytes() {
        peer.send([byte]);
    }
    peer.send(text);
    assert_eq!(peer.run(), Turn::Wait);
    let ids: Vec<u64> = peer.answers().iter().map(|answer| answer.id).collect();
    assert_eq!(ids, [1, 2, 3, 1, 2, 3]);
    assert_eq!(peer.asked, 6);
}

#[test]
fn one_turn_carries_out_one_request() {
    let mut peer = Peer::greeted();
    peer.send("{\"id\":1,\"do\":\"status\"}\n".repeat(10));
    for n in 1..=10 {
        let mut asked = 0;
        let turn = peer.client.turn(&mut |_| {
            asked += 1;
            Ok(Value::Null)
        });
        assert_eq!((asked, turn), (1, Turn::More), "turn {n}");
    }
    assert_eq!(peer.run(), Turn::Wait);
}

#[test]
fn what_is_no_request_is_answered_and_the_next_line_is_read() {
    for (line, id) in [
        ("", 0),
        ("hello", 0),
        ("{}", 0),
        ("[]", 0),
        ("{\"id\":7}", 7),
        ("{\"id\":7,\"do\":\"dance\"}", 7),
        ("{\"id\":7,\"do\":\"status\",\"more\":1}", 7),
        ("{\"id\":7,\"do\":\"mkey\",\"key\":4660}", 7),
        ("{\"id\":-7,\"do\":\"status\"}", 0),
        ("{\"id\":7,\"do\":\"status\"} {}", 0),
        ("\u{0}\u{1}", 0),
    ] {
        let mut peer = Peer::greeted();
        peer.send(format!("{line}\n{{\"id\":8,\"do\":\"status\"}}\n"));
        assert_eq!(peer.run(), Turn::Wait);
        let answers = peer.answers();
        assert_eq!(answers.len(), 2, "{line}");
        assert!(is_bad_request(&answers[0], id), "{line}: {:?}", answers[0]);
        assert_eq!((answers[1].id, peer.asked), (8, 1), "{line}");
    }
    let mut peer = Peer::greeted();
    peer.send(b"\xff\xfe\n");
    peer.send("[".repeat(100_000) + "\n");
    assert_eq!(peer.run(), Turn::Wait);
    assert!(peer.answers().iter().all(|answer| is_bad_request(answer, 0)));
}

#[test]
fn refusals_are_passed_on() {
    let mut peer = Peer::greeted();
    let refusal = Refusal { kind: RefusalKind::NotFound, message: "no such key".into() };
    peer.reply = Err(refusal.clone());
    peer.send("{\"id\":9,\"do\":\"mkey\",\"key\":\"0x1\"}\n");
    peer.run();
    assert_eq!(peer.answers(), [Answer { id: 9, ok: None, error: Some(refusal) }]);
}

#[test]
fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
    let request = "{\"id\":5,\"do\":\"status\"}";
    let mut peer = Peer::greeted();
    peer.send(request.to_owned() + &" ".repeat(MAX_LINE - request.len() - 1) + "\n");
    assert_eq!(peer.run(), Turn::Wait);
    assert_eq!(peer.answers()[0].id, 5);

    let mut peer = Peer::greeted();
    peer.send(request.to_owned() + &" ".repeat(MAX_LINE - request.len()) + "\n");
    assert_eq!(peer.run(), Turn::Gone);
    let answers = peer.answers();
    assert!(answers.len() == 1 && is_bad_request(&answers[0], 0), "{answers:?}");
    assert_eq!(peer.asked, 0);
}

#[test]
fn an_answer_that_is_too_long_becomes_a_refusal() {
    let mut peer = Peer::greeted();
    peer.reply = Ok(Value::String("x".repeat(MAX_LINE)));
    peer.send("{\"id\":6,\"do\":\"status\"}\n");
    peer.run();
    let answers = peer.answers();
    assert!(answers.len() == 1 && is_bad_request(&answers[0], 6));
}

#[test]
fn who_does_not_read_is_not_read() {
    let mut peer = Peer::greeted();
    peer.reply = Ok(Value::String("x".repeat(MAX_LINE / 2)));
    peer.stream.0.borrow_mut().room = 0;
    peer.send("{\"id\":1,\"do\":\"status\"}\n".repeat(100));
    assert_eq!(peer.run(), Turn::Wait);
    assert_eq!(peer.asked, 2, "a backlog of little more than a line, then nothing more");
    peer.stream.0.borrow_mut().room = MAX_LINE;
    assert_eq!(peer.run(), Turn::Wait);
    assert!(peer.asked < 8);
    peer.stream.0.borrow_mut().room = usize::MAX;
    assert_eq!(peer.run(), Turn::Wait);
    assert_eq!((peer.asked, peer.answers().len()), (100, 100));
}

#[test]
fn who_goes_away_is_forgotten_after_its_answers() {
    let mut peer = Peer::greeted();
    peer.send("{\"id\":1,\"do\":\"status\"}\n{\"id\":2,");
    peer.close();
    assert_eq!(peer.run(), Turn::Gone);
    assert_eq!(peer.answers().len(), 1);

    let mut silent = Peer::new();
    silent.stream.0.borrow_mut().room = 0;
    silent.close();
    assert_eq!(silent.run(), Turn::Wait, "the greeting is still to be sent");
    silent.stream.0.borrow_mut().room = usize::MAX;
    assert_eq!(silent.run(), Turn::Gone);
}

use layouts::{CreateMkeyIn, CreateMkeyOut, Opcode};
use probe::{Point, Site, Value};

use super::*;
use crate::log::sample::{header, read};
use crate::{Encoder, Entry, Level, Settings};

/// A command, its reply, an interrupt, a register, and what is missing.
fn sample() -> Vec<Entry> {
    let mut encoder = Encoder::new();
    encoder.header(&header());
    let mut input = [0; 0x110];
    let mut command = CreateMkeyIn(&mut input[..]);
    command.set_opcode(Opcode::CREATE_MKEY.0);
    let mut mkc = command.memory_key_mkey_entry_mut();
    mkc.set_access_mode_1_0(1);
    mkc.set_pd(0x45);
    input[0x7f] = 1;
    let mut tell = |time, point, layout, bytes: &[u8], values: &[(&'static str, Value)]| {
        encoder.event(time, 0, 9, &Site { point, layout, bytes, values });
    };
    let slot = ("slot", Value::Number(30));
    tell(1_500_000_001, Point::Command, Some(&CreateMkeyIn::INFO), &input, &[slot]);
    let mut output = [0; 0x10];
    CreateMkeyOut(&mut output[..]).set_mkey_index(0x17ef);
    let opcode = ("opcode", Value::Number(0x200));
    let answered = [slot, opcode, ("op_mod", Value::Number(0))];
    tell(1_500_000_500, Point::Reply, Some(&CreateMkeyOut::INFO), &output, &answered);
    CreateMkeyOut(&mut output[..]).set_status(3);
    tell(1_500_000_600, Point::Reply, Some(&CreateMkeyOut::INFO), &output, &answered);
    tell(1_600_000_000, Point::Interrupt, None, &[], &[("vector", Value::Number(12))]);
    let offset = ("offset", Value::Number(0x1fc));
    tell(1_700_000_000, Point::RegisterRead, None, &[0x80, 0, 0, 0], &[offset]);
    let refused = [("key", Value::Number(0x1700)), ("refused", Value::Word("free_key"))];
    tell(1_800_000_000, Point::Translation, None, &[], &refused);
    let at = [("at", Value::Word("translation"))];
    tell(1_800_000_000, Point::Fault, None, b"a key that refuses", &at);
    encoder.dropped(1_900_000_000, 3);
    encoder.settings(2_000_000_000, &Settings { level: Level::Dma, filter: None });
    read(encoder)
}

#[test]
fn a_line_says_what_matters() {
    let text: String = sample().iter().map(|entry| Text::default().entry(entry)).collect();
    let expected = "    \
    1.500000001  command         CREATE_MKEY slot=30  mkc.access_mode_1_0=1 mkc.pd=0x45 \
mkc.access_mode=MTT raw[0x7c]=1
    1.500000500  reply           CREATE_MKEY slot=30  mkey_index=0x17ef
    1.500000600  reply           CREATE_MKEY BAD_PARAM slot=30  mkey_index=0x17ef
    1.600000000  interrupt       vector=12
    1.700000000  register_read   offset=0x1fc  initializing=1
    1.800000000  translation     key=0x1700 refused=free_key
    1.800000000  fault           \"a key that refuses\" at=translation
    1.900000000  -- 3 events dropped: the trace could not keep up --
    2.000000000  -- traced from here: dma, filter none --
";
    assert_eq!(text, expected);
}

#[test]
fn full_shows_every_field() {
    let text = Text { full: true, colour: false };
    let reply = text.entry(&sample()[1]);
    let expected = "    1.500000500  reply           CREATE_MKEY slot=30  create_mkey_out, 16 bytes
                    status = OK
                    syndrome = 0
                    mkey_index = 0x17ef
";
    assert_eq!(reply, expected);
}

#[test]
fn colours_change_nothing_else() {
    for entry in sample() {
        let coloured = Text { full: false, colour: true }.entry(&entry);
        let plain: String = coloured
            .split('\u{1b}')
            .enumerate()
            .map(|(n, part)| if n == 0 { part } else { part.split_once('m').unwrap().1 })
            .collect();
        assert_eq!(plain, Text::default().entry(&entry));
        assert_ne!(plain, coloured);
    }
}

#[test]
fn json_has_numbers_and_their_names() {
    let all: Vec<_> = sample().iter().map(json).collect();
    let command = &all[0];
    assert_eq!(command["time"], 1_500_000_001);
    assert_eq!(command["point"], "command");
    assert_eq!(command["structure"], "create_mkey_in");
    assert_eq!(command["values"]["slot"], 30);
    assert_eq!(command["fields"]["opcode"], 0x200);
    assert_eq!(command["names"]["opcode"], "CREATE_MKEY");
    assert_eq!(command["fields"]["memory_key_mkey_entry.pd"], 0x45);
    assert_eq!(command["fields"]["raw[0x7c]"], 1);
    assert_eq!(all[5]["values"]["refused"], "free_key");
    assert_eq!(all[7]["dropped"], 3);
    assert_eq!(all[8]["settings"]["level"], "dma");
}

/// A doorbell, the work requests that it sets going, and their one completion; a command from its
/// doorbell to its event.
fn work() -> Vec<Entry> {
    use layouts::{Cqe64, CqeOpcode, Eqe, EventType, WqeCtrlSeg, WqeOpcode};

    let mut encoder = Encoder::new();
    encoder.header(&header());
    let mut tell = |time, point, layout, bytes: &[u8], values: &[(&'static str, Value)]| {
        encoder.event(time, 0, 9, &Site { point, layout, bytes, values });
    };
    let number = |name, number| (name, Value::Number(number));
    tell(100, Point::Doorbell, None, &[], &[number("slots", 1 << 3)]);
    let mut input = [0; 0x110];
    CreateMkeyIn(&mut input[..]).set_opcode(Opcode::CREATE_MKEY.0);
    tell(200, Point::Command, Some(&CreateMkeyIn::INFO), &input, &[number("slot", 3)]);
    let answered = [number("slot", 3), number("opcode", 0x200)];
    tell(300, Point::Reply, Some(&CreateMkeyOut::INFO), &[0; 16], &answered);
    let mut eqe = [0; 64];
    Eqe(&mut eqe[..]).set_type(EventType::CMD.0);
    Eqe(&mut eqe[..]).cmd_mut().set_vector(1 << 3);
    tell(400, Point::Event, Some(&Eqe::INFO), &eqe, &[number("eqn", 1)]);
    tell(500, Point::Doorbell, None, &[], &[number("qpn", 0x45)]);
    for index in 0..3 {
        let mut wqe = [0; 16];
        WqeCtrlSeg(&mut wqe[..]).set_opcode(WqeOpcode::RDMA_WRITE.0);
        let values = [number("qpn", 0x45), number("index", index)];
        tell(600 + index, Point::WorkRequest, Some(&WqeCtrlSeg::INFO), &wqe, &values);
        tell(602 + index, Point::Translation, None, &[], &[number("qpn", 0x45)]);
    }
    let mut cqe = [0; 64];
    Cqe64(&mut cqe[..]).set_opcode(CqeOpcode::REQ.0);
    Cqe64(&mut cqe[..]).set_wqe_counter(1);
    let values = [number("cqn", 7), number("qpn", 0x45)];
    tell(700, Point::Completion, Some(&Cqe64::INFO), &cqe, &values);
    read(encoder)
}

#[test]
fn perfetto_gets_tracks_spans_and_arrows() {
    let entries = [sample(), work()].concat();
    let mut perfetto = Perfetto::new(Vec::new(), &header()).unwrap();
    entries.iter().for_each(|entry| perfetto.entry(entry).unwrap());
    let file = perfetto.finish().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&file).unwrap();
    let arrows = super::chrome::check(&value);
    // A command without a doorbell and an event, one with both, and three work requests, of which the
    // last is not completed.
    assert_eq!(arrows, [1, 3, 3, 3, 2]);
    let names: Vec<_> = value["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .map(|event| event["args"]["name"].as_str().unwrap())
        .collect();
    for name in ["command slot 3", "QP 0x45", "CQ 0x7", "EQ 0x1", "vector 12", "doorbells"] {
        assert!(names.contains(&name), "{name} of {names:?}");
    }
}

//! Rules as they are read, and what they choose.

use layouts::{CreateMkeyIn, EventType, LayoutInfo, MboxIn, Opcode, command};
use probe::{Action, Defect, Judge as _, Patch, Point, Site, Value};
use proptest::prelude::*;

use super::*;

fn faults(text: &str) -> Faults {
    Faults::new(&parse(text).unwrap()).unwrap()
}

/// A rule with this at its point, what is chosen, and what is done.
fn rule(at: &str, rest: &str) -> String {
    format!("[[fault]]\nname = 'r'\nat = '{at}'\n{rest}\n")
}

fn at(
    point: Point,
    layout: Option<&'static LayoutInfo>,
    bytes: &[u8],
    faults: &Faults,
) -> Option<Action> {
    let site = Site { point, layout, bytes, values: &[] };
    faults.decide(0, &site).and_then(|verdict| verdict.action)
}

/// A CREATE_MKEY, or another command of the same bytes.
fn create_mkey(opcode: Opcode, mode: u8, pd: u32) -> Vec<u8> {
    let mut input = vec![0; CreateMkeyIn::SIZE];
    let mut view = CreateMkeyIn(&mut input[..]);
    view.set_opcode(opcode.0);
    view.memory_key_mkey_entry_mut().set_access_mode_1_0(mode);
    view.memory_key_mkey_entry_mut().set_pd(pd);
    input
}

fn given(opcode: Opcode, input: &[u8], faults: &Faults) -> bool {
    at(Point::Command, Some(command(opcode).0), input, faults).is_some()
}

#[test]
fn the_third_key_fails() {
    let faults = faults(
        "[[fault]]
        name = 'third key fails'
        at = 'command'
        where = { opcode = 'CREATE_MKEY', 'mkc.access_mode' = 'MTT' }
        nth = 3
        do = { status = 'BAD_RES', syndrome = 0x18af6 }",
    );
    let mtt = create_mkey(Opcode::CREATE_MKEY, 1, 7);
    let others = [create_mkey(Opcode::CREATE_MKEY, 2, 7), create_mkey(Opcode::QUERY_MKEY, 1, 7)];
    let mut fired = Vec::new();
    for n in 1..=5 {
        assert!(!given(Opcode::CREATE_MKEY, &others[0], &faults));
        assert!(!given(Opcode::QUERY_MKEY, &others[1], &faults));
        let action = at(Point::Command, Some(&CreateMkeyIn::INFO), &mtt, &faults);
        fired.extend(action.map(|action| (n, action)));
    }
    let status = Action::Status { status: 5, syndrome: 0x18af6, executed: false };
    assert_eq!(fired, [(3, status)]);
    let counts = faults.counts();
    assert_eq!((counts[0].matched, counts[0].fired), (3, 1));
}

#[test]
fn names_are_what_the_layouts_call_them() {
    for (rest, fires) in [
        ("where = { opcode = 'CREATE_MKEY', mkc = { pd = 7 } }", true),
        ("where = { opcode = 'CREATE_MKEY', 'mkc.pd' = '0x7' }", true),
        ("where = { opcode = 'CREATE_MKEY', pd = [5, 6, 7] }", true),
        ("where = { opcode = 'CREATE_MKEY', pd = '5..8' }", true),
        ("where = { opcode = 'CREATE_MKEY', pd = '5..7' }", false),
        ("where = { opcode = 'CREATE_*' }", true),
        ("where = { opcode = ['DESTROY_MKEY', 'CREATE_MKEY'] }", true),
        ("where = { opcode = 'DESTROY_*' }", false),
        ("where = { opcode = 0x200, uid = 0 }", true),
        ("where = { uid = 1 }", false),
        ("", true),
    ] {
        let faults = faults(&rule("command", &format!("{rest}\ndo = 'lose'")));
        let input = create_mkey(Opcode::CREATE_MKEY, 1, 7);
        assert_eq!(given(Opcode::CREATE_MKEY, &input, &faults), fires, "{rest}");
    }
}

/// Segments behind the control segment are where the opcode and the service have them.
#[test]
fn fields_of_a_whole_work_request() {
    let mut wqe = [0; 0x60];
    wqe[3] = 0x08;
    wqe[0x18..0x1c].copy_from_slice(&0x1234_u32.to_be_bytes());
    wqe[0x24..0x28].copy_from_slice(&0x77_u32.to_be_bytes());
    wqe[0x34..0x38].copy_from_slice(&0x99_u32.to_be_bytes());
    for (rest, fires) in [
        ("where = { opcode = 'RDMA_WRITE', 'raddr.rkey' = 0x1234 }", true),
        ("where = { opcode = 'RDMA_WRITE', 'raddr.rkey' = 0x1235 }", false),
        ("where = { opcode = 'RDMA_WRITE', 'data[0].lkey' = 0x77, 'data[1].lkey' = 0x99 }", true),
        ("where = { opcode = 'RDMA_WRITE', 'data[3].lkey' = 0 }", true),
        // There are no data segments behind the end.
        ("where = { opcode = 'RDMA_READ', 'data[0].lkey' = 0x77 }", false),
    ] {
        let faults = faults(&rule("work_request", &format!("{rest}\ndo = 'lose'")));
        let action = at(Point::WorkRequest, Some(&layouts::WqeCtrlSeg::INFO), &wqe, &faults);
        assert_eq!(action.is_some(), fires, "{rest}");
    }
}

#[test]
fn every_verb_becomes_what_it_says() {
    let patches = |patches: &[Patch]| Action::Set(patches.into());
    for (at_point, what, action) in [
        ("command", "'lose'", Action::Lose),
        ("command", "'hold'", Action::Hold(0)),
        ("command", "{ delay_ms = 2 }", Action::Delay(2_000_000)),
        ("command", "{ delay_us = 2 }", Action::Delay(2_000)),
        ("command", "{ delivery = 'TOKEN_ERR' }", Action::Delivery(2)),
        ("command", "{ delivery = 'FW_ERR', held = true }", Action::HoldDelivery(0, 6)),
        (
            "command",
            "{ status = 1, executed = true }",
            Action::Status { status: 1, syndrome: 0, executed: true },
        ),
        ("reply", "'twice'", Action::Twice),
        ("reply", "{ corrupt = 'token' }", Action::Defect(Defect::Token)),
        ("reply", "{ set = { syndrome = 9 } }", patches(&[Patch { bit: 32, width: 32, value: 9 }])),
        ("event", "'twice'", Action::Twice),
        ("interrupt", "{ vector = 5 }", Action::Vector(5)),
        (
            "work_request",
            "{ fail = 'LOCAL_PROT_ERR', vendor = 0x51 }",
            Action::Fail { syndrome: 4, vendor: 0x51, after: 0 },
        ),
        ("dma_read", "'refuse'", Action::Refuse),
        ("dma_read", "{ torn = 3 }", Action::Torn(3)),
        ("dma_copy", "'lose'", Action::Lose),
        ("translation", "'stale'", Action::Stale),
        ("event", "'overwrite'", Action::Overwrite),
        ("event", "{ owner_late_us = 5 }", Action::OwnerLate(5_000)),
        (
            "register_read",
            "{ set = { 'health_buffer.synd' = 7 } }",
            patches(&[Patch { bit: (0x200 + 0x3d) * 8, width: 8, value: 7 }]),
        ),
        ("translation", "'refuse'", Action::Refuse),
        ("packet_sent", "'lose'", Action::Lose),
        ("doorbell", "'lose'", Action::Lose),
    ] {
        let faults = faults(&rule(at_point, &format!("do = {what}")));
        let point = Point::from_name(at_point).unwrap();
        assert_eq!(at(point, None, &[], &faults), Some(action), "{at_point}: {what}");
    }
}

#[test]
fn what_concerns_the_card_waits_for_it() {
    for (what, effect) in [
        ("{ port = 'down' }", Effect::Port { up: false }),
        ("{ speed = 'EDR' }", Effect::Link { speed: 5, width: 4 }),
        ("{ speed = 'SDR', width = 1 }", Effect::Link { speed: 0, width: 1 }),
        ("{ interrupt = 3 }", Effect::Interrupt(3)),
        ("'off_bus'", Effect::OffBus(None)),
        ("{ off_bus_ms = 3 }", Effect::OffBus(Some(3_000_000))),
        ("'unplug'", Effect::Slot { plugged: false }),
        ("'replug'", Effect::Slot { plugged: true }),
        ("'health_stops'", Effect::HealthStops),
        ("{ initializing_ms = 1 }", Effect::Initializing(1_000_000)),
        (
            "{ health = 7, severity = 2, fatal = true }",
            Effect::Health { syndrome: 7, severity: 2, fatal: true },
        ),
        (
            "{ invent = 'PORT_CHANGE', sub_type = 1, set = { 'port.port_num' = 1 } }",
            Effect::Event {
                event: EventType::PORT_CHANGE.0,
                sub_type: 1,
                fields: [Patch { bit: (0x20 + 8) * 8, width: 4, value: 1 }].into(),
            },
        ),
    ] {
        let faults = faults(&rule("time", &format!("after_ms = 5\ndo = {what}")));
        assert_eq!(faults.next(), Some(5_000_000));
        assert!(faults.poll(4_999_999).is_empty() && faults.effect().is_none());
        assert_eq!(faults.poll(5_000_000), ["r".into()]);
        assert_eq!(faults.effect(), Some(effect), "{what}");
        assert_eq!((faults.effect(), faults.next()), (None, None), "once");
    }
}

#[test]
fn the_clock_comes_again() {
    let faults = faults(&rule("time", "after_ms = 5\nevery_ms = 2\ncount = 3\ndo = 'off_bus'"));
    let fired: Vec<u64> = (0..20).filter(|ms| !faults.poll(ms * 1_000_000).is_empty()).collect();
    assert_eq!(fired, [5, 7, 9]);
}

#[test]
fn rules_wait_for_each_other_and_for_their_time() {
    let faults = faults(
        "[[fault]]
        name = 'second'
        at = 'interrupt'
        after = 'first'
        after_ms = 1
        do = 'lose'
        [[fault]]
        name = 'first'
        at = 'event'
        do = 'lose'",
    );
    let decide = |point, now| {
        let site =
            Site { point, layout: None, bytes: &[], values: &[("vector", Value::Number(1))] };
        faults.decide(now, &site).is_some()
    };
    assert!(!decide(Point::Interrupt, 50_000_000));
    assert!(decide(Point::Event, 60_000_000));
    assert!(!decide(Point::Interrupt, 60_999_999));
    assert!(decide(Point::Interrupt, 61_000_000));
    assert_eq!(faults.changed().map(|points| points.is_empty()), Some(true), "all are spent");
    assert_eq!(faults.changed(), None);
    assert_eq!(faults.counts()[0].matched, 1, "what it waited for is not counted");
}

#[test]
fn rules_can_be_added_cleared_and_restarted() {
    let rules = parse(&rule("event", "reset_on = 'flr'\ndo = 'lose'")).unwrap();
    let faults = Faults::new(&rules).unwrap();
    assert!(faults.add(&rules[0], 0).is_err(), "the name is taken");
    let second = Rule { name: "other".into(), ..rules[0].clone() };
    faults.add(&second, 0).unwrap();
    assert!(at(Point::Event, None, &[], &faults).is_some());
    assert!(at(Point::Event, None, &[], &faults).is_some(), "the second, as the first is spent");
    assert!(at(Point::Event, None, &[], &faults).is_none());
    faults.restart(ResetOn::Flr, 0);
    assert!(at(Point::Event, None, &[], &faults).is_some());
    assert_eq!((faults.number("other"), faults.number("none")), (Some(1), None));
    assert_eq!(faults.clear(Some("r")), [0]);
    assert_eq!(faults.clear(None), [1]);
    assert!(faults.is_empty());
}

#[test]
fn a_rule_is_the_same_in_json() {
    let text = include_str!("../../../docs/faults.example.toml");
    for rule in parse(text).unwrap() {
        let json = serde_json::to_string(&rule).unwrap();
        assert_eq!(serde_json::from_str::<Rule>(&json).unwrap(), rule, "{json}");
    }
}

#[test]
fn every_mistake_has_its_line() {
    for (text, error) in [
        ("[[fault]]\nat = 'command'\ndo = 'lose'", "1: missing field `name`"),
        ("[[fault]]\nname = 'x'\ndo = 'lose'", "1: missing field `at`"),
        ("[[fault]]\nname = 'x'\nat = 'event'", "1: missing field `do`"),
        ("[[faults]]\nname = 'x'", "1: unknown field `faults`"),
        ("[[fault]]\nname = 'x'\nwhen = 3", "3: unknown field `when`"),
        ("[[fault]]\nname = 'x'\nat = 'event'\nnth = -1\ndo = 'lose'", "4: invalid value"),
        ("[[fault]]\nname = ''\nat = 'event'\ndo = 'lose'", "2: name: expected 1 to 200"),
        (
            "[[fault]]\nname = 'x'\nat = 'comand'\ndo = 'lose'",
            "3: there is no point \"comand\"; there are time, register_read",
        ),
        ("[[fault]]\nname = 'x'\nat = 'fault'\ndo = 'lose'", "3: there is no point"),
        (
            "[[fault]]\nname = 'x'\nat = 'event'\ndo = 'loose'",
            "4: \"loose\" can't be done at event; there are set, lose",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'event'\ndo = { status = 1 }",
            "4: \"status\" can't be done at event",
        ),
        ("[[fault]]\nname = 'x'\nat = 'event'\ndo = 'delay_ms'", "4: \"delay_ms\" needs a value"),
        ("[[fault]]\nname = 'x'\nat = 'event'\ndo = { lose = true }", "4: \"lose\" stands alone"),
        (
            "[[fault]]\nname = 'x'\nat = 'command'\ndo = { status = 1, vendor = 3 }",
            "4: \"vendor\" can't stand beside \"status\"; syndrome, executed can",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'command'\ndo = { status = 'BAD_REZ' }",
            "4: status: no value is called \"BAD_REZ\"; did you mean BAD_RES",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'command'\ndo = { status = 256 }",
            "4: status: 0x100 does not fit into 8 bits",
        ),
        ("[[fault]]\nname = 'x'\nat = 'command'\ndo = {}", "4: nothing can't be done"),
        (
            "[[fault]]\nname = 'x'\nat = 'reply'\ndo = { corrupt = 'tokn' }",
            "4: corrupt: expected \"signature\" or \"token\"",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'reply'\ndo = { set = { nothing = 1 } }",
            "4: nothing: no such field in mbox_out",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'command'\ndo = 'lose'\n[fault.where]\nopcode = 'CREATE_MKEZ'",
            "6: opcode: no value is called \"CREATE_MKEZ\"; did you mean CREATE_MKEY",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'command'\ndo = 'lose'\nwhere = { opcode = 'CREATE_MKEY', 'mkc.pdd' = 3 }",
            "5: mkc.pdd: no such field in create_mkey_in; beside it: slot",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'command'\ndo = 'lose'\nwhere = { 'mkc.pd' = 3 }",
            "5: mkc.pd: no such field in mbox_in (fields of one command need its opcode)",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'event'\ndo = 'lose'\nwhere = { cqn = 3 }",
            "5: cqn could be any of",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'event'\ndo = 'lose'\nwhere = { type = '5..5' }",
            "5: type: \"5..5\" holds no value",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'interrupt'\ndo = 'lose'\nwhere = { vec = 3 }",
            "5: vec: interrupt has no such value; beside it: vector",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'packet_sent'\ndo = 'lose'\nwhere = { kind = 'WRITE' }",
            "5: kind: expected one of SEND, RDMA WRITE",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'work_request'\ndo = 'lose'\nwhere = { 'raddr.rkey' = 3 }",
            "5: raddr.rkey: no such field (those behind the control segment need one opcode",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'work_request'\ndo = 'lose'\nwhere = { opcode = 'SEND', 'data.lkey' = 3 }",
            "5: data.lkey could be any of data[0].lkey, data[1].lkey",
        ),
        ("[[fault]]\nname = 'x'\nat = 'event'\nnth = 0\ndo = 'lose'", "4: nth: expected 1 or more"),
        (
            "[[fault]]\nname = 'x'\nat = 'event'\nprobability = 1.5\ndo = 'lose'",
            "4: probability: expected more than 0",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'event'\nseed = 1\ndo = 'lose'",
            "4: seed: without a probability",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'event'\nafter = 'y'\ndo = 'lose'",
            "4: there is no other rule \"y\"",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'event'\nevery_ms = 3\ndo = 'lose'",
            "4: every_ms: only at = \"time\"",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'event'\ndo = { speed = 'EDR', width = 3 }",
            "4: width: expected 1, 2, 4 or 8",
        ),
        ("[[fault]]\nname = 'x'\nat = 'time'\ndo = 'off_bus'", "3: at = \"time\" needs after_ms"),
        (
            "[[fault]]\nname = 'x'\nat = 'time'\nnth = 2\nafter_ms = 1\ndo = 'off_bus'",
            "4: nth: nothing is chosen",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'time'\nafter_ms = 1\ndo = 'lose'",
            "5: \"lose\" can't be done at time",
        ),
        (
            "[[fault]]\nname = 'x'\nat = 'event'\ndo = 'lose'\n[[fault]]\nname = 'x'\nat = 'event'\ndo = 'lose'",
            "6: there is another rule \"x\"",
        ),
        ("[[fault]]\nname = 'x'\nat = 'event'\ndo = 5", "4: "),
        ("[[fault]", "1: "),
    ] {
        let (line, message) = parse(text).unwrap_err();
        let got = format!("{line}: {message}");
        assert!(!got.contains('\n') && got.starts_with(error), "{text}\n gives {got}");
    }
}

proptest! {
    /// What is compiled chooses the same as what is written does.
    #[test]
    fn fields_are_compared_as_written(
        opcode in prop_oneof![Just(0x200_u16), any::<u16>()],
        mode in 0..4_u8, pd in 0..0xff_ffff_u32, low in 0..0xff_ffff_u64, len in 1..0xffff_u64,
    ) {
        let text = format!("where = {{ opcode = 'CREATE_MKEY', 'mkc.pd' = '{low}..{}', \
                            'mkc.access_mode' = ['MTT', 3] }}\ndo = 'lose'", low + len);
        let faults = faults(&rule("command", &text));
        let wanted = opcode == 0x200 && (low..low + len).contains(&pd.into()) && [1, 3].contains(&mode);
        let input = create_mkey(Opcode(opcode), mode, pd);
        prop_assert_eq!(given(Opcode(opcode), &input, &faults), wanted);
    }

    /// Which matches fire follows from the numbers alone.
    #[test]
    fn counted_as_written(nth in 1..20_u64, every in 1..6_u64, count in 0..4_u64) {
        let text = format!("nth = {nth}\nevery = {every}\ncount = {count}\ndo = 'lose'");
        let faults = faults(&rule("event", &text));
        let fired: Vec<u64> =
            (1..=50).filter(|_| at(Point::Event, None, &[], &faults).is_some()).collect();
        let all = (1..=50).filter(|n| *n >= nth && n % every == 0);
        let most = if count == 0 { 50 } else { count as usize };
        prop_assert_eq!(fired, all.take(most).collect::<Vec<u64>>());
    }

    /// Chance is the same every time, and about as likely as it says.
    #[test]
    fn chance_is_fair_and_the_same_again(seed in any::<u32>()) {
        let text = format!("probability = 0.25\nseed = {seed}\ncount = 0\ndo = 'lose'");
        let run = || {
            let faults = faults(&rule("event", &text));
            (0..2000).filter(|_| at(Point::Event, None, &[], &faults).is_some()).collect::<Vec<_>>()
        };
        let fired = run();
        prop_assert_eq!(&fired, &run());
        prop_assert!((350..650).contains(&fired.len()), "{} of 2000", fired.len());
    }

    /// Whatever is written, reading it ends with rules or with one line.
    #[test]
    fn nonsense_is_a_line(text in "(\\[\\[fault\\]\\]\n)?([a-z]{1,6} = ('[a-z.*]{0,8}'|[0-9]{1,4}|\\{ [a-z]{1,6} = [0-9] \\})\n){0,6}") {
        if let Err((line, message)) = parse(&text) {
            prop_assert!(line >= 1 && !message.contains('\n'), "{}", message);
        }
    }
}

#[test]
fn a_field_behind_the_end_is_not_there() {
    let faults =
        faults(&rule("command", "where = { opcode = 'CREATE_MKEY', 'mkc.pd' = 0 }\ndo = 'lose'"));
    let input = &create_mkey(Opcode::CREATE_MKEY, 1, 0)[..0x18];
    assert!(!given(Opcode::CREATE_MKEY, input, &faults));
    assert_eq!(MboxIn(input).opcode(), 0x200);
}

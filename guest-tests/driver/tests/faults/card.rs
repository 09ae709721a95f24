//! What happens to the card as a whole.

use super::*;

#[test]
fn the_port_goes_down_and_up() {
    let (mut driver, _) = up();
    for (what, state, change) in [("down", 1, PortChange::DOWN), ("up", 4, PortChange::ACTIVE)] {
        ask(&mut driver, Request::FaultClear { name: None });
        fault(&mut driver, "time", &format!("after_ms = 5\ndo = {{ port = '{what}' }}"));
        let event = driver
            .wait("an event", |driver| {
                driver.service()?;
                Ok(driver.events.pop())
            })
            .unwrap();
        assert_eq!((event.event, event.sub_type), (EventType::PORT_CHANGE, change.0));
        let context = driver.query_vport_context().unwrap();
        assert_eq!(HcaVportContext(&context).port_state(), state);
    }
}

#[test]
fn the_card_is_not_well() {
    let (mut driver, _) = up();
    assert!(driver.health().unwrap().0);
    fault(&mut driver, "command", &format!("{ALLOC_PD}\ndo = {{ health = 7, fatal = true }}"));
    driver.alloc_pd().unwrap();
    assert!(!driver.health().unwrap().0);
    ask(&mut driver, Request::FaultClear { name: None });
    fault(&mut driver, "command", &format!("{ALLOC_PD}\ndo = 'health_stops'"));
    driver.alloc_pd().unwrap();
    let counter = driver.health().unwrap().1;
    driver.port.now += 1_000_000_000;
    assert_eq!(driver.health().unwrap().1, counter);
    driver.port.card.0.reset();
    let (well, beats) = driver.health().unwrap();
    assert!(well && beats != counter, "a reset heals");
}

#[test]
fn the_card_falls_off_the_bus() {
    let (mut driver, _) = up();
    fault(&mut driver, "command", &format!("{ALLOC_PD}\ndo = 'off_bus'"));
    driver.alloc_pd().unwrap();
    assert_eq!(driver.port.read32(0).unwrap(), u32::MAX);
    let slot = submit_alloc_pd(&mut driver);
    not_done(&mut driver, slot);
    driver.port.card.0.reset();
    assert_ne!(driver.port.read32(0).unwrap(), u32::MAX);
}

#[test]
fn the_firmware_takes_its_time_to_start() {
    let mut config = Config::default();
    let text =
        "[[fault]]\nname = 'slow'\nat = 'time'\nafter_ms = 0\ndo = { initializing_ms = 700 }";
    config.faults = faults::parse(text).unwrap();
    let mut driver = driver(&config);
    driver.port.relax().unwrap();
    driver.wait_fw_init().unwrap();
    assert!(driver.port.now >= 700_000_000, "{}", driver.port.now);
    driver.power_on().unwrap();
}

/// Drivers look at the other timeouts only if the initialization segment has these.
#[test]
fn timeouts_are_short_if_asked() {
    let (mut driver, _) = up();
    assert_eq!((driver.port.read32(0xff8).unwrap(), driver.port.read32(0xffc).unwrap()), (0, 0));
    let mut driver = common::driver(&Config { fast_timeouts: true, ..Config::default() });
    driver.power_on().unwrap();
    assert_eq!(
        (driver.port.read32(0xff8).unwrap(), driver.port.read32(0xffc).unwrap()),
        (3000, 2000)
    );
    let dtor =
        driver.read_register(layouts::RegisterId::DTOR, &[0; layouts::DtorReg::SIZE]).unwrap();
    assert_eq!(layouts::DtorReg(&dtor[..]).reclaim_pages_to().to_value(), 2000);
}

/// A card that stays ill over two resets, and is well after the third.
#[test]
fn a_reset_does_not_help_at_first() {
    let (mut driver, _) = up();
    fault(&mut driver, "reset", "count = 2\ndo = { health = 7, fatal = true }");
    for well in [false, false, true] {
        driver.port.card.0.reset();
        driver.port.relax().unwrap();
        assert_eq!(driver.health().unwrap().0, well);
    }
}

/// A driver that recovers from a fatal error resets the card itself, and starts it again.
#[test]
fn a_driver_resets_an_ill_card() {
    let (mut driver, _) = up();
    fault(&mut driver, "command", &format!("{ALLOC_PD}\ndo = {{ health = 7, fatal = true }}"));
    driver.alloc_pd().unwrap();
    // MLX5_FW_RESET_SUPPORTED_OFFSET.
    assert_ne!(driver.port.read32(0x1fc).unwrap() & 1 << 30, 0);
    let register = driver.port.read32(0x14).unwrap();
    // MLX5_INITIAL_SEG_NIC_INTERFACE_SW_RESET, then MLX5_INITIAL_SEG_NIC_INTERFACE_DISABLED.
    driver.port.write32(0x14, register & !0xfff | 7 << 8).unwrap();
    assert_eq!(driver.port.read32(0x14).unwrap() >> 8 & 7, 1);
    assert!(driver.health().unwrap().0);
    assert_eq!(objects(&mut driver)["pd"], 0);
    driver.use_polling();
    driver.set_up_queue().unwrap();
    driver.enable_hca().unwrap();
    assert_eq!(driver.port.read32(0x14).unwrap() >> 8 & 7, 0);
}

/// What a register says, whatever is behind it: sensors that drivers look at.
#[test]
fn a_register_lies() {
    let (mut driver, _) = up();
    for (set, offset, mask, value) in [
        // MLX5_NIC_IFC_DISABLED.
        ("nic_interface = 1", 0x14, 0x300, 0x100),
        ("fw_rev_major = 0xabcd", 0x0, 0xffff, 0xabcd),
        ("'health_buffer.synd' = 0x10", 0x23c, 0xff_0000, 0x10_0000),
        ("initializing = 1", 0x1fc, 1 << 31, 1 << 31),
    ] {
        ask(&mut driver, Request::FaultClear { name: None });
        let before = driver.port.read32(offset).unwrap();
        fault(
            &mut driver,
            "register_read",
            &format!("where = {{ offset = {offset} }}\ncount = 0\ndo = {{ set = {{ {set} }} }}"),
        );
        let said = driver.port.read32(offset).unwrap();
        assert_eq!((said & mask, said & !mask), (value, before & !mask), "{set}");
        assert_eq!(counts(&mut driver), (1, 1), "{set}");
    }
}

#[test]
fn the_link_gets_slower() {
    let (mut driver, _) = up();
    let rate = |driver: &mut TestDriver| driver.query_port().unwrap().rate;
    let best = rate(&mut driver);
    fault(&mut driver, "time", "after_ms = 5\ndo = { speed = 'EDR', width = 1 }");
    driver
        .wait("both events", |driver| {
            driver.service()?;
            Ok((driver.events.len() == 2).then_some(()))
        })
        .unwrap();
    let changes: Vec<u8> = driver.events.iter().map(|event| event.sub_type).collect();
    assert_eq!(changes, [PortChange::DOWN.0, PortChange::ACTIVE.0]);
    // As PTYS has them: 1x, EDR.
    assert_eq!((best, rate(&mut driver)), ((4, 64), (1, 32)));
}

/// Down every 20 ms from the 10th on, up again 5 ms later.
#[test]
fn the_link_flaps() {
    let (mut driver, _) = up();
    faults_added(
        &mut driver,
        "[[fault]]\nname = 'down'\nat = 'time'\nafter_ms = 10\nevery_ms = 20\ncount = 3\ndo = { port = 'down' }\n\
         [[fault]]\nname = 'up'\nat = 'time'\nafter = 'down'\nafter_ms = 5\nevery_ms = 20\ncount = 3\ndo = { port = 'up' }\n",
    );
    let begun = driver.port.now;
    while driver.port.now - begun < 80_000_000 {
        driver.port.relax().unwrap();
        driver.service().unwrap();
    }
    let changes: Vec<u8> = driver.events.iter().map(|event| event.sub_type).collect();
    let once = [PortChange::DOWN.0, PortChange::ACTIVE.0];
    assert_eq!(changes, [once, once, once].concat());
}

/// The card wants another number of pages than it needs, wants more by event, and gives none back.
#[test]
fn pages_are_wanted_and_kept() {
    let mut config = Config::default();
    let plan = "[[fault]]\nname = 'many'\nat = 'reply'\nwhere = { opcode = 'QUERY_PAGES', op_mod = 1 }\n\
                do = { set = { num_pages = 3000 } }\n\
                [[fault]]\nname = 'none'\nat = 'reply'\nwhere = { opcode = 'QUERY_PAGES', op_mod = 2 }\n\
                do = { set = { num_pages = 0 } }\n";
    config.faults = faults::parse(plan).unwrap();
    let mut driver = driver(&config);
    driver.power_on().unwrap();
    assert_eq!(driver.pages.given.len(), 3000);
    ask(&mut driver, Request::FaultClear { name: None });
    // Asks for more; then, with a negative number, offers some back.
    for (set, left) in [("1000", 4000), ("0xffffff9c", 3900)] {
        ask(&mut driver, Request::FaultClear { name: None });
        fault(
            &mut driver,
            "time",
            &format!(
                "after_ms = 1\ndo = {{ invent = 'PAGE_REQUEST', set = {{ 'req_pages.num_pages' = {set} }} }}"
            ),
        );
        driver
            .wait("pages to change hands", |driver| {
                driver.service()?;
                driver.serve_page_requests()?;
                Ok((driver.pages.given.len() == left).then_some(()))
            })
            .unwrap();
    }
    ask(&mut driver, Request::FaultClear { name: None });
    fault(
        &mut driver,
        "reply",
        "where = { opcode = 'MANAGE_PAGES', op_mod = 2 }\ncount = 0\ndo = { set = { output_num_entries = 0 } }",
    );
    assert_eq!(driver.take_pages(100).unwrap(), 0);
    assert_eq!(driver.take_pages(100).unwrap(), 0);
    assert_eq!(driver.pages.given.len(), 3900);
}

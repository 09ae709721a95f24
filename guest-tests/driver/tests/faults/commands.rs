//! Commands and their replies.

use super::*;

#[test]
fn a_command_is_answered_with_a_status() {
    let (mut driver, _) = up();
    fault(
        &mut driver,
        "command",
        &format!("{ALLOC_PD}\nnth = 2\ndo = {{ status = 'BAD_RES', syndrome = 0x18af6 }}"),
    );
    let before = objects(&mut driver)["pd"];
    driver.alloc_pd().unwrap();
    let answer = driver.alloc_pd();
    let Err(Error::Command { opcode, status, syndrome }) = answer else { panic!("{answer:?}") };
    assert_eq!((opcode, status, syndrome), (Opcode::ALLOC_PD.0, Status::BAD_RES, 0x18af6));
    driver.alloc_pd().unwrap();
    assert_eq!(objects(&mut driver)["pd"], before + 2, "it was not carried out");
    assert_eq!(counts(&mut driver), (2, 1));
}

#[test]
fn a_command_is_carried_out_and_answered_with_a_status_all_the_same() {
    let (mut driver, _) = up();
    fault(
        &mut driver,
        "command",
        &format!("{ALLOC_PD}\ndo = {{ status = 'INT_ERR', executed = true }}"),
    );
    let before = objects(&mut driver)["pd"];
    assert!(matches!(driver.alloc_pd(), Err(Error::Command { status: Status::INT_ERR, .. })));
    assert_eq!(objects(&mut driver)["pd"], before + 1);
}

#[test]
fn a_reply_says_something_else() {
    let (mut driver, _) = up();
    fault(&mut driver, "reply", &format!("{ALLOC_PD}\ndo = {{ set = {{ pd = 0xabcdef }} }}"));
    assert_eq!(driver.alloc_pd().unwrap(), 0xab_cdef);
    assert_ne!(driver.alloc_pd().unwrap(), 0xab_cdef);
}

#[test]
fn a_command_is_not_delivered() {
    let (mut driver, _) = up();
    fault(&mut driver, "command", &format!("{ALLOC_PD}\ndo = {{ delivery = 'FW_ERR' }}"));
    let answer = driver.alloc_pd();
    assert!(
        matches!(answer, Err(Error::Delivery { status: DeliveryStatus::FW_ERR, .. })),
        "{answer:?}"
    );
}

#[test]
fn a_token_is_wrong() {
    let (mut driver, _) = up();
    fault(&mut driver, "reply", &format!("{ALLOC_PD}\ndo = {{ corrupt = 'token' }}"));
    let answer = driver.alloc_pd();
    assert!(matches!(answer, Err(Error::Protocol(_))), "{answer:?}");
}

/// Kept back before and after it is carried out, until it is released.
#[test]
fn a_command_is_held_and_released() {
    for (point, carried_out) in [("command", 0), ("reply", 1)] {
        let (mut driver, _) = up();
        let before = objects(&mut driver)["pd"];
        fault(&mut driver, point, &format!("{ALLOC_PD}\ndo = 'hold'"));
        let slot = submit_alloc_pd(&mut driver);
        not_done(&mut driver, slot);
        assert_eq!(objects(&mut driver)["pd"], before + carried_out, "{point}");
        // Ringing for it once more changes nothing, and others overtake it.
        driver.ring(1 << slot).unwrap();
        driver.alloc_pd().unwrap();
        assert_eq!(release(&mut driver), 1);
        driver.complete(slot).unwrap();
        assert_eq!(objects(&mut driver)["pd"], before + 2, "{point}");
        assert_eq!(release(&mut driver), 0);
    }
}

#[test]
fn what_a_rule_holds_goes_on_when_it_is_cleared() {
    let (mut driver, _) = up();
    fault(&mut driver, "command", &format!("{ALLOC_PD}\ndo = 'hold'"));
    let slot = submit_alloc_pd(&mut driver);
    ask(&mut driver, Request::FaultClear { name: Some("r".into()) });
    driver.complete(slot).unwrap();
}

/// Never carried out; the slot comes back in the end, and no reply with it.
#[test]
fn a_slot_is_handed_back_without_a_reply_when_it_is_released() {
    let (mut driver, _) = up();
    let before = objects(&mut driver)["pd"];
    let held = format!("{ALLOC_PD}\ndo = {{ delivery = 'FW_ERR', held = true }}");
    fault(&mut driver, "command", &held);
    let slot = submit_alloc_pd(&mut driver);
    not_done(&mut driver, slot);
    assert_eq!(release(&mut driver), 1);
    let answer = driver.complete(slot);
    assert!(
        matches!(answer, Err(Error::Delivery { status: DeliveryStatus::FW_ERR, .. })),
        "{answer:?}"
    );
    assert_eq!(objects(&mut driver)["pd"], before);
    // The slot can be used again.
    driver.alloc_pd().unwrap();
}

#[test]
fn a_command_is_delayed() {
    for point in ["command", "reply"] {
        let (mut driver, _) = up();
        fault(&mut driver, point, &format!("{ALLOC_PD}\ndo = {{ delay_ms = 50 }}"));
        let before = driver.port.now;
        driver.alloc_pd().unwrap();
        assert!(driver.port.now - before >= 50_000_000, "{point}");
        let before = driver.port.now;
        driver.alloc_pd().unwrap();
        assert!(driver.port.now - before < 50_000_000, "{point}");
    }
}

#[test]
fn a_command_is_never_completed() {
    let (mut driver, _) = up();
    fault(&mut driver, "command", &format!("{ALLOC_PD}\ndo = 'lose'"));
    let slot = submit_alloc_pd(&mut driver);
    not_done(&mut driver, slot);
    driver.alloc_pd().unwrap();
    assert_eq!(release(&mut driver), 0, "it is gone");
}

#[test]
fn a_command_is_completed_twice() {
    let (mut driver, _) = up();
    fault(&mut driver, "reply", &format!("{ALLOC_PD}\ndo = 'twice'"));
    let answer = driver.alloc_pd();
    assert!(matches!(answer, Err(Error::Protocol(_))), "the driver minds: {answer:?}");
}

#[test]
fn an_unknown_rule_is_refused() {
    let (mut driver, _) = up();
    let common::FunctionCard(function) = &mut driver.port.card;
    let memory = &driver.port.memory;
    for (request, message) in [
        (Request::FaultRelease { name: "x".into() }, "there is no fault rule \"x\""),
        (Request::FaultAdd { rule: serde_json::json!({"name": 1}) }, "not a fault rule"),
        (
            Request::FaultAdd { rule: serde_json::json!({"name": "r", "at": "event", "do": "no"}) },
            "\"no\" can't be done at event",
        ),
    ] {
        let refused = function.control(memory, &request).unwrap_err();
        assert!(refused.message.starts_with(message), "{refused:?}");
    }
}

/// What `[limits]` says there is room for, there is, and no more.
#[test]
fn limits_are_kept() {
    let (mut driver, _) = up();
    let keys = objects(&mut driver)["mkey"] as u32;
    let mut config = Config::default();
    config.limits.mkeys = keys + 3;
    let mut driver = common::driver(&config);
    driver.power_on().unwrap();
    let pd = driver.alloc_pd().unwrap();
    let made: Vec<u32> = (0..3).map(|_| driver.create_dma_key(pd).unwrap()).collect();
    let refused = driver.create_dma_key(pd);
    assert!(matches!(refused, Err(Error::Command { status: Status::LIM_ERR, .. })), "{refused:?}");
    driver.destroy_mkey(made[0]).unwrap();
    driver.create_dma_key(pd).unwrap();

    let mut config = Config::default();
    config.limits.translation_entries = 10;
    let mut driver = common::driver(&config);
    driver.power_on().unwrap();
    let pd = driver.alloc_pd().unwrap();
    let region = common::region(&mut driver, pd, 0x1000_0000, 8);
    let key = driver.create_mtt_key(&region).unwrap();
    let refused = driver.create_mtt_key(&region);
    assert!(matches!(refused, Err(Error::Command { status: Status::NO_RES, .. })), "{refused:?}");
    driver.destroy_mkey(key).unwrap();
    driver.create_mtt_key(&region).unwrap();
}

//! Events and interrupts.

use super::*;

#[test]
fn an_event_is_lost_and_the_next_is_not() {
    let (mut driver, _) = up();
    fault(&mut driver, "event", "where = { type = 'CMD' }\ndo = 'lose'");
    let slot = submit_alloc_pd(&mut driver);
    not_done(&mut driver, slot);
    driver.alloc_pd().unwrap();
}

#[test]
fn an_event_and_an_interrupt_come_later() {
    for point in ["event", "interrupt", "doorbell"] {
        let (mut driver, _) = up();
        fault(&mut driver, point, "do = { delay_ms = 30 }");
        let before = driver.port.now;
        driver.alloc_pd().unwrap();
        assert!(driver.port.now - before >= 30_000_000, "{point}");
    }
}

#[test]
fn an_interrupt_is_lost() {
    let (mut driver, _) = up();
    fault(&mut driver, "interrupt", "do = 'lose'");
    let slot = submit_alloc_pd(&mut driver);
    not_done(&mut driver, slot);
    assert_eq!(counts(&mut driver), (1, 1));
    // An interrupt that nothing caused lets the driver find the event.
    ask(&mut driver, Request::FaultClear { name: None });
    fault(&mut driver, "time", "after_ms = 1\ndo = { interrupt = 0 }");
    driver.complete(slot).unwrap();
}

#[test]
fn an_event_is_invented() {
    let (mut driver, _) = up();
    let what =
        "{ invent = 'SRQ_CATAS_ERROR', sub_type = 3, set = { 'qp_srq.qp_srq_n' = 0x123456 } }";
    fault(&mut driver, "command", &format!("{ALLOC_PD}\ndo = {what}"));
    driver.alloc_pd().unwrap();
    driver
        .wait("the event", |driver| {
            driver.service()?;
            Ok((!driver.events.is_empty()).then_some(()))
        })
        .unwrap();
    let event = driver.events[0];
    assert_eq!((event.event, event.sub_type), (EventType::SRQ_CATAS_ERROR, 3));
    assert_eq!(layouts::Eqe(&event.entry).qp_srq().qp_srq_n(), 0x12_3456);
}

/// Waits for events that the driver does not act on itself.
fn some_events(driver: &mut TestDriver, count: usize) {
    driver
        .wait("events", |driver| {
            driver.service()?;
            Ok((driver.events.len() >= count).then_some(()))
        })
        .unwrap();
}

type Told<'a> = layouts::Eqe<&'a [u8; layouts::Eqe::SIZE]>;

/// Every kind of event that the driver's queues are made for can be invented, with what it says.
#[test]
fn any_event_can_be_invented() {
    fn queue(event: EventType) -> (EventType, &'static str, fn(&Told) -> u64) {
        (event, "'qp_srq.qp_srq_n' = 0x70007", |eqe| eqe.qp_srq().qp_srq_n().into())
    }
    let table = vec![
        queue(EventType::PATH_MIG),
        queue(EventType::COMM_EST),
        queue(EventType::SQ_DRAINED),
        queue(EventType::PATH_MIG_FAILED),
        queue(EventType::WQ_CATAS_ERROR),
        queue(EventType::WQ_INVAL_REQ_ERROR),
        queue(EventType::WQ_ACCESS_ERROR),
        queue(EventType::SRQ_CATAS_ERROR),
        queue(EventType::SRQ_LAST_WQE),
        queue(EventType::SRQ_RQ_LIMIT),
        (EventType::CQ_ERROR, "'cq_err.cqn' = 0x70007, 'cq_err.syndrome' = 2", |eqe| {
            eqe.cq_err().cqn().into()
        }),
        // Its sub-type says what has changed: here the table of GUIDs (GIDs).
        (EventType::PORT_CHANGE, "'port.port_num' = 1", |eqe| {
            u64::from(eqe.port().port_num()) * 0x70007
        }),
    ];
    for (event, set, says) in table {
        let name = event.name().unwrap();
        let (mut driver, _) = up();
        fault(
            &mut driver,
            "time",
            &format!("after_ms = 1\ndo = {{ invent = '{name}', sub_type = 8, set = {{ {set} }} }}"),
        );
        some_events(&mut driver, 1);
        let told = driver.events[0];
        assert_eq!((told.event, told.sub_type), (event, 8), "{name}");
        assert_eq!(says(&layouts::Eqe(&told.entry)), 0x70007, "{name}");
    }
}

#[test]
fn an_event_overtakes_another() {
    let (mut driver, _) = up();
    let invent = |name: &str, ms: u32, number: u32| {
        format!(
            "[[fault]]\nname = '{name}'\nat = 'time'\nafter_ms = {ms}\n\
             do = {{ invent = 'SRQ_CATAS_ERROR', set = {{ 'qp_srq.qp_srq_n' = {number} }} }}\n"
        )
    };
    let late = "[[fault]]\nname = 'late'\nat = 'event'\nwhere = { 'qp_srq.qp_srq_n' = 1 }\ndo = { delay_ms = 30 }\n";
    faults_added(&mut driver, &format!("{late}{}{}", invent("a", 1, 1), invent("b", 5, 2)));
    some_events(&mut driver, 2);
    let numbers: Vec<u32> =
        driver.events.iter().map(|event| layouts::Eqe(&event.entry).qp_srq().qp_srq_n()).collect();
    assert_eq!(numbers, [2, 1]);
}

/// The driver takes no event, because it gets no interrupt, until its queue is full: a good card
/// loses what comes then, and one that does not look writes over what was not read.
#[test]
fn a_full_event_queue_loses_events_or_is_written_over() {
    for (over, first) in [(false, 0), (true, 20)] {
        let (mut driver, _) = up();
        let size = 1u32 << driver::eq::log_size::ASYNC;
        let more = if over {
            "[[fault]]\nname = 'over'\nat = 'event'\nwhere = { type = 'SRQ_CATAS_ERROR' }\ncount = 0\ndo = 'overwrite'\n"
        } else {
            ""
        };
        faults_added(
            &mut driver,
            &format!(
                "[[fault]]\nname = 'deaf'\nat = 'interrupt'\ncount = 0\ndo = 'lose'\n{more}\
                 [[fault]]\nname = 'flood'\nat = 'time'\nafter_ms = 1\ncount = {}\n\
                 do = {{ invent = 'SRQ_CATAS_ERROR' }}\n",
                size + 20
            ),
        );
        for _ in 0..size + 100 {
            driver.port.relax().unwrap();
        }
        ask(&mut driver, Request::FaultClear { name: Some("deaf".into()) });
        // The driver hears of the queue at last; entries of the first lap are there, or of the second.
        fault(&mut driver, "time", "after_ms = 1\ndo = { interrupt = 0 }");
        let read = driver.wait("events", |driver| {
            driver.service()?;
            Ok((!driver.events.is_empty()).then_some(driver.events.len()))
        });
        match read {
            Ok(count) => assert_eq!((count as u32, first), (size, 0)),
            // The owner bit of the entry that is next is that of another lap: the driver sees nothing.
            Err(_) => assert_eq!(first, 20, "a good card's events can be read"),
        }
    }
}

/// The interrupt comes before the entry can be read.
#[test]
fn an_owner_bit_comes_late() {
    let (mut driver, _) = up();
    fault(&mut driver, "event", "where = { type = 'CMD' }\ndo = { owner_late_ms = 30 }");
    let before = driver.port.now;
    driver.alloc_pd().unwrap();
    assert!(driver.port.now - before >= 30_000_000);
    assert_eq!(counts(&mut driver), (1, 1));
}

/// Who is asked once is not asked again when the time has come.
#[test]
fn every_interrupt_comes_later() {
    let (mut driver, _) = up();
    fault(&mut driver, "interrupt", "count = 0\ndo = { delay_ms = 5 }");
    for n in 1..4 {
        let before = driver.port.now;
        driver.alloc_pd().unwrap();
        let took = driver.port.now - before;
        assert!((5_000_000..20_000_000).contains(&took), "{took}");
        assert_eq!(counts(&mut driver), (n, n));
    }
}

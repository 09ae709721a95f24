//! Power-on to INIT_HCA and back: order, pages, capabilities.

mod common;

use common::Fixture;
use layouts::*;
use proptest::prelude::*;

#[test]
fn commands_wait_for_their_state() {
    let mut f = Fixture::off();
    for opcode in [Opcode::QUERY_HCA_CAP, Opcode::ALLOC_PD, Opcode::INIT_HCA, Opcode::NOP] {
        assert_eq!(f.run(opcode, 0, 0x20, 0x1010, |_| {}).0, Status::BAD_SYS_STATE, "{opcode}");
    }
    f.ok(Opcode::ENABLE_HCA, 0, 0x10, 0xc, |_| {});
    assert_eq!(f.run(Opcode::ENABLE_HCA, 0, 0x10, 0xc, |_| {}).0, Status::BAD_SYS_STATE);
    assert_eq!(f.run(Opcode::ALLOC_PD, 0, 0x10, 0x10, |_| {}).0, Status::BAD_SYS_STATE);
    f.ok(Opcode::INIT_HCA, 0, 0x20, 0x10, |_| {});
    f.ok(Opcode::ALLOC_PD, 0, 0x10, 0x10, |_| {});
    f.ok(Opcode::TEARDOWN_HCA, 0, 0x10, 0x10, |_| {});
    assert!(f.fw.object_counts().iter().all(|(_, n)| *n == 0));
    assert_eq!(f.run(Opcode::ALLOC_PD, 0, 0x10, 0x10, |_| {}).0, Status::BAD_SYS_STATE);
    f.ok(Opcode::DISABLE_HCA, 0, 0x10, 0xc, |_| {});
    f.ok(Opcode::ENABLE_HCA, 0, 0x10, 0xc, |_| {});
}

#[test]
fn what_is_unknown_is_named() {
    let mut f = Fixture::ready();
    assert_eq!(f.run(Opcode::CREATE_TIS, 0, 0x40, 0x10, |_| {}).0, Status::BAD_OP);
    assert_eq!(f.run(Opcode(0xfff), 0, 0x40, 0x10, |_| {}).0, Status::BAD_OP);
    let unknown = f.run(Opcode::ACCESS_REG, 1, 0x50, 0x50, |input| {
        AccessRegisterIn(input).set_register_id(RegisterId::MCIA.0);
    });
    assert_eq!(unknown.0, Status::BAD_PARAM);
    let touched = f.probe.touched();
    assert_eq!(touched.len(), 3, "{touched:?}");
    assert!(touched.keys().any(|what| what.contains("CREATE_TIS")), "{touched:?}");
    assert!(touched.keys().any(|what| what.contains("MCIA")), "{touched:?}");
}

#[test]
fn short_commands_are_refused() {
    let mut f = Fixture::ready();
    assert_eq!(f.run(Opcode::CREATE_MKEY, 0, 0x10, 0x10, |_| {}).0, Status::BAD_INPUT_LEN);
    assert_eq!(f.run(Opcode::QUERY_ADAPTER, 0, 0x10, 0x10, |_| {}).0, Status::BAD_OUTPUT_LEN);
}

fn give(f: &mut Fixture, pages: &[u64]) -> Status {
    f.run(Opcode::MANAGE_PAGES, 1, 0x10 + 8 * pages.len(), 0x10, |input| {
        let mut input = ManagePagesIn(input);
        input.set_input_num_entries(pages.len() as u32);
        for (i, page) in pages.iter().enumerate() {
            input.0[0x10 + 8 * i..][..8].copy_from_slice(&page.to_be_bytes());
        }
    })
    .0
}

fn take(f: &mut Fixture, wanted: u32, room: usize) -> Vec<u64> {
    let out = f.ok(Opcode::MANAGE_PAGES, 2, 0x10, 0x10 + 8 * room, |input| {
        ManagePagesIn(input).set_input_num_entries(wanted);
    });
    let count = ManagePagesOut(&out).output_num_entries() as usize;
    (0..count).map(|i| be64_at(&out, 0x10 + 8 * i)).collect()
}

#[test]
fn a_list_with_a_bad_page_is_refused_whole() {
    let mut f = Fixture::off();
    f.ok(Opcode::ENABLE_HCA, 0, 0x10, 0xc, |_| {});
    assert_eq!(give(&mut f, &[0x1000, 0x2000]), Status::OK);
    for bad in [&[0x3000, 0x2000][..], &[0x4000, 0x4800], &[0x5000, 0x5000]] {
        assert_eq!(give(&mut f, bad), Status::BAD_PARAM, "{bad:x?}");
        assert_eq!(f.fw.pages.held(), 2);
    }
}

#[test]
fn pages_are_asked_for_until_there_are_enough() {
    let mut f = Fixture::off();
    f.ok(Opcode::ENABLE_HCA, 0, 0x10, 0xc, |_| {});
    let mut next = 0x10_0000;
    let mut total = 0;
    for op_mod in [1, 2] {
        let out = f.ok(Opcode::QUERY_PAGES, op_mod, 0x10, 0x10, |_| {});
        let wanted = u64::from(QueryPagesOut(&out).num_pages());
        assert!(wanted > 0);
        let pages: Vec<u64> = (0..wanted).map(|i| next + i * 0x1000).collect();
        next += wanted * 0x1000;
        total += wanted;
        assert_eq!(give(&mut f, &pages), Status::OK);
        let out = f.ok(Opcode::QUERY_PAGES, op_mod, 0x10, 0x10, |_| {});
        assert_eq!(QueryPagesOut(&out).num_pages(), 0);
    }
    assert_eq!(f.fw.pages.held(), total);
}

proptest! {
    #[test]
    fn pages_come_back_once_and_no_more_than_asked(
        steps in prop::collection::vec((any::<bool>(), 0u32..40, 0usize..40), 1..60),
    ) {
        let mut f = Fixture::off();
        f.ok(Opcode::ENABLE_HCA, 0, 0x10, 0xc, |_| {});
        let mut device = std::collections::BTreeSet::new();
        let mut next = 0;
        for (giving, count, room) in steps {
            if giving {
                let pages: Vec<u64> = (0..u64::from(count)).map(|i| next + i * 0x1000).collect();
                next += u64::from(count) * 0x1000;
                prop_assert_eq!(give(&mut f, &pages), Status::OK);
                device.extend(pages);
            } else {
                let back = take(&mut f, count, room);
                prop_assert!(back.len() <= (count as usize).min(room));
                for page in back {
                    prop_assert!(device.remove(&page), "{:#x} was not given, or came twice", page);
                }
            }
            prop_assert_eq!(f.fw.pages.held(), device.len() as u64);
        }
        while !device.is_empty() {
            for page in take(&mut f, 16, 16) {
                prop_assert!(device.remove(&page));
            }
        }
    }
}

fn query_caps(f: &mut Fixture, op_mod: u16) -> Vec<u8> {
    f.ok(Opcode::QUERY_HCA_CAP, op_mod, 0x10, 0x1010, |_| {})[0x10..].to_vec()
}

fn set_caps(f: &mut Fixture, image: &[u8]) -> Status {
    f.run(Opcode::SET_HCA_CAP, 0, 0x1010, 0x10, |input| input[0x10..].copy_from_slice(image)).0
}

#[test]
fn capabilities_are_kept_within_their_maxima() {
    let mut f = Fixture::off();
    f.ok(Opcode::ENABLE_HCA, 0, 0x10, 0xc, |_| {});
    let max = query_caps(&mut f, 0);
    assert_eq!(max, query_caps(&mut f, 1));
    let cap = CmdHcaCap(&max);
    assert_eq!((cap.log_max_qp(), cap.xrc(), cap.cqe_version()), (17, true, 1));

    let mut lower = max.clone();
    CmdHcaCap(&mut lower[..]).set_log_max_qp(10);
    assert_eq!(set_caps(&mut f, &lower), Status::OK);
    assert_eq!(query_caps(&mut f, 1), lower);
    assert_eq!(query_caps(&mut f, 0), max);

    // Above the maximum, a switch that is off, a code that is not legal.
    let refused: [fn(&mut CmdHcaCap<&mut [u8]>); 4] = [
        |cap| cap.set_log_max_qp(18),
        |cap| cap.set_pg(true),
        |cap| cap.set_port_type(1),
        |cap| cap.set_cmdif_checksum(1),
    ];
    for change in refused {
        let mut image = lower.clone();
        change(&mut CmdHcaCap(&mut image[..]));
        assert_eq!(set_caps(&mut f, &image), Status::BAD_PARAM);
        assert_eq!(query_caps(&mut f, 1), lower, "a refused change changes nothing");
    }
    // As much as there is room for, as rdma-core's tests ask.
    let part = f.ok(Opcode::QUERY_HCA_CAP, 1, 0x10, 0x810, |_| {});
    assert_eq!(part[0x10..], query_caps(&mut f, 1)[..0x800]);
    // Nothing is offered of the memory of the device, and such a type there is not.
    assert_eq!(query_caps(&mut f, CapType::DEV_MEM.0 << 1 | 1), [0; 0x1000]);
    assert_eq!(f.run(Opcode::QUERY_HCA_CAP, 0x3f << 1, 0x10, 0x1010, |_| {}).0, Status::BAD_PARAM);

    f.ok(Opcode::INIT_HCA, 0, 0x20, 0x10, |_| {});
    assert_eq!(set_caps(&mut f, &lower), Status::BAD_SYS_STATE);
    f.ok(Opcode::DISABLE_HCA, 0, 0x10, 0xc, |_| {});
    f.ok(Opcode::ENABLE_HCA, 0, 0x10, 0xc, |_| {});
    assert_eq!(query_caps(&mut f, 1), max, "as after power-on");
}

#[test]
fn the_driver_chooses_how_answers_of_atomics_come_and_nothing_else() {
    const ATOMIC: u16 = 3 << 1;
    let mut f = Fixture::off();
    f.ok(Opcode::ENABLE_HCA, 0, 0x10, 0xc, |_| {});
    let caps = |f: &mut Fixture, current| {
        let out = query_caps(f, ATOMIC | current);
        let caps = AtomicCaps(&out);
        (caps.atomic_operations(), caps.atomic_size_qp(), caps.atomic_req_8B_endianness_mode())
    };
    assert_eq!((caps(&mut f, 0), caps(&mut f, 1)), ((0xf, 0xc, 1), (0xf, 0xc, 0)));
    assert!(!f.fw.caps.atomics_in_host_order());
    let set = |f: &mut Fixture, mode| {
        f.run(Opcode::SET_HCA_CAP, ATOMIC, 0x1010, 0x10, |input| {
            AtomicCaps(&mut input[0x10..]).set_atomic_req_8B_endianness_mode(mode);
        })
        .0
    };
    // The driver sends nothing but what it chooses.
    assert_eq!(set(&mut f, 1), Status::OK);
    assert_eq!(caps(&mut f, 1), (0xf, 0xc, 1));
    assert!(f.fw.caps.atomics_in_host_order());
    assert_eq!(set(&mut f, 2), Status::BAD_PARAM);
    f.ok(Opcode::DISABLE_HCA, 0, 0x10, 0xc, |_| {});
    assert!(!f.fw.caps.atomics_in_host_order(), "as after power-on");
}

#[test]
fn every_capability_of_the_profile_has_a_field() {
    let limits = firmware::Limits::default();
    let profile = firmware::profile::Profile::connectx6(&limits, true);
    for (info, values) in [
        (CmdHcaCap::INFO, profile.general),
        (CmdHcaCap2::INFO, profile.general2),
        (AtomicCaps::INFO, profile.atomic),
    ] {
        for (name, value) in values {
            let field = info.fields.iter().find(|f| f.name == name);
            let field = field.unwrap_or_else(|| panic!("{} has no field {name}", info.name));
            assert!(
                value >> field.width == 0,
                "{name} = {value} does not fit {} bits",
                field.width
            );
        }
    }
}

//! Multicast groups: who is in one, and what that holds.

mod common;

use std::collections::BTreeSet;

use common::World;
use layouts::*;
use proptest::prelude::*;

const GROUP: [u8; 16] = [0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 1];

fn group(n: u16) -> [u8; 16] {
    let mut gid = GROUP;
    gid[14..].copy_from_slice(&n.to_be_bytes());
    gid
}

fn run(w: &mut World, opcode: Opcode, qpn: u32, gid: [u8; 16]) -> Status {
    let fill = |i: &mut [u8]| {
        let mut input = AttachToMcgIn(i);
        input.set_qpn(qpn);
        input.set_multicast_gid(&gid);
    };
    w.f.run(opcode, 0, 0x20, 0x10, fill).0
}

fn members(w: &World, gid: [u8; 16]) -> Vec<u32> {
    w.f.fw.port.multicast.members(&gid).collect()
}

#[test]
fn members_come_and_go() {
    let mut w = World::new();
    let (one, other) = (w.qp(QpType::UD), w.qp(QpType::UD));
    assert_eq!(members(&w, GROUP), []);
    for qpn in [one, other, one] {
        assert_eq!(run(&mut w, Opcode::ATTACH_TO_MCG, qpn, GROUP), Status::OK);
    }
    assert_eq!(members(&w, GROUP), [one, other], "each once");
    assert_eq!(members(&w, group(7)), []);
    assert_eq!(w.destroy(one), Status::RES_BUSY, "a member is in use");
    assert_eq!(run(&mut w, Opcode::DETACH_FROM_MCG, one, group(7)), Status::BAD_RES);
    assert_eq!(run(&mut w, Opcode::DETACH_FROM_MCG, one, GROUP), Status::OK);
    assert_eq!(run(&mut w, Opcode::DETACH_FROM_MCG, one, GROUP), Status::BAD_RES, "twice");
    assert_eq!(members(&w, GROUP), [other]);
    assert_eq!(w.destroy(one), Status::OK);
    assert_eq!(run(&mut w, Opcode::DETACH_FROM_MCG, other, GROUP), Status::OK);
    assert!(w.f.fw.port.multicast.is_empty());
    assert_eq!(w.destroy(other), Status::OK);
    w.give_back();
    assert!(w.is_empty());
}

#[test]
fn who_and_what_can_be_in_a_group() {
    let mut w = World::new();
    let (ud, rc) = (w.qp(QpType::UD), w.qp(QpType::RC));
    let unicast = w.f.fw.port.gid(0).unwrap();
    assert_eq!(run(&mut w, Opcode::ATTACH_TO_MCG, ud, unicast), Status::BAD_PARAM);
    assert_eq!(run(&mut w, Opcode::ATTACH_TO_MCG, rc, GROUP), Status::BAD_PARAM);
    assert_eq!(run(&mut w, Opcode::ATTACH_TO_MCG, 0x9999, GROUP), Status::BAD_RES);
    assert!(w.f.fw.port.multicast.is_empty());
}

#[test]
fn groups_and_members_are_bounded() {
    let mut w = World::new();
    let qpn = w.qp(QpType::UD);
    for n in 0..1 << 12 {
        assert_eq!(run(&mut w, Opcode::ATTACH_TO_MCG, qpn, group(n)), Status::OK);
    }
    assert_eq!(run(&mut w, Opcode::ATTACH_TO_MCG, qpn, group(1 << 12)), Status::LIM_ERR);
    for _ in 1..240 {
        let qpn = w.qp(QpType::UD);
        assert_eq!(run(&mut w, Opcode::ATTACH_TO_MCG, qpn, group(0)), Status::OK);
    }
    let qpn = w.qp(QpType::UD);
    assert_eq!(run(&mut w, Opcode::ATTACH_TO_MCG, qpn, group(0)), Status::LIM_ERR);
    // TEARDOWN_HCA forgets them with the queue pairs.
    w.f.ok(Opcode::TEARDOWN_HCA, 0, 0x10, 0x10, |_| {});
    assert!(w.f.fw.port.multicast.is_empty() && w.is_empty());
}

proptest! {
    /// Members are those that were attached and not detached, whatever came in between; and a
    /// queue pair can be destroyed when it is in no group.
    #[test]
    fn as_a_set(steps in prop::collection::vec((any::<bool>(), 0..3usize, 0..3u16), 0..60)) {
        let mut w = World::new();
        let qpns = [(); 3].map(|()| w.qp(QpType::UD));
        let mut model = BTreeSet::new();
        for (attach, which, n) in steps {
            let member = (n, qpns[which]);
            let (opcode, expected) = if attach {
                model.insert(member);
                (Opcode::ATTACH_TO_MCG, Status::OK)
            } else if model.remove(&member) {
                (Opcode::DETACH_FROM_MCG, Status::OK)
            } else {
                (Opcode::DETACH_FROM_MCG, Status::BAD_RES)
            };
            prop_assert_eq!(run(&mut w, opcode, member.1, group(n)), expected);
            for n in 0..3 {
                let of_model = model.iter().filter(|member| member.0 == n).map(|member| member.1);
                prop_assert_eq!(members(&w, group(n)), of_model.collect::<Vec<_>>());
            }
        }
        for qpn in qpns {
            let member = model.iter().any(|member| member.1 == qpn);
            let expected = if member { Status::RES_BUSY } else { Status::OK };
            prop_assert_eq!(w.destroy(qpn), expected);
        }
    }
}

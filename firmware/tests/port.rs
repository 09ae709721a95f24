//! The port: its tables, its registers, its subnet management agent.

mod common;

use common::{Fixture, IDENTITY};
use layouts::*;

#[test]
fn the_port_is_active_and_has_its_names() {
    let mut f = Fixture::ready();
    let out = f.ok(Opcode::QUERY_HCA_VPORT_CONTEXT, 0, 0x10, 0x210, |_| {});
    let out = QueryHcaVportContextOut(&out);
    let context = out.hca_vport_context();
    assert_eq!((context.vport_state(), context.port_physical_state()), (4, 5));
    assert_eq!((context.lid(), context.sm_lid()), (7, 7));
    assert_eq!(context.port_guid(), IDENTITY.port_guid);
    assert_eq!(context.node_guid(), IDENTITY.node_guid);
    assert_eq!(context.system_image_guid(), IDENTITY.system_image_guid);
}

#[test]
fn tables_end_where_the_capabilities_say() {
    let mut f = Fixture::ready();
    let gid = |f: &mut Fixture, index| {
        f.run(Opcode::QUERY_HCA_VPORT_GID, 0, 0x10, 0x20, |i| {
            QueryHcaVportGidIn(i).set_gid_index(index);
        })
    };
    let (status, out) = gid(&mut f, 0);
    assert_eq!(status, Status::OK);
    assert_eq!(be64_at(&out, 0x10), 0xfe80 << 48);
    assert_eq!(be64_at(&out, 0x18), IDENTITY.port_guid);
    let (status, out) = gid(&mut f, 7);
    assert_eq!(status, Status::OK);
    assert_eq!((be64_at(&out, 0x10), be64_at(&out, 0x18)), (0xfe80 << 48, 0), "no GUID");
    assert_eq!(gid(&mut f, 8).0, Status::IX_ERR);

    let pkey = |f: &mut Fixture, index, outlen| {
        f.run(Opcode::QUERY_HCA_VPORT_PKEY, 0, 0x10, outlen, |i| {
            QueryHcaVportPkeyIn(i).set_pkey_index(index);
        })
    };
    assert_eq!(pkey(&mut f, 0, 0x14).1[0x10..], [0, 0, 0xff, 0xff]);
    assert_eq!(pkey(&mut f, 127, 0x14).1[0x10..], [0; 4]);
    assert_eq!(pkey(&mut f, 128, 0x14).0, Status::IX_ERR);
    assert_eq!(pkey(&mut f, 0xffff, 0x10 + 4 * 128).0, Status::OK);
    assert_eq!(pkey(&mut f, 0xffff, 0x14).0, Status::BAD_OUTPUT_LEN);
}

#[test]
fn only_host_agents_bits_can_be_changed() {
    let mut f = Fixture::ready();
    let modify = |f: &mut Fixture, select, value| {
        f.run(Opcode::MODIFY_HCA_VPORT_CONTEXT, 0, 0x210, 0x10, |i| {
            let mut input = ModifyHcaVportContextIn(i);
            let mut context = input.hca_vport_context_mut();
            context.set_cap_mask1_field_select(select);
            context.set_cap_mask1(value);
        })
        .0
    };
    let before = f.fw.port.capability_mask;
    assert_eq!(modify(&mut f, 1 << 16, 1 << 16), Status::OK);
    assert_eq!(f.fw.port.capability_mask, before | 1 << 16);
    assert_eq!(modify(&mut f, 1 << 11, 0), Status::BAD_PARAM);
    assert_eq!(modify(&mut f, 1 << 16, 0), Status::OK);
    assert_eq!(f.fw.port.capability_mask, before);
}

#[test]
fn the_node_description_is_kept() {
    let mut f = Fixture::ready();
    let mut text = [0; 64];
    text[..5].copy_from_slice(b"host1");
    let id = RegisterId::NODE_DESC.0;
    f.ok(Opcode::ACCESS_REG, 0, 0x50, 0x50, |i| {
        AccessRegisterIn(&mut *i).set_register_id(id);
        i[0x10..].copy_from_slice(&text);
    });
    let out = f.ok(Opcode::ACCESS_REG, 1, 0x50, 0x50, |i| AccessRegisterIn(i).set_register_id(id));
    assert_eq!(out[0x10..], text);
}

#[test]
fn what_the_driver_needs_of_the_link() {
    let mut f = Fixture::ready();
    let mut read = |id: RegisterId, len: usize| {
        f.ok(Opcode::ACCESS_REG, 1, 0x10 + len, 0x10 + len, |i| {
            AccessRegisterIn(&mut *i).set_register_id(id.0);
            let mut reg = PtysReg(&mut i[0x10..]);
            reg.set_local_port(1);
            if id == RegisterId::PTYS {
                reg.set_proto_mask(1);
            }
        })[0x10..]
            .to_vec()
    };
    let ptys = read(RegisterId::PTYS, 0x40);
    assert_eq!(PtysReg(&ptys).ib_link_width_oper(), 4, "4x");
    assert_eq!(PtysReg(&ptys).ib_proto_oper(), 64, "HDR");
    let pmtu = read(RegisterId::PMTU, 0x10);
    assert_eq!((PmtuReg(&pmtu).max_mtu(), PmtuReg(&pmtu).oper_mtu()), (4096, 4096));
    let pvlc = read(RegisterId::PVLC, 0x10);
    assert_eq!(PvlcReg(&pvlc).vl_hw_cap(), 4);
}

fn smp(f: &mut Fixture, class: u8, method: u8, attribute: u16, modifier: u32) -> (Status, Vec<u8>) {
    let (status, out) = f.run(Opcode::MAD_IFC, 0, 0x110, 0x110, |i| {
        MadIfcIn(&mut *i).set_port(1);
        let mut smp = Smp(&mut i[0x10..]);
        smp.set_mgmt_class(class);
        smp.set_method(method);
        smp.set_tid(0x1234);
        smp.set_attr_id(attribute);
        smp.set_attr_mod(modifier);
    });
    (status, out[0x10..].to_vec())
}

#[test]
fn the_agent_answers_gets() {
    let mut f = Fixture::ready();
    let (status, reply) = smp(&mut f, 0x81, 1, 0x11, 0);
    assert_eq!(status, Status::OK);
    let reply = Smp(&reply);
    assert_eq!((reply.method(), reply.status(), reply.tid()), (0x81, 0x8000, 0x1234));
    assert_eq!(reply.node_info().port_guid(), IDENTITY.port_guid);
    assert_eq!(reply.node_info().device_id(), 0x101b);

    let (_, reply) = smp(&mut f, 0x01, 1, 0x15, 1);
    let reply = Smp(&reply);
    assert_eq!((reply.status(), reply.port_info().lid()), (0, 7));
    assert_eq!(reply.port_info().port_state(), 4);
    assert_eq!(reply.port_info().mtu_cap(), 5);

    let (_, reply) = smp(&mut f, 0x01, 1, 0x16, 0);
    assert_eq!(reply[0x40..0x44], [0xff, 0xff, 0, 0]);
}

#[test]
fn the_agent_refuses_the_rest() {
    let mut f = Fixture::ready();
    for (method, attribute, modifier, expected) in
        [(2, 0x15, 1, 0x0c), (1, 0x15, 2, 0x1c), (1, 0x16, 4, 0x1c), (1, 0x99, 0, 0x0c)]
    {
        let (status, reply) = smp(&mut f, 0x01, method, attribute, modifier);
        assert_eq!(status, Status::OK);
        assert_eq!(Smp(&reply).status(), expected, "method {method} attribute {attribute:#x}");
    }
    assert_eq!(smp(&mut f, 0x06, 1, 0x11, 0).0, Status::BAD_PKT, "device management");
}

//! Taking structures apart by their descriptions.

use layouts::decode::{Content, Decoded, decode, decode_at};
use layouts::*;

fn none(_: &str) -> Option<u64> {
    None
}

fn find<'a>(fields: &'a [Decoded], path: &str) -> Option<&'a Decoded> {
    fields.iter().find(|field| field.path.is(path))
}

fn number(fields: &[Decoded], path: &str) -> Option<u64> {
    match find(fields, path)?.content {
        Content::Number(value) => Some(value),
        Content::Bytes(_) => None,
    }
}

#[test]
fn fields_are_found_by_any_end_of_their_path() {
    let mut bytes = [0; 0x110 + 16];
    let mut input = CreateMkeyIn(&mut bytes[..]);
    input.set_opcode(Opcode::CREATE_MKEY.0);
    input.memory_key_mkey_entry_mut().set_pd(7);
    input.memory_key_mkey_entry_mut().set_access_mode_1_0(3);
    input.set_klm_pas_mtt(1, 0x1234_5000);
    let fields = decode(&CreateMkeyIn::INFO, &bytes, &none);
    for path in ["pd", "mkc.pd", "memory_key_mkey_entry.pd", "create_mkey_in.mkc.pd"] {
        assert_eq!(number(&fields, path), Some(7), "{path}");
    }
    assert_eq!(find(&fields, "qpc.pd"), None);
    assert_eq!(find(&fields, "opcode").and_then(|field| field.name), Some("CREATE_MKEY"));
    assert_eq!(find(&fields, "mkc.access_mode").and_then(|field| field.name), Some("KSM"));
    assert_eq!(number(&fields, "klm_pas_mtt[1]"), Some(0x1234_5000));
    assert_eq!(find(&fields, "klm_pas_mtt[2]"), None);
}

#[test]
fn bits_without_a_field_are_raw() {
    let mut bytes = [0; 0x10];
    // SET_ISSI has no field here.
    bytes[0xd] = 0x40;
    // And this is beside one.
    bytes[0x8] = 0x01;
    let fields = decode(&SetIssiIn::INFO, &bytes, &none);
    assert_eq!(number(&fields, "raw[0xc]"), Some(0x40_0000));
    assert_eq!(number(&fields, "raw[8]"), Some(0x0100_0000));
    assert_eq!(fields.iter().filter(|field| field.path.last() == "raw").count(), 2);
    assert_eq!(fields.last().unwrap().path.to_string(), "raw[0xc]");
}

#[test]
fn a_part_of_a_structure_has_the_fields_in_it() {
    let fields = decode_at(&InitialSegment::INFO, 0x1fc, &[0x80, 0, 0, 1]);
    assert_eq!(number(&fields, "initializing"), Some(1));
    assert_eq!(number(&fields, "raw[0]"), Some(1));
    let fields = decode_at(&InitialSegment::INFO, 0x230, &[0, 0x16, 0, 7]);
    assert_eq!(number(&fields, "health_buffer.fw_version"), Some(0x16_0007));
    assert!(decode_at(&InitialSegment::INFO, 0x2008, &[]).is_empty());
    // Fields that are only partly there, and bytes between registers, are raw.
    let fields = decode_at(&InitialSegment::INFO, 2, &[1, 2]);
    assert_eq!(fields.len(), 1);
}

#[test]
fn a_union_has_the_part_that_is_meant() {
    let mut bytes = [0; 0x40];
    let mut eqe = Eqe(&mut bytes[..]);
    eqe.set_type(EventType::PAGE_REQUEST.0);
    eqe.req_pages_mut().set_num_pages(256);
    let fields = decode(&Eqe::INFO, &bytes, &none);
    assert_eq!(number(&fields, "req_pages.num_pages"), Some(256));
    assert_eq!(find(&fields, "comp.cqn"), None);
    // An event that is not known: its data is raw.
    Eqe(&mut bytes[..]).set_type(0xfe);
    let fields = decode(&Eqe::INFO, &bytes, &none);
    assert_eq!(number(&fields, "raw[0x24]"), Some(256));
}

#[test]
fn what_a_reply_holds_may_follow_from_its_command() {
    let mut bytes = vec![0; QueryHcaCapOut::SIZE];
    QueryHcaCapOut(&mut bytes[..]).cmd_hca_cap_mut().set_log_max_qp(18);
    let general = |name: &str| (name == "op_mod").then_some(1);
    let fields = decode(&QueryHcaCapOut::INFO, &bytes, &general);
    assert_eq!(number(&fields, "cmd_hca_cap.log_max_qp"), Some(18));
    let ptys = |name: &str| (name == "register_id").then_some(RegisterId::PTYS.0.into());
    let mut bytes = vec![0; 0x10 + PtysReg::SIZE];
    PtysReg(&mut bytes[0x10..]).set_local_port(1);
    let fields = decode(&AccessRegisterOut::INFO, &bytes, &ptys);
    assert_eq!(number(&fields, "register_data.local_port"), Some(1));
    assert_eq!(number(&fields, "ptys_reg.local_port"), Some(1));
}

#[test]
fn a_work_request_has_the_segments_of_its_opcode() {
    let mut bytes = [0; 0x30];
    let mut ctrl = WqeCtrlSeg(&mut bytes[..]);
    ctrl.set_opcode(WqeOpcode::RDMA_WRITE.0);
    ctrl.set_qpn(0x45);
    WqeRaddrSeg(&mut bytes[0x10..]).set_rkey(0x1700);
    let mut inline = WqeInlineSeg(&mut bytes[0x20..]);
    inline.set_inline(true);
    inline.set_byte_count(5);
    bytes[0x24..0x29].copy_from_slice(b"hello");
    let fields = decode(&WqeCtrlSeg::INFO, &bytes, &none);
    assert_eq!(number(&fields, "raddr.rkey"), Some(0x1700));
    let data = find(&fields, "data[0].bytes").unwrap();
    assert_eq!(data.content, Content::Bytes(b"hello".into()));
    assert!(fields.iter().all(|field| field.path.last() != "raw"), "{fields:?}");
    // On a datagram's queue pair other segments follow.
    let datagram = |name: &str| (name == "st").then_some(QpType::UD.0.into());
    WqeCtrlSeg(&mut bytes[..]).set_opcode(WqeOpcode::SEND.0);
    let fields = decode(&WqeCtrlSeg::INFO, &bytes, &datagram);
    assert!(find(&fields, "av.rlid").is_some());
}

/// Of any structure and any number of bytes: what no field of it covers is raw, to the bit.
#[test]
fn nothing_is_hidden() {
    for layout in all().into_iter().filter(|l| l.parts.is_empty() && l.arrays.is_empty()) {
        for len in [layout.size, layout.size + 40, layout.size / 2, 5, 0] {
            let bytes = vec![0xff; len];
            let mut rest = bytes.clone();
            for field in layout.fields.iter().filter(|f| f.bit + f.width <= len * 8) {
                for bit in field.bit..field.bit + field.width {
                    rest[bit / 8] &= !(0x80 >> (bit % 8));
                }
            }
            if ["mlx5_wqe_ctrl_seg", "mlx5_wqe_data_seg"].contains(&layout.name)
                && len > layout.size
            {
                continue; // More segments follow.
            }
            let mut raw = vec![0; len];
            for field in decode(layout, &bytes, &none) {
                let step = field.path.0.last().unwrap();
                if let (Content::Number(value), "raw", Some(at)) =
                    (&field.content, step.name, step.index)
                {
                    let word = (*value as u32).to_be_bytes();
                    raw[at..].iter_mut().zip(word).for_each(|(to, from)| *to = from);
                }
            }
            assert_eq!(raw, rest, "{} in {len} bytes", layout.name);
        }
    }
}

/// Whatever a union's neighbours say, at most one of its parts comes out; only for one of them is
/// that never settled: its bits are raw.
#[test]
fn every_union_is_known() {
    let overlap = |one: &PartInfo, other: &PartInfo| {
        one.name != other.name
            && one.byte < other.byte + other.layout.size
            && other.byte < one.byte + one.layout.size
    };
    let mut unknown = Vec::new();
    for layout in all() {
        let union = |part: &PartInfo| layout.parts.iter().any(|other| overlap(part, other));
        for part in layout.parts.iter().filter(|part| union(part) && !part.layout.fields.is_empty())
        {
            let comes_out = (0..=0xffu8).any(|value| {
                let bytes = union_of(layout, value);
                let op_mod = |name: &str| (name == "op_mod").then_some(value.into());
                let fields = decode(layout, &bytes, &op_mod);
                let inside = |field: &Decoded| field.path.0.get(1).map(|step| step.name);
                let parts: Vec<_> = fields
                    .iter()
                    .filter_map(inside)
                    .filter(|name| layout.parts.iter().any(|p| p.name == *name && union(p)))
                    .collect();
                assert!(parts.iter().all(|name| *name == parts[0]), "{}: {parts:?}", layout.name);
                parts.contains(&part.name)
            });
            if !comes_out {
                unknown.push(format!("{}.{}", layout.name, part.name));
            }
        }
    }
    assert_eq!(
        unknown,
        ["page_fault_resume_in.trans_page_fault_info", "page_fault_resume_in.mem_page_fault_info"]
    );
}

/// A structure whose number that settles its union is `value`.
fn union_of(layout: &LayoutInfo, value: u8) -> Vec<u8> {
    let mut bytes = vec![0; layout.size + 0x200];
    let names = ["type", "sub_type", "op_mod", "grp", "info_type", "access_reg_group", "attr_id"];
    for field in layout.fields.iter().filter(|field| names.contains(&field.name)) {
        field.set(&mut bytes, u64::from(value) & ((1 << field.width) - 1));
        if layout.name == "mlx5_eqe" && field.name == "sub_type" {
            // Page faults alone have parts by subtype.
            field.set(&mut bytes, 0);
        }
    }
    if layout.name == "mlx5_eqe" && value >= 0xf0 {
        Eqe(&mut bytes[..]).set_type(EventType::PAGE_FAULT.0);
        Eqe(&mut bytes[..]).set_sub_type(value - 0xf0);
    }
    if layout.name == "general_obj_in_cmd_hdr" {
        let opcode = if value == 0 { Opcode::CREATE_GENERAL_OBJECT } else { Opcode(0xa02) };
        GeneralObjInCmdHdr(&mut bytes[..]).set_opcode(opcode.0);
    }
    bytes
}

//! Fields, parts and arrays: read back as written, neighbours untouched, short bytes harmless.

use layouts::{
    CqDoorbell, Cqe64, CreateCqIn, EqDoorbell, Eqe, FieldInfo, InitialSegment, Opcode, QpState,
    QueryHcaVportGidOut, SetDriverVersionIn, Status, WqeCtrlSeg, all, be64_at, get_bits, set_bits,
};
use proptest::prelude::*;

/// Any place of a field: one that fits a word of 32 bits or, from there on, one of 64.
fn place() -> impl Strategy<Value = (usize, usize)> {
    (0usize..512).prop_flat_map(|bit| (Just(bit), 1..=64 - bit % 32))
}

fn mask(width: usize) -> u64 {
    u64::MAX >> (64 - width)
}

/// The reference: bit by bit.
fn bit_by_bit(bytes: &[u8], bit: usize, width: usize) -> u64 {
    (bit..bit + width)
        .fold(0, |value, at| value << 1 | u64::from(bytes[at / 8] >> (7 - at % 8) & 1))
}

proptest! {
    #[test]
    fn reads_the_bits_in_order((bit, width) in place(), bytes in prop::array::uniform32(0u8..)) {
        let bytes = [bytes, bytes, bytes].concat();
        prop_assert_eq!(get_bits(&bytes, bit, width), bit_by_bit(&bytes, bit, width));
    }

    #[test]
    fn writes_what_it_reads_and_nothing_else(
        (bit, width) in place(),
        bytes in prop::collection::vec(0u8.., 96),
        value: u64,
    ) {
        let value = value & mask(width);
        let mut written = bytes.clone();
        set_bits(&mut written, bit, width, value);
        prop_assert_eq!(get_bits(&written, bit, width), value);
        for at in (0..bytes.len() * 8).filter(|at| !(bit..bit + width).contains(at)) {
            prop_assert_eq!(bit_by_bit(&written, at, 1), bit_by_bit(&bytes, at, 1), "bit {}", at);
        }
    }

    #[test]
    fn short_bytes_read_zero_and_stay(
        (bit, width) in place(),
        bytes in prop::collection::vec(0u8.., 0..96),
        value: u64,
    ) {
        let value = value & mask(width);
        let mut written = bytes.clone();
        set_bits(&mut written, bit, width, value);
        let words = if bit % 32 + width <= 32 { 1 } else { 2 };
        if bytes.len() < bit / 32 * 4 + words * 4 {
            prop_assert_eq!(get_bits(&bytes, bit, width), 0);
            prop_assert_eq!(written, bytes);
        } else {
            prop_assert_eq!(get_bits(&written, bit, width), value);
        }
    }
}

#[test]
fn every_declared_field_is_where_it_can_be_read() {
    for layout in all() {
        for &FieldInfo { name, bit, width } in layout.fields {
            let at = format!("{}.{name}", layout.name);
            assert!((1..=64).contains(&width) && bit % 32 + width <= 64, "{at} crosses words");
            assert!(bit + width <= layout.size * 8, "{at} is beyond the end");
        }
        for part in layout.parts {
            assert!(part.byte <= layout.size, "{}.{} is beyond the end", layout.name, part.name);
        }
        for array in layout.arrays {
            let end = array.byte + array.element * array.count;
            assert!(end <= layout.size, "{}.{} is beyond the end", layout.name, array.name);
        }
        let open = layout.arrays.iter().filter(|array| array.count == 0).count();
        assert!(open <= 1, "{} has several ends", layout.name);
    }
}

#[test]
fn fields_are_big_endian() {
    let mut bytes = [0; 16];
    let mut ctrl = WqeCtrlSeg(&mut bytes[..]);
    ctrl.set_wqe_index(0x1234);
    ctrl.set_opcode(0x25);
    ctrl.set_qpn(0xabcdef);
    ctrl.set_ds(9);
    ctrl.set_ce(2);
    ctrl.set_umr_mkey(0x0012_3456);
    assert_eq!(bytes, [0, 0x12, 0x34, 0x25, 0xab, 0xcd, 0xef, 9, 0, 0, 0, 8, 0, 0x12, 0x34, 0x56]);
}

/// What the headers have as one word, as drivers write and read it.
#[test]
fn fields_within_a_byte_or_word() {
    // mlx5_ib's cq.c initializes entries with 0xf1: no completion, owned by the hardware.
    let mut bytes = [0; Cqe64::SIZE];
    bytes[0x3f] = 0xf1;
    let cqe = Cqe64(&bytes[..]);
    assert_eq!((cqe.opcode(), cqe.format(), cqe.se(), cqe.owner()), (15, 0, false, true));
    // qp.h: MLX5_FENCE_MODE_FENCE | MLX5_WQE_CTRL_CQ_UPDATE_AND_EQE | MLX5_WQE_CTRL_SOLICITED.
    let mut bytes = [0; WqeCtrlSeg::SIZE];
    bytes[0x0b] = 2 << 5 | 3 << 2 | 1 << 1;
    let ctrl = WqeCtrlSeg(&bytes[..]);
    assert_eq!((ctrl.fence(), ctrl.ce(), ctrl.se()), (2, 3, true));
    // Slots and stride of the command queue: cmd.c reads (word >> 4) & 0xf and word & 0xf.
    let mut bytes = [0; 0x20];
    bytes[0x14..0x18].copy_from_slice(&[0, 0, 0x07, 0x56]);
    let segment = InitialSegment(&bytes[..]);
    assert_eq!(segment.log_cmdq_size(), 5);
    assert_eq!(segment.log_cmdq_stride(), 6);
    assert_eq!(segment.nic_interface(), 7);
    // Event queue 5, index 3: eq.c writes eqn << 24 | index.
    let eq = EqDoorbell(0x0500_0003u32.to_be_bytes());
    assert_eq!((eq.eqn(), eq.ci()), (5, 3));
    // Completion queue 0x81, second request, index 7, next completion: mlx5_cq_arm in cq.h.
    let cq = CqDoorbell(0x1000_0007_0000_0081u64.to_be_bytes());
    assert_eq!((cq.sn(), cq.solicited(), cq.ci(), cq.cqn()), (1, false, 7, 0x81));
    // Port 1: eq.c takes the upper half of the byte.
    let mut bytes = [0; Eqe::SIZE];
    bytes[0x28] = 0x10;
    assert_eq!(Eqe(&bytes[..]).port().port_num(), 1);
}

#[test]
fn parts_are_views_into_the_same_bytes() {
    let mut bytes = [0; 64];
    let mut eqe = Eqe(&mut bytes[..]);
    eqe.set_type(0x0a);
    eqe.cmd_mut().set_vector(1 << 31 | 1);
    assert_eq!(eqe.r#type(), 0x0a);
    assert_eq!(eqe.cmd().vector(), 1 << 31 | 1);
    assert_eq!(bytes[0x20..0x24], [0x80, 0, 0, 1]);

    // An array behind the end is empty, and a part too.
    let short = CreateCqIn(&bytes[..8]);
    assert_eq!(short.cq_context().log_cq_size(), 0);
    assert_eq!(short.pas().len(), 0);
}

#[test]
fn open_arrays_have_as_many_elements_as_bytes_are_there() {
    let mut bytes = vec![0; CreateCqIn::SIZE + 3 * 8 + 7];
    let mut input = CreateCqIn(&mut bytes[..]);
    input.set_pas(0, 0x1000);
    input.set_pas(2, 0x3000);
    input.set_pas(3, u64::MAX);
    input.set_pas(usize::MAX, u64::MAX);
    assert_eq!(input.pas().collect::<Vec<_>>(), [0x1000, 0, 0x3000]);
    assert_eq!(be64_at(&bytes, CreateCqIn::SIZE), 0x1000);
    assert_eq!(bytes[CreateCqIn::SIZE + 24..], [0; 7]);

    let gid = std::array::from_fn(|i| i as u8);
    let mut bytes = [0; QueryHcaVportGidOut::SIZE + 32];
    let mut out = QueryHcaVportGidOut(&mut bytes[..]);
    out.set_gid(1, gid);
    assert_eq!(out.gid().collect::<Vec<_>>(), [[0; 16], gid]);
}

#[test]
fn arrays_have_all_their_elements() {
    let mut bytes = [0xff; SetDriverVersionIn::SIZE];
    let mut input = SetDriverVersionIn(&mut bytes[..]);
    let mut version = [0; 64];
    version[..5].copy_from_slice(b"Linux");
    input.set_driver_version(&version);
    assert_eq!(input.driver_version(), version);
    assert_eq!(bytes[..0x10], [0xff; 0x10]);
    // What is not there reads as zero.
    assert_eq!(SetDriverVersionIn(&bytes[..0x12]).driver_version()[..3], [b'L', b'i', 0]);
}

#[test]
fn any_bytes_can_be_looked_at() {
    // Longer and shorter than the structure, and empty.
    for len in [0, 1, 0x3f, 0x40, 0x41] {
        let bytes = vec![0xff; len];
        let cqe = Cqe64(&bytes[..]);
        assert_eq!(cqe.opcode(), if len >= 0x40 { 15 } else { 0 });
        for layout in all() {
            for field in layout.fields {
                field.get(&bytes);
            }
        }
    }
}

#[test]
fn codes_print_their_names() {
    assert_eq!(Opcode::CREATE_MKEY.to_string(), "CREATE_MKEY");
    assert_eq!(Opcode(0x999).to_string(), "0x999");
    assert_eq!(Opcode::from_name("CREATE_MKEY"), Some(Opcode(0x200)));
    assert_eq!(Opcode::from_name("CREATE_KEY"), None);
    assert_eq!(Status::BAD_OUTPUT_LEN.name(), Some("BAD_OUTPUT_LEN"));
    assert_eq!(format!("{:?} {:6}|", QpState::RTS, QpState::ERR), "RTS ERR   |");
}

#[test]
fn commands_name_their_structures() {
    let (input, output) = layouts::command(Opcode::CREATE_MKEY);
    assert_eq!((input.name, output.name), ("create_mkey_in", "create_mkey_out"));
    let (input, output) = layouts::command(Opcode(0x999));
    assert_eq!((input.name, output.name), ("mbox_in", "mbox_out"));
    assert!(layouts::COMMANDS.is_sorted_by_key(|(opcode, ..)| opcode.0));
}

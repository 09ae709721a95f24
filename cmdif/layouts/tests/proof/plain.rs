//! Plain C structures against `device.h` and `qp.h`, laid out by the C compiler.

use std::collections::{BTreeMap, BTreeSet};

use layouts::LayoutInfo;

use crate::c::{Program, declarations, words};
use crate::differences::Differences;
use crate::headers::Kernel;
use crate::ifc::Ifc;

/// Where C has one member and we have several fields, or has another name: structure, our names,
/// and the member (or first and last of several) that the fields are within.
const WITHIN: &[(&str, &[&str], &[&str])] = &[
    ("mlx5_init_seg", &["nic_interface"], &["cmdq_addr_l_sz"]),
    ("mlx5_init_seg", &["fw_reset_supported"], &["initializing"]),
    ("mlx5_eqe", &["owner"], &["owner"]),
    ("mlx5_eqe_port_state", &["port_num"], &["port"]),
    ("mlx5_eqe_page_fault.wqe", &["page_fault_type", "wq_num"], &["pftype_wq"]),
    ("mlx5_eqe_page_fault.rdma", &["page_fault_type", "token"], &["pftype_token"]),
    ("mlx5_eqe_sync_fw_update", &["sync_rst_state"], &["sync_rst_state"]),
    ("mlx5_cqe64", &["grh", "sl", "rqpn"], &["flags_rqpn"]),
    ("mlx5_cqe64", &["srqn", "lro_num_seg"], &["srqn"]),
    ("mlx5_cqe64", &["timestamp"], &["timestamp_h", "timestamp_l"]),
    ("mlx5_cqe64", &["sop", "qpn"], &["sop_drop_qpn"]),
    ("mlx5_cqe64", &["opcode", "format", "se", "owner"], &["op_own"]),
    ("mlx5_err_cqe", &["s_wqe_opcode", "qpn"], &["s_wqe_opcode_qpn"]),
    ("mlx5_err_cqe", &["opcode", "owner"], &["op_own"]),
    ("mlx5_sig_err_cqe", &["opcode", "owner"], &["op_own"]),
    ("mlx5_wqe_ctrl_seg", &["opmod", "wqe_index", "opcode"], &["opmod_idx_opcode"]),
    ("mlx5_wqe_ctrl_seg", &["qpn", "ds"], &["qpn_ds"]),
    ("mlx5_wqe_ctrl_seg", &["dci_stream_channel_id"], &["rsvd"]),
    ("mlx5_wqe_ctrl_seg", &["fence", "ce", "se"], &["fm_ce_se"]),
    ("mlx5_wqe_inline_seg", &["inline", "byte_count"], &["byte_count"]),
    ("mlx5_av", &["qkey"], &["key.qkey.qkey"]),
    ("mlx5_av", &["dc_key"], &["key.dc_key"]),
    ("mlx5_av", &["sl"], &["stat_rate_sl"]),
];

/// Plain structures that `mlx5_ifc.h` has too, with fields where C has words.
const TWINS: &[(&str, &str)] = &[
    ("mlx5_init_seg", "initial_seg"),
    ("health_buffer", "health_buffer"),
    ("mlx5_cmd_layout", "cmd_queue_entry"),
    ("mlx5_av", "ud_adrs_vector"),
];

/// Whether a structure is plain C.
pub fn is_plain(layout: &LayoutInfo) -> bool {
    layout.name.starts_with("mlx5_") || layout.name == "health_buffer"
}

#[test]
fn plain_structures_are_those_of_the_kernels() {
    let layouts: Vec<_> = layouts::all().into_iter().filter(|layout| is_plain(layout)).collect();
    assert!(layouts.len() > 30, "only {} plain structures", layouts.len());
    let differences = Differences::of(|kernel, differences| compare(kernel, &layouts, differences));
    differences.judge(include_str!("plain.txt"), "cmdif/layouts/tests/proof/plain.txt");
}

/// What there is of ours in a structure: a field, part or array, in bits.
struct Place {
    name: &'static str,
    bit: usize,
    /// None: to the end.
    width: Option<usize>,
}

fn places(layout: &LayoutInfo) -> Vec<Place> {
    let fields =
        layout.fields.iter().map(|f| Place { name: f.name, bit: f.bit, width: Some(f.width) });
    let parts = layout.parts.iter().map(|p| Place {
        name: p.name,
        bit: p.byte * 8,
        width: Some(p.layout.size * 8),
    });
    let arrays = layout.arrays.iter().map(|a| Place {
        name: a.name,
        bit: a.byte * 8,
        width: (a.count != 0).then_some(a.element * a.count * 8),
    });
    fields.chain(parts).chain(arrays).collect()
}

/// A structure's name in C, and the path in it to the alternative of a union that the layout is.
/// Offsets count from the structure's begin: kernels differ in what they have before the union.
fn c_name(layout: &LayoutInfo) -> (String, Option<&'static str>) {
    match layout.name.split_once('.') {
        Some((name, path)) => (format!("struct {name}"), Some(path)),
        None => (format!("struct {}", layout.name), None),
    }
}

/// The member that a part of an event is.
fn event_member(name: &str) -> String {
    let name = if name.starts_with("page_fault_") { "page_fault" } else { name };
    format!("data.{name}")
}

struct Asked {
    layout: &'static LayoutInfo,
    place: Option<Place>,
    /// The answers that make the answer: where it begins, and where it ends.
    begin: usize,
    end: Option<usize>,
    within: bool,
}

fn compare(kernel: Kernel, layouts: &[&'static LayoutInfo], differences: &mut Differences) {
    let mut program = Program::default();
    declare(kernel, layouts, &mut program);
    let mut asked = Vec::new();
    for &layout in layouts {
        let (name, path) = c_name(layout);
        let member = |member: &str| match path {
            Some(path) => format!("{path}.{member}"),
            None => member.to_owned(),
        };
        let begin = program.ask("0".to_owned());
        let end = Some(program.ask(format!("sizeof({name})")));
        asked.push(Asked { layout, place: None, begin, end, within: false });
        for place in places(layout) {
            let within = WITHIN.iter().find(|(structure, names, _)| {
                *structure == layout.name && names.contains(&place.name)
            });
            let members: Vec<_> = match within {
                Some((_, _, members)) => members.iter().map(|m| member(m)).collect(),
                None if layout.name == "mlx5_eqe" && place.bit == 0x100 => {
                    vec![event_member(place.name)]
                }
                None => vec![member(place.name)],
            };
            let (first, last) = (&members[0], &members[members.len() - 1]);
            let begin = program.ask(format!("offsetof({name}, {first})"));
            let end = place.width.is_some().then(|| {
                program.ask(format!("offsetof({name}, {last}) + sizeof((({name} *)0)->{last})"))
            });
            let within = within.is_some();
            asked.push(Asked { layout, place: Some(place), begin, end, within });
        }
    }
    let answers = program.run();
    let ifc = Ifc::read(kernel);
    for asked in asked {
        asked.judge(kernel, &answers, &ifc, differences);
    }
}

impl Asked {
    fn judge(
        self,
        kernel: Kernel,
        answers: &BTreeMap<usize, u64>,
        ifc: &Ifc,
        differences: &mut Differences,
    ) {
        let name = self.layout.name;
        let bits = |question: usize| answers.get(&question).map(|&byte| byte as usize * 8);
        let (begin, end) = (bits(self.begin), self.end.map(bits));
        let Some(place) = self.place else {
            match end.flatten() {
                Some(size) if size == self.layout.size * 8 => {}
                Some(size) => differences.add(kernel, name, format!("size {:#x}", size / 8)),
                None => differences.add(kernel, name, "absent"),
            }
            return;
        };
        let twin = TWINS.iter().find(|(plain, _)| *plain == name);
        let twin = twin.and_then(|(_, twin)| ifc.structure(twin)?.find(place.name).cloned());
        if twin.is_some_and(|twin| {
            twin.bit == place.bit && Some(twin.width * twin.count.unwrap_or(1)) == place.width
        }) {
            return;
        }
        let what = format!("{name}.{}", place.name);
        let (Some(begin), false) = (begin, end == Some(None)) else {
            differences.add(kernel, what, "absent");
            return;
        };
        let end = end.flatten();
        let ours = place.width.map(|width| place.bit + width);
        let good = if self.within {
            begin <= place.bit && ours.zip(end).is_some_and(|(ours, end)| ours <= end)
        } else {
            (begin, end) == (place.bit, ours)
        };
        if !good {
            let end = end.map_or("its end".to_owned(), |end| format!("{end:#x}"));
            differences.add(kernel, what, format!("bits {begin:#x} to {end}"));
        }
    }
}

/// Declares our structures, those that they are made of, and the enums that give their arrays'
/// sizes.
fn declare(kernel: Kernel, layouts: &[&'static LayoutInfo], program: &mut Program) {
    let files = ["device.h", "qp.h"];
    let all: Vec<_> =
        files.iter().flat_map(|file| declarations(kernel, file, &["struct", "union"])).collect();
    let enums: Vec<_> =
        files.iter().flat_map(|file| declarations(kernel, file, &["enum"])).collect();
    let name = |declaration: &str| words(declaration).nth(1).unwrap_or_default().to_owned();
    let mut wanted: BTreeSet<String> = layouts
        .iter()
        .map(|layout| layout.name.split('.').next().unwrap_or_default().to_owned())
        .collect();
    // What one needs is declared before it.
    for declaration in all.iter().rev() {
        if wanted.contains(&name(declaration)) {
            wanted.extend(words(declaration).map(str::to_owned));
        }
    }
    for declaration in &enums {
        let dimension = |word: &str| word.starts_with("MLX5_") && wanted.contains(word);
        if words(declaration).any(dimension) {
            program.declare(declaration);
        }
    }
    for declaration in all.iter().filter(|declaration| wanted.contains(&name(declaration))) {
        program.declare(declaration);
    }
}

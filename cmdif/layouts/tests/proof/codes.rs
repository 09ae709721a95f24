//! Numbers with names against the kernels' enums.

use layouts::*;

use crate::c::{Program, declarations, words};
use crate::differences::Differences;
use crate::headers::{KERNELS, Kernel};

/// One of our types and where its values come from.
struct Codes {
    name: &'static str,
    file: &'static str,
    prefix: &'static str,
    /// What the kernels call the values, and their numbers.
    values: Vec<(String, u64)>,
    /// Words with the prefix that are something else.
    ignore: &'static [&'static str],
}

macro_rules! codes {
    ($ty:ident, $file:literal, $prefix:literal $(, ignore $ignore:expr)? $(, named $named:expr)?) => {{
        #[allow(unused_mut, unused_assignments)]
        let (mut ignore, mut named): (&'static [&'static str], fn(&str) -> String) =
            (&[], str::to_owned);
        $( ignore = &$ignore; )?
        $( named = $named; )?
        Codes {
            name: stringify!($ty),
            file: $file,
            prefix: $prefix,
            values: $ty::NAMES.iter().map(|&(code, name)| (named(name), code.0.into())).collect(),
            ignore,
        }
    }};
}

fn all_codes() -> Vec<Codes> {
    vec![
        codes!(Opcode, "mlx5_ifc.h", "MLX5_CMD_OP_",
        ignore ["MAX", "GENERAL_START", "GENERAL_END", "MOD_UPDATE_HEADER_MODIFY_ARGUMENT"],
        named |name| match name {
            "TOERR_QP" => "2ERR_QP".to_owned(),
            "TORST_QP" => "2RST_QP".to_owned(),
            _ => name.to_owned(),
        }),
        codes!(
            Status,
            "device.h",
            "MLX5_CMD_STAT_",
            named
                | name
                | match name {
                    "BAD_INPUT_LEN" => "BAD_INP_LEN_ERR".to_owned(),
                    "BAD_OUTPUT_LEN" => "BAD_OUTP_LEN_ERR".to_owned(),
                    "OK" | "RES_BUSY" | "NOT_READY" => name.to_owned(),
                    _ if name.ends_with("_ERR") => name.to_owned(),
                    _ => format!("{name}_ERR"),
                }
        ),
        codes!(EventType, "device.h", "MLX5_EVENT_TYPE_", ignore ["NOTIFY_ANY", "MAX"]),
        codes!(PortChange, "device.h", "MLX5_PORT_CHANGE_SUBTYPE_"),
        codes!(GeneralEvent, "device.h", "MLX5_GENERAL_SUBTYPE_"),
        codes!(PageFaultType, "device.h", "MLX5_PFAULT_SUBTYPE_"),
        codes!(EventQueueType, "device.h", "MLX5_EVENT_QUEUE_TYPE_"),
        codes!(CapType, "device.h", "MLX5_CAP_",
            ignore ["RESERVED", "RESERVED_14", "RESERVED_16", "NUM"]),
        codes!(RegisterId, "driver.h", "MLX5_REG_"),
        codes!(QpState, "qp.h", "MLX5_QP_STATE_", ignore["BAD"]),
        codes!(QpType, "qp.h", "MLX5_QP_ST_", ignore["MAX"]),
        codes!(WqeOpcode, "device.h", "MLX5_OPCODE_"),
        codes!(CqeSyndrome, "cq.h", "MLX5_CQE_SYNDROME_"),
        codes!(CqeOpcode, "cq.h", "MLX5_CQE_", ignore["OWNER_MASK"]),
    ]
}

/// The enums that a type's values are in: all that have one of them. CapType's and CqeOpcode's
/// prefixes begin other names too, but not in these enums.
fn enums(kernel: Kernel, codes: &Codes) -> Vec<String> {
    let ours = |word: &str| {
        let rest = word.strip_prefix(codes.prefix);
        rest.is_some_and(|rest| codes.values.iter().any(|(name, _)| name == rest))
    };
    let mut enums = declarations(kernel, codes.file, &["enum"]);
    enums.retain(|declaration| words(declaration).any(ours));
    enums
}

#[test]
fn codes_are_those_of_the_kernels() {
    let differences = Differences::of(|kernel, differences| {
        for codes in all_codes() {
            let mut program = Program::default();
            let enums = enums(kernel, &codes);
            enums.iter().for_each(|declaration| program.declare(declaration));
            for (name, _) in &codes.values {
                program.ask(format!("{}{name}", codes.prefix));
            }
            let answers = program.run();
            for (number, (name, value)) in codes.values.iter().enumerate() {
                let what = format!("{}::{name}", codes.name);
                match answers.get(&number) {
                    Some(answer) if answer == value => {}
                    Some(answer) => differences.add(kernel, what, format!("{answer:#x}")),
                    None => differences.add(kernel, what, "absent"),
                }
            }
            let declared = enums.iter().flat_map(|declaration| words(declaration));
            for name in declared.filter_map(|word| word.strip_prefix(codes.prefix)) {
                let known = codes.values.iter().any(|(ours, _)| ours == name);
                if !known && !codes.ignore.contains(&name) {
                    differences.add(kernel, format!("{}::{name}", codes.name), "not declared");
                }
            }
        }
    });
    differences.judge(include_str!("codes.txt"), "cmdif/layouts/tests/proof/codes.txt");
}

/// The bits by which a UMR says what it does.
#[test]
fn umr_bits_are_those_of_the_kernels() {
    macro_rules! bits {
        ($module:ident, $prefix:literal: $($name:ident)*) => {
            [$( (concat!($prefix, stringify!($name)), u64::from($module::$name)) ),*]
        };
    }
    let masks = bits!(mkey_mask, "MLX5_MKEY_MASK_":
        LEN PAGE_SIZE START_ADDR PD EN_RINVAL EN_SIGERR BSF_EN KEY QPN LR LW RR RW A SMALL_FENCE
        RELAXED_ORDERING_WRITE FREE PAGE_SIZE_5 RELAXED_ORDERING_READ);
    let flags = bits!(umr_flags, "MLX5_UMR_":
        INLINE CHECK_FREE CHECK_NOT_FREE TRANSLATION_OFFSET_EN);
    let differences = Differences::of(|kernel, differences| {
        let mut program = Program::default();
        for declaration in declarations(kernel, "device.h", &["enum"]) {
            if words(&declaration).any(|w| w == "MLX5_MKEY_MASK_LEN" || w == "MLX5_UMR_INLINE") {
                program.declare(&declaration);
            }
        }
        for (name, _) in masks.iter().chain(&flags) {
            program.ask((*name).to_owned());
        }
        let answers = program.run();
        for (number, (name, value)) in masks.iter().chain(&flags).enumerate() {
            if answers.get(&number) != Some(value) {
                differences.add(kernel, name, "absent or another");
            }
        }
    });
    differences.judge(include_str!("umr.txt"), "cmdif/layouts/tests/proof/umr.txt");
}

#[test]
fn doorbells_are_where_the_kernels_have_them() {
    for kernel in KERNELS.into_iter().filter(|kernel| kernel.gates) {
        let (_, numbers) = kernel.tokens("doorbell.h");
        assert_eq!(numbers.get("MLX5_CQ_DOORBELL"), Some(&UAR_CQ_ARM), "{}", kernel.name);
        assert_eq!(numbers.get("MLX5_BF_OFFSET"), Some(&UAR_BF), "{}", kernel.name);
    }
}

//! Every structure that is declared here, to be found by name.

use crate::*;

/// What commands, registers and capabilities do not lead to: what lies in guest memory and in the
/// device's registers.
const OTHERS: &[&LayoutInfo] = &[
    &MboxIn::INFO,
    &MboxOut::INFO,
    &DeviceEventCap::INFO,
    &InitialSegment::INFO,
    &CommandQueueEntry::INFO,
    &CommandMailbox::INFO,
    &Eqe::INFO,
    &Cqe64::INFO,
    &ErrCqe::INFO,
    &SigErrCqe::INFO,
    &WqeCtrlSeg::INFO,
    &WqeUmrCtrlSeg::INFO,
    &WqeDataSeg::INFO,
    &WqeInlineSeg::INFO,
    &WqeRaddrSeg::INFO,
    &WqeAtomicSeg::INFO,
    &WqeMaskedAtomicSeg::INFO,
    &WqeDatagramSeg::INFO,
    &WqeXrcSeg::INFO,
    &WqeSrqNextSeg::INFO,
    &MttEntry::INFO,
    &KlmEntry::INFO,
    &StrideBlock::INFO,
    &StrideEntry::INFO,
    &CqDoorbell::INFO,
    &EqDoorbell::INFO,
    &QpDoorbellRecord::INFO,
    &CqDoorbellRecord::INFO,
    &Smp::INFO,
    &PerfMad::INFO,
];

/// Every structure, each once; one that is inside others comes before them.
pub fn all() -> Vec<&'static LayoutInfo> {
    fn add(layout: &'static LayoutInfo, all: &mut Vec<&'static LayoutInfo>) {
        if all.iter().any(|known| known.name == layout.name) {
            return;
        }
        for part in layout.parts {
            add(part.layout, all);
        }
        all.push(layout);
    }
    let mut all = Vec::new();
    for &(_, input, output) in COMMANDS {
        add(input, &mut all);
        add(output, &mut all);
    }
    for &(_, register) in REGISTERS {
        add(register, &mut all);
    }
    for other in OTHERS {
        add(other, &mut all);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that any source file declares, by name.
    fn declared(dir: &std::path::Path, names: &mut Vec<String>) {
        for entry in dir.read_dir().unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                declared(&path, names);
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            for declaration in source.split("\nlayout! {").skip(1) {
                let name = declaration.split(" = \"").nth(1).unwrap();
                names.push(name.split('"').next().unwrap().to_owned());
            }
        }
    }

    #[test]
    fn nothing_is_forgotten() {
        let mut names = Vec::new();
        declared(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut names);
        names.sort();
        let mut found: Vec<_> = all().iter().map(|layout| layout.name.to_owned()).collect();
        found.sort();
        assert_eq!(found, names);
    }
}

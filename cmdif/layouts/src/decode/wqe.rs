//! A work request: a control segment, and segments that follow from its opcode.

use super::{Decoder, Step};
use crate::{
    LayoutInfo, Mkc, QpType, WqeAtomicSeg, WqeCtrlSeg, WqeDataSeg, WqeDatagramSeg, WqeInlineSeg,
    WqeMaskedAtomicSeg, WqeOpcode, WqeRaddrSeg, WqeUmrCtrlSeg, WqeXrcSeg, umr_flags,
};

/// The segments between the control segment and the data of a work request, with their names and
/// where they begin; and where the data begins.
pub(super) fn segments(
    opcode: WqeOpcode,
    service: Option<QpType>,
) -> (Vec<(&'static str, &'static LayoutInfo, usize)>, usize) {
    let mut all = Vec::new();
    let mut at = WqeCtrlSeg::SIZE;
    let mut segment = |name, layout: &'static LayoutInfo| {
        all.push((name, layout, at));
        at += layout.size;
    };
    if opcode == WqeOpcode::UMR {
        segment("umr", &WqeUmrCtrlSeg::INFO);
        segment("mkey", &Mkc::INFO);
        return (all, at);
    }
    match service {
        Some(QpType::XRC) => segment("xrc", &WqeXrcSeg::INFO),
        Some(QpType::UD | QpType::QP0 | QpType::QP1) => segment("av", &WqeDatagramSeg::INFO),
        _ => {}
    }
    let remote = matches!(
        opcode,
        WqeOpcode::RDMA_WRITE
            | WqeOpcode::RDMA_WRITE_IMM
            | WqeOpcode::RDMA_READ
            | WqeOpcode::ATOMIC_CS
            | WqeOpcode::ATOMIC_FA
            | WqeOpcode::ATOMIC_MASKED_CS
            | WqeOpcode::ATOMIC_MASKED_FA
    );
    if remote {
        segment("raddr", &WqeRaddrSeg::INFO);
    }
    match opcode {
        WqeOpcode::ATOMIC_CS | WqeOpcode::ATOMIC_FA => segment("atomic", &WqeAtomicSeg::INFO),
        WqeOpcode::ATOMIC_MASKED_CS | WqeOpcode::ATOMIC_MASKED_FA => {
            segment("atomic", &WqeMaskedAtomicSeg::INFO);
        }
        _ => {}
    }
    (all, at)
}

/// The whole work request.
pub(super) fn decode(decoder: &mut Decoder<'_>) {
    decoder.structure(&WqeCtrlSeg::INFO, 0);
    let opcode = WqeOpcode(WqeCtrlSeg(decoder.from(0)).opcode());
    let service = (decoder.hints)("st").map(|st| QpType(st as u8));
    let (segments, at) = segments(opcode, service);
    for (name, layout, at) in segments {
        decoder.within(Step::part(name, layout.name), |decoder| decoder.structure(layout, at));
    }
    let umr = || WqeUmrCtrlSeg(decoder.from(WqeCtrlSeg::SIZE)).flags();
    if opcode == WqeOpcode::UMR && umr() & umr_flags::INLINE != 0 {
        let size = decoder.len.saturating_sub(at);
        return decoder.array("translations", 8, at, size);
    }
    data(decoder, at);
}

/// Data segments up to the end.
pub(super) fn data(decoder: &mut Decoder<'_>, mut at: usize) {
    let mut index = 0;
    while at + WqeInlineSeg::SIZE <= decoder.len {
        let inline = WqeInlineSeg(decoder.from(at));
        let step =
            |structure| Step { name: "data", structure: Some(structure), index: Some(index) };
        if inline.inline() {
            let count = usize::from(inline.byte_count());
            decoder.within(step(WqeInlineSeg::INFO.name), |decoder| {
                decoder.structure_without_arrays(&WqeInlineSeg::INFO, at);
                let begin = at + WqeInlineSeg::SIZE;
                let size = count.min(decoder.len.saturating_sub(begin));
                decoder.array("bytes", 1, begin, size);
            });
            at += (WqeInlineSeg::SIZE + count).next_multiple_of(16);
        } else {
            decoder.within(step(WqeDataSeg::INFO.name), |decoder| {
                decoder.structure(&WqeDataSeg::INFO, at);
            });
            at += WqeDataSeg::SIZE;
        }
        index += 1;
    }
}

//! A work request: a control segment, and segments that follow from its opcode.

use super::{Decoder, Step};
use crate::{
    LayoutInfo, Mkc, QpType, WqeAtomicSeg, WqeCtrlSeg, WqeDataSeg, WqeDatagramSeg, WqeInlineSeg,
    WqeMaskedAtomicSeg, WqeOpcode, WqeRaddrSeg, WqeUmrCtrlSeg, WqeXrcSeg, umr_flags,
};

/// The whole work request.
pub(super) fn decode(decoder: &mut Decoder<'_>) {
    decoder.structure(&WqeCtrlSeg::INFO, 0);
    let mut at = WqeCtrlSeg::SIZE;
    let opcode = WqeOpcode(WqeCtrlSeg(decoder.from(0)).opcode());
    let service = (decoder.hints)("st").map(|st| QpType(st as u8));
    if opcode == WqeOpcode::UMR {
        return umr(decoder, at);
    }
    match service {
        Some(QpType::XRC) => at = segment(decoder, "xrc", &WqeXrcSeg::INFO, at),
        Some(QpType::UD | QpType::QP0 | QpType::QP1) => {
            at = segment(decoder, "av", &WqeDatagramSeg::INFO, at);
        }
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
        at = segment(decoder, "raddr", &WqeRaddrSeg::INFO, at);
    }
    match opcode {
        WqeOpcode::ATOMIC_CS | WqeOpcode::ATOMIC_FA => {
            at = segment(decoder, "atomic", &WqeAtomicSeg::INFO, at);
        }
        WqeOpcode::ATOMIC_MASKED_CS | WqeOpcode::ATOMIC_MASKED_FA => {
            at = segment(decoder, "atomic", &WqeMaskedAtomicSeg::INFO, at);
        }
        _ => {}
    }
    data(decoder, at);
}

/// A segment that is there once. Returns where the next begins.
fn segment(
    decoder: &mut Decoder<'_>,
    name: &'static str,
    layout: &'static LayoutInfo,
    at: usize,
) -> usize {
    decoder.within(Step::part(name, layout.name), |decoder| decoder.structure(layout, at));
    at + layout.size
}

fn umr(decoder: &mut Decoder<'_>, at: usize) {
    let flags = WqeUmrCtrlSeg(decoder.from(at)).flags();
    let at = segment(decoder, "umr", &WqeUmrCtrlSeg::INFO, at);
    let at = segment(decoder, "mkey", &Mkc::INFO, at);
    if flags & umr_flags::INLINE == 0 {
        data(decoder, at);
    } else {
        let size = decoder.len.saturating_sub(at);
        decoder.array("translations", 8, at, size);
    }
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

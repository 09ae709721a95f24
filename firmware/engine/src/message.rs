//! The message that a WQE of a connected service describes.

use firmware::qp::Service;
use layouts::{
    WqeAtomicSeg, WqeMaskedAtomicSeg, WqeOpcode, WqeRaddrSeg, WqeXrcSeg, be64_at, get_bits,
};

use crate::completion::{BAD_WQE, Failure};
use crate::packet::{Action, Operation, Tail};
use crate::wqe::Wqe;

/// Bytes of a segment.
const UNIT: usize = 16;
/// opmod of an atomic operation whose operands have the size that its lower bits say: log2 of the
/// bytes, less 2 (PRM, "Extended atomic operations").
const EXTENDED: u8 = 8;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// What it asks for.
    pub kind: Kind,
    /// The responder's shared receive queue, for XRC.
    pub srqn: Option<u32>,
    /// Where the WQE's data segments begin.
    pub data: usize,
}

/// What a message asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A send.
    Send(Tail),
    /// A write.
    Write { addr: u64, key: u32, tail: Tail },
    /// A read.
    Read { addr: u64, key: u32 },
    /// An atomic operation.
    Atomic(Operation),
}

impl Message {
    /// Reads a WQE. None: its opcode is none of this service.
    pub fn parse(service: Service, wqe: &Wqe) -> Option<Result<Self, Failure>> {
        let opcode = wqe.opcode();
        let known = match opcode {
            WqeOpcode::SEND
            | WqeOpcode::SEND_IMM
            | WqeOpcode::RDMA_WRITE
            | WqeOpcode::RDMA_WRITE_IMM => service.is_connected(),
            WqeOpcode::SEND_INVAL
            | WqeOpcode::RDMA_READ
            | WqeOpcode::ATOMIC_CS
            | WqeOpcode::ATOMIC_FA
            | WqeOpcode::ATOMIC_MASKED_CS
            | WqeOpcode::ATOMIC_MASKED_FA => service.is_reliable(),
            _ => false,
        };
        known.then(|| Self::of(service, opcode, wqe))
    }

    fn of(service: Service, opcode: WqeOpcode, wqe: &Wqe) -> Result<Self, Failure> {
        let mut at = UNIT;
        let mut segment = |len: usize| {
            let part = wqe.part(at, len)?;
            at += len;
            Ok(part)
        };
        let srqn = match service {
            Service::Xrc => Some(WqeXrcSeg(segment(UNIT)?).xrc_srqn() & 0xff_ffff),
            _ => None,
        };
        let ctrl = wqe.ctrl();
        let kind = match opcode {
            WqeOpcode::SEND => Kind::Send(Tail::None),
            WqeOpcode::SEND_IMM => Kind::Send(Tail::Immediate(ctrl.imm())),
            WqeOpcode::SEND_INVAL => Kind::Send(Tail::Invalidate(ctrl.imm())),
            _ => {
                let remote = WqeRaddrSeg(segment(UNIT)?);
                let (addr, key) = (remote.raddr(), remote.rkey());
                match opcode {
                    WqeOpcode::RDMA_WRITE => Kind::Write { addr, key, tail: Tail::None },
                    WqeOpcode::RDMA_WRITE_IMM => {
                        Kind::Write { addr, key, tail: Tail::Immediate(ctrl.imm()) }
                    }
                    WqeOpcode::RDMA_READ => Kind::Read { addr, key },
                    _ => {
                        let (size, action) = action(opcode, ctrl.opmod(), segment)?;
                        Kind::Atomic(Operation { addr, key, size, action })
                    }
                }
            }
        };
        Ok(Self { kind, srqn, data: at })
    }
}

/// The operands of an atomic operation, and their size in bytes.
fn action<'a>(
    opcode: WqeOpcode,
    opmod: u8,
    mut segment: impl FnMut(usize) -> Result<&'a [u8], Failure>,
) -> Result<(u32, Action), Failure> {
    let size = match opmod {
        0 => 8,
        EXTENDED => 4,
        extended if extended == EXTENDED | 1 => 8,
        _ => return Err(BAD_WQE),
    };
    let all = u64::MAX >> (64 - 8 * size);
    let action = match (opcode, size) {
        (WqeOpcode::ATOMIC_CS, 8) => {
            let operands = WqeAtomicSeg(segment(UNIT)?);
            Action::CompareSwap {
                swap: operands.swap_add(),
                swap_mask: all,
                compare: operands.compare(),
                compare_mask: all,
            }
        }
        (WqeOpcode::ATOMIC_FA, 8) => {
            Action::FetchAdd { add: WqeAtomicSeg(segment(UNIT)?).swap_add(), boundary: 0 }
        }
        (WqeOpcode::ATOMIC_MASKED_CS, 8) => {
            let operands = WqeMaskedAtomicSeg(segment(2 * UNIT)?);
            Action::CompareSwap {
                swap: operands.swap_add(),
                swap_mask: operands.swap_add_mask(),
                compare: operands.compare(),
                compare_mask: operands.compare_mask(),
            }
        }
        (WqeOpcode::ATOMIC_MASKED_CS, _) => {
            let operands = segment(UNIT)?;
            let word = |n: usize| get_bits(operands, 32 * n, 32);
            Action::CompareSwap {
                swap: word(0),
                compare: word(1),
                swap_mask: word(2),
                compare_mask: word(3),
            }
        }
        (WqeOpcode::ATOMIC_MASKED_FA, 8) => {
            let operands = segment(UNIT)?;
            Action::FetchAdd { add: be64_at(operands, 0), boundary: be64_at(operands, 8) }
        }
        (WqeOpcode::ATOMIC_MASKED_FA, _) => {
            let operands = segment(UNIT)?;
            Action::FetchAdd {
                add: get_bits(operands, 0, 32),
                boundary: get_bits(operands, 32, 32),
            }
        }
        _ => return Err(BAD_WQE),
    };
    Ok((size as u32, action))
}

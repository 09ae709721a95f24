//! Commands of queues with damaged input, in any order: no panic, and what was held is given back.

mod common;

use common::World;
use layouts::*;
use proptest::prelude::*;

/// One command: which, where its input is damaged and how, and what it picks of what exists.
#[derive(Debug, Clone)]
struct Step {
    command: usize,
    damage: Vec<(usize, u8)>,
    pick: usize,
    op_mod: u16,
}

fn step() -> impl Strategy<Value = Step> {
    let damage = prop::collection::vec((0usize..0x120, any::<u8>()), 0..4);
    let op_mod = prop_oneof![4 => Just(0u16), 1 => Just(1), 1 => any::<u16>()];
    (0..COMMANDS.len(), damage, any::<usize>(), op_mod)
        .prop_map(|(command, damage, pick, op_mod)| Step { command, damage, pick, op_mod })
}

/// Kinds of objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cq,
    Qp,
    Srq,
    XrcSrq,
    Rmp,
}

/// What a command does with an object of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Make,
    Use,
    Destroy,
}

const COMMANDS: &[(Opcode, Kind, Does)] = &[
    (Opcode::CREATE_CQ, Kind::Cq, Does::Make),
    (Opcode::QUERY_CQ, Kind::Cq, Does::Use),
    (Opcode::MODIFY_CQ, Kind::Cq, Does::Use),
    (Opcode::DESTROY_CQ, Kind::Cq, Does::Destroy),
    (Opcode::CREATE_QP, Kind::Qp, Does::Make),
    (Opcode::CREATE_QP, Kind::Qp, Does::Make),
    (Opcode::QUERY_QP, Kind::Qp, Does::Use),
    (Opcode::RST2INIT_QP, Kind::Qp, Does::Use),
    (Opcode::INIT2INIT_QP, Kind::Qp, Does::Use),
    (Opcode::INIT2RTR_QP, Kind::Qp, Does::Use),
    (Opcode::RTR2RTS_QP, Kind::Qp, Does::Use),
    (Opcode::RTS2RTS_QP, Kind::Qp, Does::Use),
    (Opcode::SQERR2RTS_QP, Kind::Qp, Does::Use),
    (Opcode::SQD_RTS_QP, Kind::Qp, Does::Use),
    (Opcode::TOERR_QP, Kind::Qp, Does::Use),
    (Opcode::TORST_QP, Kind::Qp, Does::Use),
    (Opcode::DESTROY_QP, Kind::Qp, Does::Destroy),
    (Opcode::CREATE_SRQ, Kind::Srq, Does::Make),
    (Opcode::QUERY_SRQ, Kind::Srq, Does::Use),
    (Opcode::ARM_RQ, Kind::Srq, Does::Use),
    (Opcode::DESTROY_SRQ, Kind::Srq, Does::Destroy),
    (Opcode::CREATE_XRC_SRQ, Kind::XrcSrq, Does::Make),
    (Opcode::QUERY_XRC_SRQ, Kind::XrcSrq, Does::Use),
    (Opcode::ARM_XRC_SRQ, Kind::XrcSrq, Does::Use),
    (Opcode::DESTROY_XRC_SRQ, Kind::XrcSrq, Does::Destroy),
    (Opcode::CREATE_RMP, Kind::Rmp, Does::Make),
    (Opcode::QUERY_RMP, Kind::Rmp, Does::Use),
    (Opcode::MODIFY_RMP, Kind::Rmp, Does::Use),
    (Opcode::DESTROY_RMP, Kind::Rmp, Does::Destroy),
];

/// Commands that only any bytes are sent to.
const OTHERS: &[Opcode] = &[
    Opcode::ATTACH_TO_MCG,
    Opcode::DETACH_FROM_MCG,
    Opcode::CREATE_UMEM,
    Opcode::DESTROY_UMEM,
    Opcode::QUERY_Q_COUNTER,
    Opcode::DEALLOC_Q_COUNTER,
    Opcode::QUERY_VPORT_COUNTER,
    Opcode::ACCESS_REG,
    Opcode::MAD_IFC,
];

struct Run {
    w: World,
    /// Beyond what the world has.
    made: Vec<(Kind, u32)>,
}

impl Run {
    fn new() -> Self {
        Self { w: World::new(), made: Vec::new() }
    }

    fn pick(&self, kind: Kind, pick: usize) -> u32 {
        let all: Vec<u32> =
            self.made.iter().filter(|(of, _)| *of == kind).map(|(_, number)| *number).collect();
        all.get(pick % all.len().max(1)).copied().unwrap_or(pick as u32 & 0xff_ffff)
    }

    /// Input that would be right.
    fn fill(&self, opcode: Opcode, kind: Kind, pick: usize, input: &mut [u8]) {
        let page = 0x1000 * (1 + pick as u64 % 64);
        if let Some(pas) = input.get_mut(0x110..0x118) {
            pas.copy_from_slice(&page.to_be_bytes());
        }
        let number = self.pick(kind, pick);
        match opcode {
            Opcode::CREATE_CQ => {
                let mut input = CreateCqIn(input);
                let mut cqc = input.cq_context_mut();
                cqc.set_log_cq_size(pick as u8 % 6);
                cqc.set_uar_page(self.w.uar);
                cqc.set_c_eqn_or_apu_element(self.w.eqn.into());
            }
            Opcode::CREATE_QP => {
                let services = [0, 1, 2, 3, 7, 8, 12];
                let mut input = CreateQpIn(input);
                let mut qpc = input.qpc_mut();
                qpc.set_st(services[pick % services.len()]);
                qpc.set_pd(self.w.pd);
                qpc.set_uar_page(self.w.uar);
                qpc.set_log_sq_size(4);
                qpc.set_log_rq_size(2);
                qpc.set_log_rq_stride(2);
                qpc.set_cqn_snd(self.pick(Kind::Cq, pick));
                qpc.set_cqn_rcv(self.pick(Kind::Cq, pick / 7));
                qpc.set_rq_type([0, 0, 1, 3][pick / 64 % 4]);
                qpc.set_srqn_rmpn_xrqn(self.pick(Kind::Rmp, pick));
                qpc.set_xrcd(self.w.xrcd);
            }
            Opcode::CREATE_SRQ => {
                let mut input = CreateSrqIn(input);
                let mut context = input.srq_context_entry_mut();
                context.set_log_srq_size(3);
                context.set_log_rq_stride(2);
                context.set_pd(self.w.pd);
            }
            Opcode::CREATE_XRC_SRQ => {
                let mut input = CreateXrcSrqIn(input);
                let mut context = input.xrc_srq_context_entry_mut();
                context.set_log_xrc_srq_size(3);
                context.set_log_rq_stride(2);
                context.set_pd(self.w.pd);
                context.set_cqn(self.pick(Kind::Cq, pick));
                context.set_xrcd(self.w.xrcd);
            }
            Opcode::CREATE_RMP => {
                let mut input = CreateRmpIn(input);
                let mut context = input.ctx_mut();
                let mut wq = context.wq_mut();
                wq.set_log_wq_sz(3);
                wq.set_log_wq_stride(6);
                wq.set_pd(self.w.pd);
            }
            Opcode::MODIFY_CQ => {
                let mut input = ModifyCqIn(input);
                input.set_cqn(number);
                input.modify_field_select_mut().set_modify_field_select(pick as u32 & 0b111);
                input.cq_context_mut().set_log_cq_size(pick as u8 % 7);
            }
            Opcode::MODIFY_RMP => {
                let mut input = ModifyRmpIn(input);
                input.set_rmpn(number);
                input.set_rmp_state(1);
                input.bitmask_mut().set_lwm(true);
            }
            _ => {
                let mut input = Rst2initQpIn(input);
                input.set_qpn(number);
                let mut qpc = input.qpc_mut();
                qpc.set_pd(self.w.pd);
                qpc.set_mtu(3);
            }
        }
    }

    fn step(&mut self, step: &Step) {
        let (opcode, kind, does) = COMMANDS[step.command];
        let mut input = vec![0; 0x120];
        self.fill(opcode, kind, step.pick, &mut input);
        for &(at, byte) in &step.damage {
            // Not the opcode, and not the user context: it would be refused at once. Nor which object is
            // destroyed: that could be one of the world's own.
            if at >= 4 && !(matches!(does, Does::Destroy) && (8..12).contains(&at)) {
                input[at] = byte;
            }
        }
        let number = QueryQpIn(&input[..]).qpn();
        let (status, out) = self.w.f.run(opcode, step.op_mod, input.len(), 0x110, |to| {
            to[8..].copy_from_slice(&input[8..]);
        });
        if status == Status::OK {
            match does {
                Does::Make => self.made.push((kind, CreateQpOut(&out).qpn())),
                Does::Destroy => self.made.retain(|object| *object != (kind, number)),
                Does::Use => {}
            }
        }
    }

    /// Destroys everything, users first.
    fn end(&mut self) {
        let order = [
            (Kind::Qp, Opcode::DESTROY_QP),
            (Kind::Srq, Opcode::DESTROY_SRQ),
            (Kind::XrcSrq, Opcode::DESTROY_XRC_SRQ),
            (Kind::Rmp, Opcode::DESTROY_RMP),
            (Kind::Cq, Opcode::DESTROY_CQ),
        ];
        for (kind, opcode) in order {
            for (_, number) in self.made.iter().filter(|(of, _)| *of == kind) {
                self.w.f.ok(opcode, 0, 0x10, 0x10, |i| DestroyQpIn(i).set_qpn(*number));
            }
        }
        assert_eq!(self.w.give_back(), [Status::OK; 6]);
        assert!(self.w.is_empty(), "{:?}", self.w.f.fw.object_counts());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn references_are_balanced(steps in prop::collection::vec(step(), 1..80)) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
        }
        run.end();
    }

    #[test]
    fn any_bytes_are_answered(
        command in 0..COMMANDS.len() + OTHERS.len(),
        op_mod in any::<u16>(),
        bytes in prop::collection::vec(any::<u8>(), 0x10..0x400),
    ) {
        let mut run = Run::new();
        let opcode = match COMMANDS.get(command) {
            Some((opcode, ..)) => *opcode,
            None => OTHERS[command - COMMANDS.len()],
        };
        run.w.f.run(opcode, op_mod, bytes.len(), 0x110, |to| to[8..].copy_from_slice(&bytes[8..]));
    }
}

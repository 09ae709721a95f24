//! One object of each kind that queues refer to, and commands of queues that use them.

use layouts::*;

use super::Fixture;

/// Everything that a queue can refer to.
pub struct World {
    pub f: Fixture,
    pub pd: u32,
    pub uar: u32,
    pub eqn: u8,
    pub cqn: u32,
    pub xrcd: u32,
    pub rmpn: u32,
}

impl World {
    pub fn new() -> Self {
        let mut f = Fixture::ready();
        let pd = AllocPdOut(&f.ok(Opcode::ALLOC_PD, 0, 0x10, 0x10, |_| {})).pd();
        let uar = AllocUarOut(&f.ok(Opcode::ALLOC_UAR, 0, 0x10, 0x10, |_| {})).uar();
        let xrcd = AllocXrcdOut(&f.ok(Opcode::ALLOC_XRCD, 0, 0x10, 0x10, |_| {})).xrcd();
        let out = f.ok(Opcode::CREATE_EQ, 0, 0x118, 0x10, |input| {
            CreateEqIn(input).eq_context_entry_mut().set_uar_page(uar);
        });
        let eqn = CreateEqOut(&out).eq_number();
        let out = f.ok(Opcode::CREATE_RMP, 0, 0x118, 0x10, |input| {
            let mut input = CreateRmpIn(input);
            let mut context = input.ctx_mut();
            let mut wq = context.wq_mut();
            wq.set_log_wq_stride(5);
            wq.set_pd(pd);
        });
        let rmpn = CreateRmpOut(&out).rmpn();
        let mut world = Self { f, pd, uar, eqn, cqn: 0, xrcd, rmpn };
        world.cqn = world.cq(|_| {}).1;
        world
    }

    /// CREATE_CQ with one page.
    pub fn cq(&mut self, fill: impl FnOnce(&mut Cqc<&mut [u8]>)) -> (Status, u32) {
        let &mut Self { uar, eqn, .. } = self;
        let (status, out) = self.f.run(Opcode::CREATE_CQ, 0, 0x118, 0x10, |input| {
            let mut input = CreateCqIn(input);
            let mut cqc = input.cq_context_mut();
            cqc.set_log_cq_size(5);
            cqc.set_uar_page(uar);
            cqc.set_c_eqn_or_apu_element(eqn.into());
            fill(&mut cqc);
        });
        (status, CreateCqOut(&out).cqn())
    }

    /// CREATE_XRC_SRQ with one page.
    pub fn xrc_srq(
        &mut self,
        cqn: u32,
        fill: impl FnOnce(&mut XrcSrqc<&mut [u8]>),
    ) -> (Status, u32) {
        let &mut Self { pd, xrcd, .. } = self;
        let (status, out) = self.f.run(Opcode::CREATE_XRC_SRQ, 0, 0x118, 0x10, |input| {
            let mut input = CreateXrcSrqIn(input);
            let mut context = input.xrc_srq_context_entry_mut();
            context.set_log_xrc_srq_size(4);
            context.set_log_rq_stride(2);
            context.set_pd(pd);
            context.set_cqn(cqn);
            context.set_xrcd(xrcd);
            context.set_db_record_addr_l(0x8000 >> 2);
            fill(&mut context);
        });
        (status, CreateXrcSrqOut(&out).xrc_srqn())
    }

    /// CREATE_QP with one page.
    pub fn create(
        &mut self,
        service: QpType,
        fill: impl FnOnce(&mut Qpc<&mut [u8]>),
    ) -> (Status, u32) {
        let &mut Self { pd, uar, cqn, xrcd, .. } = self;
        let (status, out) = self.f.run(Opcode::CREATE_QP, 0, 0x118, 0x10, |input| {
            let mut input = CreateQpIn(input);
            let mut qpc = input.qpc_mut();
            qpc.set_st(service.0);
            qpc.set_pm_state(3);
            qpc.set_pd(if service == QpType::REG_UMR { 0 } else { pd });
            qpc.set_uar_page(uar);
            qpc.set_log_sq_size(2);
            qpc.set_cqn_snd(cqn);
            qpc.set_cqn_rcv(cqn);
            qpc.set_xrcd(if service == QpType::XRC { xrcd } else { 0 });
            fill(&mut qpc);
        });
        (status, CreateQpOut(&out).qpn())
    }

    /// A queue pair that nothing is special about.
    pub fn qp(&mut self, service: QpType) -> u32 {
        let (status, qpn) = self.create(service, |_| {});
        assert_eq!(status, Status::OK, "{:?}", self.f.probe.mistakes());
        qpn
    }

    /// A command of the state machine.
    pub fn change(
        &mut self,
        opcode: Opcode,
        qpn: u32,
        mask: u32,
        fill: impl FnOnce(&mut Qpc<&mut [u8]>),
    ) -> Status {
        let pd = self.pd;
        let (status, _) = self.f.run(opcode, 0, 0x110, 0x10, |input| {
            let mut input = Rst2initQpIn(input);
            input.set_qpn(qpn);
            input.set_opt_param_mask(mask);
            let mut qpc = input.qpc_mut();
            qpc.set_pd(pd);
            qpc.set_mtu(3);
            fill(&mut qpc);
        });
        status
    }

    /// Brings a new queue pair to a state.
    pub fn bring_to(&mut self, qpn: u32, state: QpState) {
        let way: &[Opcode] = match state {
            QpState::RST => &[],
            QpState::INIT => &[Opcode::RST2INIT_QP],
            QpState::RTR => &[Opcode::RST2INIT_QP, Opcode::INIT2RTR_QP],
            QpState::ERR => &[Opcode::TOERR_QP],
            _ => &[Opcode::RST2INIT_QP, Opcode::INIT2RTR_QP, Opcode::RTR2RTS_QP],
        };
        for &opcode in way {
            assert_eq!(self.change(opcode, qpn, 0, |_| {}), Status::OK, "{opcode}");
        }
        // No command leads there.
        let state = match state {
            QpState::SQER => firmware::qp::State::SqError,
            QpState::SQD => firmware::qp::State::SqDrained,
            _ => return,
        };
        self.f.fw.qps.get_mut(qpn).unwrap().state = state;
    }

    /// QUERY_QP's reply.
    pub fn query(&mut self, qpn: u32) -> Vec<u8> {
        let fill = |input: &mut [u8]| QueryQpIn(input).set_qpn(qpn);
        self.f.ok(Opcode::QUERY_QP, 0, 0x10, 0x110, fill)
    }

    pub fn state(&mut self, qpn: u32) -> QpState {
        QpState(QueryQpOut(&self.query(qpn)).qpc().state())
    }

    pub fn destroy(&mut self, qpn: u32) -> Status {
        self.f.run(Opcode::DESTROY_QP, 0, 0x10, 0x10, |i| DestroyQpIn(i).set_qpn(qpn)).0
    }

    /// Gives back what [`World::new`] made; what each command answered, users first.
    pub fn give_back(&mut self) -> [Status; 6] {
        let &mut Self { pd, uar, eqn, cqn, xrcd, rmpn, .. } = self;
        let mut run = |opcode, fill: &dyn Fn(&mut [u8])| self.f.run(opcode, 0, 0x10, 0x10, fill).0;
        [
            run(Opcode::DESTROY_RMP, &|i| DestroyRmpIn(i).set_rmpn(rmpn)),
            run(Opcode::DESTROY_CQ, &|i| DestroyCqIn(i).set_cqn(cqn)),
            run(Opcode::DEALLOC_XRCD, &|i| DeallocXrcdIn(i).set_xrcd(xrcd)),
            run(Opcode::DESTROY_EQ, &|i| DestroyEqIn(i).set_eq_number(eqn)),
            run(Opcode::DEALLOC_UAR, &|i| DeallocUarIn(i).set_uar(uar)),
            run(Opcode::DEALLOC_PD, &|i| DeallocPdIn(i).set_pd(pd)),
        ]
    }

    /// Whether no object is left.
    pub fn is_empty(&self) -> bool {
        self.f.fw.object_counts().iter().all(|(_, n)| *n == 0)
    }
}

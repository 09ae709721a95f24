//! A firmware and its engine over a byte array, and the least of a driver: objects are made by
//! commands, queues are written and read as a driver does.
#![allow(dead_code, unused_imports)]

#[path = "../../../tests/common/mod.rs"]
mod firmware_fixture;
pub mod pair;
pub mod regions;

use dma::Dma;
use engine::Engine;
pub use firmware_fixture::{Fixture, IDENTITY};
use layouts::*;

const PAGE: u64 = 4096;
/// The key for all memory, of one PD.
const VARIANT: u8 = 0x5a;
/// PSNs of connected queue pairs begin here, just before they wrap.
pub const FIRST_PSN: u32 = 0xff_fffe;
/// Q_Key of every datagram queue pair here.
pub const QKEY: u32 = 0x1111;

pub struct Bench {
    pub f: Fixture,
    pub engine: Engine,
    /// The first page that nobody uses.
    pub next_page: u64,
    pub uar: u32,
    pub completions: Eq,
    pub events: Eq,
    pub pd: u32,
    /// All of memory by address, for local use.
    pub lkey: u32,
}

/// An event queue as the driver sees it.
pub struct Eq {
    pub eqn: u32,
    ring: u64,
    log_size: u32,
    consumer: u32,
}

/// A completion queue as the driver sees it.
pub struct Cq {
    pub cqn: u32,
    pub ring: u64,
    pub record: u64,
    pub log_size: u32,
    pub stride: u64,
    pub consumer: u32,
}

/// A queue pair as the driver sees it.
pub struct Qp {
    pub qpn: u32,
    pub record: u64,
    pub receives: u64,
    pub sends: u64,
    log_receives: u32,
    log_sends: u32,
    /// Basic blocks posted.
    pub posted: u16,
    /// Receives posted.
    pub received: u16,
}

/// What a queue pair is made with.
pub struct QpOptions {
    pub service: QpType,
    pub send_cq: u32,
    pub receive_cq: u32,
    pub srqn: Option<u32>,
    pub log_sends: u32,
    pub log_receives: u32,
    pub user_index: u32,
    /// `cs_req` and `cs_res`.
    pub scatter_to_cqe: u8,
    /// XRC domain; one of its own if not given.
    pub xrcd: Option<u32>,
}

impl QpOptions {
    pub fn new(service: QpType, send_cq: u32, receive_cq: u32) -> Self {
        Self {
            service,
            send_cq,
            receive_cq,
            srqn: None,
            log_sends: 4,
            log_receives: 3,
            user_index: 0x77,
            scatter_to_cqe: 0,
            xrcd: None,
        }
    }
}

/// Bytes of a receive WQE, as a power of two: four data segments.
pub const LOG_RECEIVE: u32 = 6;

impl Bench {
    pub fn new() -> Self {
        let mut f = Fixture::ready();
        let uar = AllocUarOut(&f.ok(Opcode::ALLOC_UAR, 0, 0x10, 0x10, |_| {})).uar();
        let pd = AllocPdOut(&f.ok(Opcode::ALLOC_PD, 0, 0x10, 0x10, |_| {})).pd();
        let none = || Eq { eqn: 0, ring: 0, log_size: 0, consumer: 0 };
        let mut bench = Self {
            f,
            engine: Engine::new(),
            next_page: PAGE,
            uar,
            completions: none(),
            events: none(),
            pd,
            lkey: 0,
        };
        bench.completions = bench.eq(1, 0);
        let others = 1 << EventType::CMD.0 | 1 << EventType::PAGE_REQUEST.0;
        bench.events = bench.eq(2, !others);
        bench.lkey = bench.pa_key(pd);
        bench
    }

    /// Whole pages that nobody uses.
    pub fn pages(&mut self, bytes: u64) -> u64 {
        let at = self.next_page;
        self.next_page += bytes.next_multiple_of(PAGE);
        at
    }

    pub fn read<const N: usize>(&self, addr: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.f.memory.read(addr, &mut bytes).unwrap();
        bytes
    }

    pub fn write(&self, addr: u64, bytes: &[u8]) {
        self.f.memory.write(addr, bytes).unwrap();
    }

    /// Runs until nothing is left.
    pub fn run(&mut self) {
        let Self { f, engine, .. } = self;
        let mut turns = 0;
        while engine.run(&mut f.fw, (&f.memory, &f.probe), 4096) {
            turns += 1;
            assert!(turns < 10_000, "the engine does not come to an end");
        }
    }

    /// The time goes on.
    pub fn wait(&mut self, ns: u64) {
        self.f.fw.now += ns;
        self.run();
    }

    fn pas(input: &mut [u8], from: u64) {
        for (i, page) in input[0x110..].chunks_exact_mut(8).enumerate() {
            page.copy_from_slice(&(from + PAGE * i as u64).to_be_bytes());
        }
    }

    fn eq(&mut self, vector: u16, events: u64) -> Eq {
        let log_size = 8;
        let ring = self.pages(64 << log_size);
        let uar = self.uar;
        // A driver fills the ring with entries that are the device's.
        for i in 0..1 << log_size {
            self.write(ring + 64 * i + 63, &[1]);
        }
        let inlen = 0x110 + 8 * (64 << log_size) / PAGE as usize;
        let out = self.f.ok(Opcode::CREATE_EQ, 0, inlen, 0x10, |input| {
            Self::pas(input, ring);
            let mut input = CreateEqIn(input);
            input.set_event_bitmask(&[events, 0, 0, 0]);
            let mut eqc = input.eq_context_entry_mut();
            eqc.set_log_eq_size(log_size as u8);
            eqc.set_uar_page(uar);
            eqc.set_intr(vector);
        });
        let eqn = CreateEqOut(&out).eq_number().into();
        self.f.fw.eqs.doorbell((&self.f.memory, &self.f.probe), uar, eqn, 0, true);
        Eq { eqn, ring, log_size, consumer: 0 }
    }

    fn next_event(&self, eq: &Eq) -> Option<Eqe<[u8; 64]>> {
        let slot = u64::from(eq.consumer & ((1 << eq.log_size) - 1));
        let eqe = Eqe(self.read::<64>(eq.ring + 64 * slot));
        (u32::from(eqe.owner()) == eq.consumer >> eq.log_size & 1).then_some(eqe)
    }

    /// The numbers of the completion queues that told of completions, in order.
    pub fn completion_events(&mut self) -> Vec<u32> {
        let mut all = Vec::new();
        while let Some(eqe) = self.next_event(&self.completions) {
            assert_eq!(EventType(eqe.r#type()), EventType::COMP);
            all.push(eqe.comp().cqn());
            self.completions.consumer += 1;
        }
        let Eq { eqn, consumer, .. } = self.completions;
        let uar = self.uar;
        self.f.fw.eqs.doorbell((&self.f.memory, &self.f.probe), uar, eqn, consumer, true);
        all
    }

    /// Asynchronous events and the number that each names, in order.
    pub fn async_events(&mut self) -> Vec<(EventType, u32)> {
        let mut all = Vec::new();
        while let Some(eqe) = self.next_event(&self.events) {
            let event = EventType(eqe.r#type());
            let number = match event {
                EventType::CQ_ERROR => eqe.cq_err().cqn(),
                _ => eqe.qp_srq().qp_srq_n(),
            };
            all.push((event, number));
            self.events.consumer += 1;
        }
        all
    }

    /// The key for all of memory of a domain: mode PA, length 2^64.
    pub fn pa_key(&mut self, pd: u32) -> u32 {
        self.key(|mkc| {
            mkc.set_pd(pd);
            mkc.set_length64(true);
            mkc.set_lr(true);
            mkc.set_lw(true);
        })
    }

    /// A key; `fill` describes it.
    pub fn key(&mut self, fill: impl FnOnce(&mut Mkc<&mut [u8]>)) -> u32 {
        let out = self.f.ok(Opcode::CREATE_MKEY, 0, 0x110, 0x10, |input| {
            let mut input = CreateMkeyIn(input);
            let mut mkc = input.memory_key_mkey_entry_mut();
            mkc.set_qpn(0xff_ffff);
            mkc.set_mkey_7_0(VARIANT);
            fill(&mut mkc);
        });
        CreateMkeyOut(&out).mkey_index() << 8 | u32::from(VARIANT)
    }

    /// A completion queue of 64-byte entries.
    pub fn cq(&mut self, log_size: u32) -> Cq {
        self.cq_of(log_size, 64, |_| {})
    }

    pub fn cq_of(
        &mut self,
        log_size: u32,
        stride: u64,
        fill: impl FnOnce(&mut Cqc<&mut [u8]>),
    ) -> Cq {
        // One page more, for a buffer that does not begin with a page.
        let ring = self.pages((stride << log_size) + PAGE);
        let record = self.pages(8);
        for i in 0..1 << log_size {
            self.write(ring + stride * (i + 1) - 1, &[0xf1]);
        }
        let (uar, eqn) = (self.uar, self.completions.eqn);
        let pages = (stride << log_size).div_ceil(PAGE) as usize + 1;
        let out = self.f.ok(Opcode::CREATE_CQ, 0, 0x110 + 8 * pages, 0x10, |input| {
            Self::pas(input, ring);
            let mut input = CreateCqIn(input);
            let mut cqc = input.cq_context_mut();
            cqc.set_cqe_sz(u8::from(stride == 128));
            cqc.set_log_cq_size(log_size as u8);
            cqc.set_uar_page(uar);
            cqc.set_c_eqn_or_apu_element(eqn);
            cqc.set_dbr_addr(record);
            fill(&mut cqc);
        });
        Cq { cqn: CreateCqOut(&out).cqn(), ring, record, log_size, stride, consumer: 0 }
    }

    /// The next completion, if there is one.
    pub fn poll(&self, cq: &mut Cq) -> Option<Cqe64<[u8; 64]>> {
        let slot = u64::from(cq.consumer & ((1 << cq.log_size) - 1));
        let entry = Cqe64(self.read::<64>(cq.ring + cq.stride * (slot + 1) - 64));
        let ours = u32::from(entry.owner()) == cq.consumer >> cq.log_size & 1;
        if CqeOpcode(entry.opcode()) == CqeOpcode::INVALID || !ours {
            return None;
        }
        cq.consumer += 1;
        self.write(cq.record, &(cq.consumer & 0xff_ffff).to_be_bytes());
        Some(entry)
    }

    /// All completions that there are.
    pub fn drain(&self, cq: &mut Cq) -> Vec<Cqe64<[u8; 64]>> {
        std::iter::from_fn(|| self.poll(cq)).collect()
    }

    pub fn arm(&mut self, cq: &Cq, solicited: bool) {
        let mut words = [0; 8];
        let mut doorbell = CqDoorbell(&mut words[..]);
        doorbell.set_solicited(solicited);
        doorbell.set_ci(cq.consumer & 0xff_ffff);
        doorbell.set_cqn(cq.cqn);
        let uar = self.uar;
        let Self { f, engine, .. } = self;
        engine.cq_doorbell(&mut f.fw, (&f.memory, &f.probe), uar, words);
    }

    /// A queue pair in RST.
    pub fn qp(&mut self, options: &QpOptions) -> Qp {
        let &QpOptions { service, send_cq, receive_cq, srqn, log_sends, log_receives, .. } =
            options;
        let own = service != QpType::REG_UMR && service != QpType::XRC && srqn.is_none();
        let receive_bytes = if own { 1 << (log_receives + LOG_RECEIVE) } else { 0 };
        let bytes = receive_bytes + (64u64 << log_sends);
        let (buffer, record) = (self.pages(bytes), self.pages(8));
        let pages = bytes.div_ceil(PAGE) as usize;
        let (uar, pd) = (self.uar, self.pd);
        let xrcd = match options.xrcd {
            None if service == QpType::XRC => {
                let out = self.f.ok(Opcode::ALLOC_XRCD, 0, 0x10, 0x10, |_| {});
                Some(AllocXrcdOut(&out).xrcd())
            }
            given => given,
        };
        let out = self.f.ok(Opcode::CREATE_QP, 0, 0x110 + 8 * pages, 0x10, |input| {
            Self::pas(input, buffer);
            let mut input = CreateQpIn(input);
            let mut qpc = input.qpc_mut();
            qpc.set_st(service.0);
            qpc.set_pm_state(3);
            qpc.set_pd(if service == QpType::REG_UMR { 0 } else { pd });
            qpc.set_uar_page(uar);
            qpc.set_user_index(options.user_index);
            qpc.set_cs_req(options.scatter_to_cqe);
            qpc.set_cs_res(options.scatter_to_cqe);
            qpc.set_log_sq_size(log_sends as u8);
            qpc.set_cqn_snd(send_cq);
            qpc.set_cqn_rcv(receive_cq);
            qpc.set_dbr_addr(record);
            qpc.set_xrcd(xrcd.unwrap_or(0));
            if own {
                qpc.set_log_rq_size(log_receives as u8);
                qpc.set_log_rq_stride(LOG_RECEIVE as u8 - 4);
            } else if let Some(srqn) = srqn {
                qpc.set_rq_type(1);
                qpc.set_srqn_rmpn_xrqn(srqn);
            } else {
                qpc.set_rq_type(3);
            }
        });
        Qp {
            qpn: CreateQpOut(&out).qpn(),
            record,
            receives: buffer,
            sends: buffer + receive_bytes,
            log_receives,
            log_sends,
            posted: 0,
            received: 0,
        }
    }

    pub fn transition(
        &mut self,
        opcode: Opcode,
        qpn: u32,
        mask: u32,
        fill: impl FnOnce(&mut Qpc<&mut [u8]>),
    ) -> Status {
        let (status, _) = self.f.run(opcode, 0, 0x110, 0x10, |input| {
            let mut input = Rst2initQpIn(input);
            input.set_qpn(qpn);
            input.set_opt_param_mask(mask);
            fill(&mut input.qpc_mut());
        });
        status
    }

    pub fn state_command(&mut self, opcode: Opcode, qpn: u32) -> Status {
        self.f.run(opcode, 0, 0x10, 0x10, |input| Qp2errIn(input).set_qpn(qpn)).0
    }

    /// RST to RTS.
    pub fn bring_up(&mut self, qpn: u32) {
        let pd = self.pd;
        let status = self.transition(Opcode::RST2INIT_QP, qpn, 0, |qpc| {
            qpc.set_pd(pd);
            qpc.set_pm_state(3);
            qpc.set_q_key(QKEY);
            qpc.primary_address_path_mut().set_vhca_port_num(1);
        });
        assert_eq!(status, Status::OK);
        let status = self.transition(Opcode::INIT2RTR_QP, qpn, 0, |qpc| {
            qpc.set_mtu(5);
            qpc.set_log_msg_max(12);
        });
        assert_eq!(status, Status::OK);
        assert_eq!(self.transition(Opcode::RTR2RTS_QP, qpn, 0, |_| {}), Status::OK);
    }

    /// RST to RTS, as the peer of `peer`: everything is permitted to it.
    pub fn connect(&mut self, qpn: u32, peer: u32, fill: impl Fn(&mut Qpc<&mut [u8]>)) {
        let pd = self.pd;
        let steps = [Opcode::RST2INIT_QP, Opcode::INIT2RTR_QP, Opcode::RTR2RTS_QP].map(|opcode| {
            self.transition(opcode, qpn, 0, |qpc| {
                qpc.set_pd(pd);
                qpc.set_pm_state(3);
                qpc.set_rre(true);
                qpc.set_rwe(true);
                qpc.set_rae(true);
                qpc.set_mtu(1);
                qpc.set_log_msg_max(30);
                qpc.set_log_rra_max(2);
                qpc.set_log_sra_max(2);
                qpc.set_remote_qpn(peer);
                qpc.set_next_send_psn(FIRST_PSN);
                qpc.set_next_rcv_psn(FIRST_PSN);
                qpc.set_retry_count(2);
                qpc.set_rnr_retry(2);
                qpc.set_min_rnr_nak(1);
                let mut path = qpc.primary_address_path_mut();
                path.set_vhca_port_num(1);
                path.set_rlid(IDENTITY.lid);
                path.set_ack_timeout(1);
                fill(qpc);
            })
        });
        assert_eq!(steps, [Status::OK; 3]);
    }

    /// The key for all of memory that a peer may use too.
    pub fn open_key(&mut self, pd: u32) -> u32 {
        self.key(|mkc| {
            mkc.set_pd(pd);
            mkc.set_length64(true);
            for set in [Mkc::set_lr, Mkc::set_lw, Mkc::set_rr, Mkc::set_rw, Mkc::set_a] {
                set(mkc, true);
            }
        })
    }

    /// A queue pair in RTS.
    pub fn ready_qp(&mut self, options: &QpOptions) -> Qp {
        let qp = self.qp(options);
        self.bring_up(qp.qpn);
        qp
    }

    pub fn query_qp(&mut self, qpn: u32) -> Vec<u8> {
        self.f.ok(Opcode::QUERY_QP, 0, 0x10, 0x110, |input| QueryQpIn(input).set_qpn(qpn))
    }

    pub fn state(&mut self, qpn: u32) -> QpState {
        QpState(QueryQpOut(&self.query_qp(qpn)).qpc().state())
    }

    /// Writes a WQE to the send ring, its control segment completed, and tells the record.
    pub fn post(&self, qp: &mut Qp, opcode: WqeOpcode, wqe: &[u8]) {
        let mut wqe = wqe.to_vec();
        let ds = wqe.len().div_ceil(16) as u8;
        let mut ctrl = WqeCtrlSeg(&mut wqe[..16]);
        ctrl.set_wqe_index(qp.posted);
        ctrl.set_opcode(opcode.0);
        ctrl.set_qpn(qp.qpn);
        ctrl.set_ds(ds);
        let blocks = wqe.len().div_ceil(64);
        wqe.resize(blocks * 64, 0);
        for (i, block) in wqe.chunks_exact(64).enumerate() {
            let slot = u64::from(qp.posted.wrapping_add(i as u16) & ((1 << qp.log_sends) - 1));
            self.write(qp.sends + 64 * slot, block);
        }
        qp.posted = qp.posted.wrapping_add(blocks as u16);
        self.write(qp.record + 4, &u32::from(qp.posted).to_be_bytes());
    }

    /// A WQE of nothing but a control segment.
    pub fn ctrl(signalled: bool) -> Vec<u8> {
        let mut wqe = vec![0; 16];
        WqeCtrlSeg(&mut wqe).set_ce(if signalled { 2 } else { 0 });
        wqe
    }

    pub fn ring(&mut self, qp: &Qp) {
        let mut words = [0; 8];
        let mut ctrl = WqeCtrlSeg(&mut words[..]);
        ctrl.set_qpn(qp.qpn);
        ctrl.set_wqe_index(qp.posted.wrapping_sub(1));
        let uar = self.uar;
        let Self { f, engine, .. } = self;
        engine.sq_doorbell(&mut f.fw, (&f.memory, &f.probe), uar, words);
    }

    /// Posts NOPs, rings and runs.
    pub fn nops(&mut self, qp: &mut Qp, count: usize) {
        for _ in 0..count {
            self.post(qp, WqeOpcode::NOP, &Self::ctrl(true));
        }
        self.ring(qp);
        self.run();
    }

    /// Posts a receive of these ranges.
    pub fn post_receive(&self, qp: &mut Qp, ranges: &[(u64, u32)]) {
        let slot = u64::from(qp.received & ((1 << qp.log_receives) - 1));
        let wqe = scatter_list(ranges, self.lkey, 1 << LOG_RECEIVE);
        self.write(qp.receives + (slot << LOG_RECEIVE), &wqe);
        qp.received = qp.received.wrapping_add(1);
        self.write(qp.record, &u32::from(qp.received).to_be_bytes());
    }

    pub fn destroy_qp(&mut self, qpn: u32) -> Status {
        self.f.run(Opcode::DESTROY_QP, 0, 0x10, 0x10, |i| DestroyQpIn(i).set_qpn(qpn)).0
    }

    pub fn destroy_cq(&mut self, cqn: u32) -> Status {
        self.f.run(Opcode::DESTROY_CQ, 0, 0x10, 0x10, |i| DestroyCqIn(i).set_cqn(cqn)).0
    }
}

/// A list of data segments with its terminator, as long as `len`.
pub fn scatter_list(ranges: &[(u64, u32)], lkey: u32, len: usize) -> Vec<u8> {
    let mut wqe = vec![0; len];
    let terminator = (0, 0, 0x100);
    let all = ranges.iter().map(|&(addr, bytes)| (addr, bytes, lkey)).chain([terminator]);
    for (segment, (addr, bytes, key)) in wqe.chunks_exact_mut(16).zip(all) {
        let mut segment = WqeDataSeg(segment);
        segment.set_byte_count(bytes);
        segment.set_lkey(key);
        segment.set_addr(addr);
    }
    wqe
}

/// What a completion in error says: syndrome and vendor byte.
pub fn failure(entry: &Cqe64<[u8; 64]>) -> (CqeSyndrome, u8) {
    let error = ErrCqe(&entry.0[..]);
    (CqeSyndrome(error.syndrome()), error.vendor_err_synd())
}

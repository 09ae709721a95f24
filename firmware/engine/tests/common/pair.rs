//! Two connected queue pairs, and WQEs for them.

use layouts::*;

use super::{Bench, Cq, Qp, QpOptions};

pub struct Pair {
    pub bench: Bench,
    /// The requester.
    pub a: Qp,
    pub a_cq: Cq,
    /// The responder.
    pub b: Qp,
    pub b_cq: Cq,
    /// All of memory, for the peer too.
    pub rkey: u32,
    /// 64 KiB each.
    pub from: u64,
    pub to: u64,
}

impl Pair {
    pub fn new(service: QpType) -> Self {
        Self::with(service, |_| {})
    }

    pub fn with(service: QpType, fill: impl Fn(&mut Qpc<&mut [u8]>)) -> Self {
        Self::prepared(service, |_| {}, fill)
    }

    /// With `prepare` before the queue pairs are made.
    pub fn prepared(
        service: QpType,
        prepare: impl FnOnce(&mut Bench),
        fill: impl Fn(&mut Qpc<&mut [u8]>),
    ) -> Self {
        Self::sized(service, (4, 5), prepare, fill)
    }

    /// With queues of these sizes, as powers of two: sends, completions.
    pub fn sized(
        service: QpType,
        (log_sends, log_completions): (u32, u32),
        prepare: impl FnOnce(&mut Bench),
        fill: impl Fn(&mut Qpc<&mut [u8]>),
    ) -> Self {
        let mut bench = Bench::new();
        prepare(&mut bench);
        let (a_cq, b_cq) = (bench.cq(log_completions), bench.cq(log_completions));
        let qp = |cq: &Cq| QpOptions { log_sends, ..QpOptions::new(service, cq.cqn, cq.cqn) };
        let (a, b) = (bench.qp(&qp(&a_cq)), bench.qp(&qp(&b_cq)));
        bench.connect(a.qpn, b.qpn, &fill);
        bench.connect(b.qpn, a.qpn, &fill);
        let pd = bench.pd;
        let rkey = bench.open_key(pd);
        let (from, to) = (bench.pages(64 << 10), bench.pages(64 << 10));
        let pattern: Vec<u8> = (0..64u32 << 10).map(|i| (i * 7 + i / 251) as u8).collect();
        bench.write(from, &pattern);
        Self { bench, a, a_cq, b, b_cq, rkey, from, to }
    }

    /// Bytes of memory.
    pub fn bytes(&self, addr: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        dma::Dma::read(&self.bench.f.memory, addr, &mut bytes).unwrap();
        bytes
    }

    pub fn post(&mut self, opcode: WqeOpcode, wqe: &[u8]) {
        self.bench.post(&mut self.a, opcode, wqe);
    }

    pub fn go(&mut self) {
        self.bench.ring(&self.a);
        self.bench.run();
    }

    /// Rings, and lets time go on until nothing is waited for.
    pub fn go_on(&mut self) {
        self.go();
        for _ in 0..10_000 {
            let Some(at) = self.bench.engine.deadline(&self.bench.f.fw) else { return };
            // Queue pairs in error are looked at again and again.
            if at > self.bench.f.fw.now + 700_000_000 {
                return;
            }
            self.bench.wait(at.saturating_sub(self.bench.f.fw.now));
        }
    }

    pub fn drain_a(&mut self) -> Vec<Cqe64<[u8; 64]>> {
        self.bench.drain(&mut self.a_cq)
    }

    pub fn drain_b(&mut self) -> Vec<Cqe64<[u8; 64]>> {
        self.bench.drain(&mut self.b_cq)
    }
}

/// A WQE of a control segment and these segments.
pub fn wqe(segments: &[&[u8]]) -> Vec<u8> {
    let mut wqe = Bench::ctrl(true);
    for segment in segments {
        wqe.extend_from_slice(segment);
    }
    wqe
}

/// A segment that names the peer's memory.
pub fn remote(addr: u64, key: u32) -> Vec<u8> {
    let mut segment = vec![0; 16];
    let mut raddr = WqeRaddrSeg(&mut segment);
    raddr.set_raddr(addr);
    raddr.set_rkey(key);
    segment
}

/// A segment that names own memory.
pub fn local(addr: u64, key: u32, len: u32) -> Vec<u8> {
    let mut segment = vec![0; 16];
    let mut data = WqeDataSeg(&mut segment);
    data.set_byte_count(len);
    data.set_lkey(key);
    data.set_addr(addr);
    segment
}

/// A segment that holds data.
pub fn inline(data: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; (4 + data.len()).next_multiple_of(16)];
    segment[4..4 + data.len()].copy_from_slice(data);
    let mut head = WqeInlineSeg(&mut segment);
    head.set_inline(true);
    head.set_byte_count(data.len() as u16);
    segment
}

/// Operands of an atomic operation.
pub fn operands(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

//! How fast data moves between queue pairs, in process: medians of many rounds, beside copying the
//! same bytes. What a driver does (posting, polling) is not in the time of a round.
#![allow(missing_docs)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use common::pair::{Pair, local, remote, wqe};
use common::{Bench, QpOptions};
use dma::Dma;
use layouts::*;

const ROUNDS: usize = 400;
/// Work requests that one doorbell announces.
const BATCH: usize = 64;
/// 4096 bytes a packet.
const MTU: u8 = 5;

fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples[samples.len() / 2]
}

fn main() {
    // `cargo test --benches` only asks whether it runs.
    let full = std::env::args().any(|arg| arg == "--bench");
    let rounds = if full { ROUNDS } else { 2 };
    let few = small(rounds, 10);
    println!("RDMA write of 64 bytes: {:.3} million per second", 1e-6 / few.as_secs_f64());
    // `ci/hooks` asks for these again and again, and for nothing else.
    if std::env::args().any(|arg| arg == "small") {
        return;
    }
    let many = if full { 100_000 } else { 20 };
    let crowded = small(rounds, many);
    println!(
        "the same beside {many} queue pairs, completion queues and keys: {:.2} times the cost",
        crowded.as_secs_f64() / few.as_secs_f64()
    );
    for len in [64 << 10, 1 << 20] {
        let (copying, writing) = large(rounds, len);
        println!(
            "RDMA write of {len} bytes: {writing:?}, copying them: {copying:?}, {:.2} of its speed",
            copying.as_secs_f64() / writing.as_secs_f64()
        );
    }
}

fn pair(crowd: usize) -> Pair {
    let mut pair = Pair::sized(QpType::RC, (8, 8), |_| {}, |qpc| qpc.set_mtu(MTU));
    let bench = &mut pair.bench;
    for _ in 10..crowd {
        // Their buffers are never used: all have the same.
        let at = bench.next_page;
        let cq = bench.cq(0);
        bench.qp(&QpOptions::new(QpType::RC, cq.cqn, cq.cqn));
        let pd = bench.pd;
        bench.open_key(pd);
        bench.next_page = at;
    }
    pair
}

/// Copying `len` bytes, and writing them, in turns.
fn large(rounds: usize, len: u32) -> (Duration, Duration) {
    let mut pair = pair(0);
    let (from, to) = (pair.bench.pages(len.into()), pair.bench.pages(len.into()));
    let write = wqe(&[&remote(to, pair.rkey), &local(from, pair.bench.lkey, len)]);
    let (mut copying, mut writing) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = Instant::now();
        pair.bench.f.memory.copy(from, to, len.into()).expect("memory");
        copying.push(start.elapsed());
        pair.post(WqeOpcode::RDMA_WRITE, &write);
        writing.push(timed(&mut pair));
        assert_eq!(pair.drain_a().len(), 1);
    }
    (median(copying), median(writing))
}

/// One of many 64-byte writes, each with its completion, beside a crowd of other objects.
fn small(rounds: usize, crowd: usize) -> Duration {
    let mut pair = pair(crowd);
    let write = wqe(&[&remote(pair.to, pair.rkey), &local(pair.from, pair.bench.lkey, 64)]);
    let samples = (0..rounds * 10).map(|_| {
        for _ in 0..BATCH {
            pair.post(WqeOpcode::RDMA_WRITE, &write);
        }
        let time = timed(&mut pair) / BATCH as u32;
        assert_eq!(pair.drain_a().len(), BATCH);
        time
    });
    median(samples.collect())
}

/// From the doorbell until nothing is left to do.
fn timed(pair: &mut Pair) -> Duration {
    let start = Instant::now();
    pair.bench.ring(&pair.a);
    let Bench { f, engine, .. } = &mut pair.bench;
    while engine.run(&mut f.fw, (&f.memory, &f.probe), 4 << 20) {}
    start.elapsed()
}

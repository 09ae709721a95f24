//! What traces and fault rules cost: 64-byte writes between two queue pairs, in process, with nobody
//! who wants to know, with a trace that is off, at each level, and with rules that never apply. All
//! take turns, so that the machine's mood is the same for all.
#![allow(missing_docs)]

#[path = "../../firmware/engine/tests/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use common::Bench;
use common::pair::{Pair, local, remote, wqe};
use device::tracer::{TraceOptions, Tracer};
use faults::Faults;
use layouts::*;
use tempfile::TempDir;
use trace::{Level, Settings};

const ROUNDS: usize = 4000;
/// Work requests that one doorbell announces.
const BATCH: usize = 64;

/// Two queue pairs, and who is told what they do.
struct Contender {
    name: String,
    pair: Pair,
    write: Vec<u8>,
    tracer: Option<Tracer>,
    samples: Vec<Duration>,
}

/// A rule for another queue pair, at the points that a write passes.
const RULES: &str = r#"
[[fault]]
name = "another's work request"
at = "work_request"
where = { qpn = 0xffffff }
do = { fail = "LOCAL_PROT_ERR" }

[[fault]]
name = "another's completion"
at = "completion"
where = { cqn = 0xffffff }
do = "lose"
"#;

/// A rule at a point that no write passes.
const ELSEWHERE: &str = r#"
[[fault]]
name = "no destroy"
at = "command"
where = { opcode = "DESTROY_*" }
do = { status = "RES_BUSY" }
"#;

impl Contender {
    fn new(name: &str) -> Self {
        let pair = Pair::sized(QpType::RC, (8, 8), |_| {}, |qpc| qpc.set_mtu(5));
        let write = wqe(&[&remote(pair.to, pair.rkey), &local(pair.from, pair.bench.lkey, 64)]);
        Self { name: name.into(), pair, write, tracer: None, samples: Vec::new() }
    }

    fn traced(dir: &TempDir, level: Level) -> Self {
        let mut this = Self::new(&format!("level {level}"));
        let file = dir.path().join(level.name());
        let options = TraceOptions { file, settings: Settings { level, filter: None } };
        let probe = &this.pair.bench.f.probe;
        let tracer = Tracer::start(options, "bench", Instant::now(), probe).expect("a trace");
        this.tracer = Some(tracer);
        this
    }

    fn faulty(name: &str, rules: &str) -> Self {
        let this = Self::new(name);
        let faults = Faults::new(&faults::parse(rules).expect("rules")).expect("rules");
        let probe = &this.pair.bench.f.probe;
        if let Some(points) = faults.changed() {
            probe.ask_at(points);
        }
        probe.install_judge(Box::new(faults));
        this
    }

    fn round(&mut self) {
        for _ in 0..BATCH {
            self.pair.post(WqeOpcode::RDMA_WRITE, &self.write);
        }
        let start = Instant::now();
        self.pair.bench.ring(&self.pair.a);
        let Bench { f, engine, .. } = &mut self.pair.bench;
        while engine.run(&mut f.fw, (&f.memory, &f.probe), 4 << 20) {}
        self.samples.push(start.elapsed() / BATCH as u32);
        assert_eq!(self.pair.drain_a().len(), BATCH);
    }

    fn median(&mut self) -> Duration {
        self.samples.sort_unstable();
        self.samples[self.samples.len() / 2]
    }
}

fn main() {
    // `cargo test --benches` only asks whether it runs.
    let rounds = if std::env::args().any(|arg| arg == "--bench") { ROUNDS } else { 2 };
    let dir = TempDir::new().expect("a directory");
    let mut all = vec![Contender::new("no trace"), Contender::faulty("no rule", "")];
    all.push(Contender::faulty("a rule at another point", ELSEWHERE));
    all.push(Contender::faulty("two rules that never apply", RULES));
    all.extend(Level::ALL.map(|level| Contender::traced(&dir, level)));
    for _ in 0..rounds {
        all.iter_mut().for_each(Contender::round);
    }
    let base = all[0].median();
    for contender in &mut all {
        let (median, name) = (contender.median(), &contender.name);
        let ratio = median.as_secs_f64() / base.as_secs_f64();
        let told = contender.tracer.as_ref().map(Tracer::status);
        let told = told.map_or(String::new(), |status| {
            format!(", {} events, {} dropped", status.events, status.dropped)
        });
        println!("{name}: a write of 64 bytes takes {median:?}, {ratio:.2} times{told}");
    }
}

//! Work requests, rings, records and doorbells of any content: the engine answers, ends, and lets
//! everything be destroyed.

mod common;

use common::{Bench, Cq, LOG_RECEIVE, Qp, QpOptions};
use engine::packet::Header;
use engine::wire::{Cable, Fate};
use layouts::*;
use proptest::prelude::*;

/// Opcodes that the engine knows, and any other.
fn opcode() -> impl Strategy<Value = u8> {
    let known: Vec<u8> = WqeOpcode::NAMES.iter().map(|(opcode, _)| opcode.0).collect();
    prop_oneof![4 => prop::sample::select(known), 1 => any::<u8>()]
}

/// A word of a WQE: something that means something, or anything.
fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        2 => Just(0),
        2 => 0u32..0x200,
        1 => Just(0x100),
        1 => prop::sample::select(vec![0x8000_0010, 0x8000_03ff, 0x8000_0000, 0xffff_ffff]),
        // Near the keys, queue pairs and pages that exist.
        2 => 0x1000u32..0x2000,
        // Keys that do, and lengths that fit.
        2 => (0u32..8).prop_map(|n| (0x10 + n) << 8 | 0x5a),
        1 => 0u32..0x4000,
        1 => any::<u32>(),
    ]
}

#[derive(Debug, Clone)]
enum Act {
    /// Posts a WQE: opcode, its size in 16 bytes as it says, words after the control segment.
    Post {
        opcode: u8,
        ds: u8,
        ce: u8,
        words: Vec<u32>,
    },
    /// Posts a receive of these words.
    Receive(Vec<u32>),
    /// Overwrites a word somewhere in the pages of the queues, their records and buffers.
    Poke(u32, u32),
    /// Any doorbell, or that of the queue pair.
    Ring(Option<[u8; 8]>),
    /// Any completion queue doorbell, or that of the queue.
    Arm(Option<[u8; 8]>),
    /// The state commands.
    ToError,
    Reset,
    BackToRts,
    /// Time goes on.
    Wait(u32),
    Run,
}

fn act() -> impl Strategy<Value = Act> {
    let words = || prop::collection::vec(word(), 0..40);
    prop_oneof![
        8 => (opcode(), prop_oneof![4 => 1u8..10, 1 => 0u8..64], 0u8..4, words())
            .prop_map(|(opcode, ds, ce, words)| Act::Post { opcode, ds, ce, words }),
        3 => words().prop_map(Act::Receive),
        2 => (any::<u32>(), word()).prop_map(|(at, word)| Act::Poke(at, word)),
        4 => prop_oneof![4 => Just(None), 1 => any::<[u8; 8]>().prop_map(Some)].prop_map(Act::Ring),
        2 => prop_oneof![4 => Just(None), 1 => any::<[u8; 8]>().prop_map(Some)].prop_map(Act::Arm),
        1 => Just(Act::ToError),
        1 => Just(Act::Reset),
        2 => Just(Act::BackToRts),
        1 => any::<u32>().prop_map(Act::Wait),
        4 => Just(Act::Run),
    ]
}

struct World {
    bench: Bench,
    cq: Cq,
    qp: Qp,
    service: QpType,
}

/// A cable that does to packets what a list says, and then nothing any more.
struct Script(std::vec::IntoIter<Fate>);

impl Cable for Script {
    fn fate(&mut self, _: &Header, _: u64) -> Fate {
        self.0.next().unwrap_or(Fate::Arrives)
    }
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => Just(Fate::Arrives),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Twice),
        1 => any::<u32>().prop_map(|ns| Fate::Late(ns.into())),
    ]
}

impl World {
    fn new(service: QpType) -> Self {
        let mut bench = Bench::new();
        let pd = bench.pd;
        // Keys of all modes, to be hit by chance.
        for mode in 0..4 {
            bench.key(|mkc| {
                mkc.set_pd(pd);
                mkc.set_umr_en(true);
                mkc.set_access_mode_1_0(mode);
                mkc.set_log_page_size(12);
                mkc.set_len(0x4000);
                mkc.set_translations_octword_size(16);
                for set in [Mkc::set_lr, Mkc::set_lw, Mkc::set_rr, Mkc::set_rw, Mkc::set_a] {
                    set(mkc, true);
                }
            });
        }
        bench.open_key(pd);
        let cq = bench.cq(4);
        let qp = bench.qp(&QpOptions::new(service, cq.cqn, cq.cqn));
        let mut world = Self { bench, cq, qp, service };
        world.bring_up();
        world
    }

    /// To RTS; what has a peer is its own.
    fn bring_up(&mut self) {
        let qpn = self.qp.qpn;
        match self.service {
            QpType::RC | QpType::UC | QpType::XRC => self.bench.connect(qpn, qpn, |_| {}),
            _ => self.bench.bring_up(qpn),
        }
    }

    fn act(&mut self, act: &Act) {
        if let Act::BackToRts = act
            && self.bench.state(self.qp.qpn) == QpState::RST
        {
            self.bring_up();
        }
        let Self { bench, cq, qp, .. } = self;
        match act {
            Act::Post { opcode, ds, ce, words } => {
                let mut wqe = vec![0; 16];
                wqe.extend(words.iter().flat_map(|word| word.to_be_bytes()));
                WqeCtrlSeg(&mut wqe[..]).set_ce(*ce);
                if let Some(word) = words.first() {
                    WqeCtrlSeg(&mut wqe[..]).set_umr_mkey(*word);
                }
                let slot = u64::from(qp.posted & 15);
                bench.post(qp, WqeOpcode(*opcode), &wqe);
                let mut ctrl: [u8; 16] = bench.read(qp.sends + 64 * slot);
                WqeCtrlSeg(&mut ctrl[..]).set_ds(*ds & 0x3f);
                bench.write(qp.sends + 64 * slot, &ctrl);
            }
            Act::Receive(words) => {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
                let slot = u64::from(qp.received & 7);
                bench.post_receive(qp, &[]);
                let len = bytes.len().min(1 << LOG_RECEIVE);
                bench.write(qp.receives + (slot << LOG_RECEIVE), &bytes[..len]);
            }
            Act::Poke(at, word) => {
                let at = u64::from(*at) % (0x10_0000 / 4) * 4;
                // Not the event queues' rings: the bench reads them.
                if at > 0x9000 {
                    bench.write(at, &word.to_be_bytes());
                }
            }
            Act::Ring(None) => bench.ring(qp),
            Act::Ring(Some(words)) => {
                let uar = bench.uar;
                let Bench { f, engine, .. } = bench;
                engine.sq_doorbell(&mut f.fw, (&f.memory, &f.probe), uar, *words);
            }
            Act::Arm(None) => bench.arm(cq, false),
            Act::Arm(Some(words)) => {
                let uar = bench.uar;
                let Bench { f, engine, .. } = bench;
                engine.cq_doorbell(&mut f.fw, (&f.memory, &f.probe), uar, *words);
            }
            Act::ToError => {
                bench.state_command(Opcode::TOERR_QP, qp.qpn);
            }
            Act::Reset => {
                bench.state_command(Opcode::TORST_QP, qp.qpn);
                (qp.posted, qp.received) = (0, 0);
                bench.write(qp.record, &[0; 8]);
            }
            Act::BackToRts => {
                if bench.state(qp.qpn) == QpState::SQER {
                    bench.transition(Opcode::SQERR2RTS_QP, qp.qpn, 0, |_| {});
                }
            }
            Act::Wait(ns) => bench.wait((*ns).into()),
            Act::Run => {
                bench.run();
                bench.drain(cq);
            }
        }
    }

    /// Everything can be destroyed, and nothing is left to be done.
    fn end(mut self) {
        self.bench.run();
        let Self { mut bench, cq, qp, .. } = self;
        assert_eq!(bench.destroy_qp(qp.qpn), Status::OK);
        assert_eq!(bench.destroy_cq(cq.cqn), Status::OK);
        bench.wait(10_000_000_000);
        assert_eq!(bench.engine.deadline(&bench.f.fw), None);
        let counts = bench.f.fw.object_counts();
        let left = |kind| counts.iter().find(|(of, _)| *of == kind).unwrap().1;
        assert_eq!((left("qp"), left("cq")), (0, 0));
    }
}

fn services() -> impl Strategy<Value = QpType> {
    prop::sample::select(vec![
        QpType::RC,
        QpType::UC,
        QpType::UD,
        QpType::XRC,
        QpType::QP0,
        QpType::QP1,
        QpType::REG_UMR,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn anything_in_the_queues(
        service in services(),
        acts in prop::collection::vec(act(), 1..60),
        fates in prop::option::of(prop::collection::vec(fate(), 0..60)),
    ) {
        let mut world = World::new(service);
        if let Some(fates) = fates {
            world.bench.engine.set_cable(Some(Box::new(Script(fates.into_iter()))));
        }
        for act in &acts {
            world.act(act);
        }
        world.end();
    }

    /// Whatever a WQE says, one completion at most comes of it, and it is its own.
    #[test]
    fn one_completion_a_work_request(
        service in services(),
        opcode in opcode(),
        ce in 0u8..4,
        words in prop::collection::vec(word(), 0..28),
    ) {
        let mut world = World::new(service);
        let ds = 1 + words.len().div_ceil(4) as u8;
        world.act(&Act::Post { opcode, ds, ce, words });
        world.act(&Act::Ring(None));
        world.bench.run();
        let seen = world.bench.drain(&mut world.cq);
        let own: Vec<_> = seen
            .iter()
            .filter(|e| matches!(CqeOpcode(e.opcode()), CqeOpcode::REQ | CqeOpcode::REQ_ERR))
            .collect();
        prop_assert!(own.len() <= 1);
        for entry in own {
            prop_assert_eq!(entry.wqe_counter(), 0);
            prop_assert_eq!(entry.qpn(), world.qp.qpn);
            let good = CqeOpcode(entry.opcode()) == CqeOpcode::REQ;
            let state = world.bench.state(world.qp.qpn);
            prop_assert_eq!(good, state == QpState::RTS);
            prop_assert!(!good || ce >= 2);
        }
        world.end();
    }
}

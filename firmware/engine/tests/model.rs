//! What moves between two connected queue pairs is what a simple model says: a table from a key's
//! addresses to bytes of memory, with rights, looked at byte by byte. After every operation all of
//! the memory is compared.

mod common;

use common::pair::{Pair, local, operands, remote, wqe};
use common::regions::{destroy, key_with, region, run};
use layouts::*;
use mtt::Access;
use proptest::prelude::*;

const PAGES: usize = 12;
const PAGE: u64 = 4096;

#[derive(Debug, Clone)]
enum Back {
    /// Pages of the memory.
    Pages(Vec<usize>),
    /// Another key's address space, from here on.
    Key(usize, u64),
}

#[derive(Debug, Clone)]
struct Region {
    start: u64,
    len: u64,
    /// In the order of [`Access::ALL`].
    rights: [bool; 5],
    back: Back,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Send,
    Write,
    Read,
    FetchAdd,
}

/// A place that an operation names: which key, and where in it or near it.
#[derive(Debug, Clone, Copy)]
struct Place {
    key: prop::sample::Index,
    at: u64,
}

#[derive(Debug, Clone)]
enum Act {
    Move { kind: Kind, own: Place, peer: Place, len: u32, add: u64 },
    Destroy(prop::sample::Index),
}

fn rights() -> impl Strategy<Value = [bool; 5]> {
    prop::array::uniform5(prop::bool::weighted(0.85))
}

/// A region of pages, in any order, beginning anywhere in the first and ending anywhere.
fn pages() -> impl Strategy<Value = Region> {
    let all: Vec<usize> = (0..PAGES).collect();
    let some = prop::sample::subsequence(all, 1..5).prop_shuffle();
    (some, 0u64..1 << 40, any::<u64>(), rights()).prop_map(|(pages, start, cut, rights)| {
        let room = pages.len() as u64 * PAGE - start % PAGE;
        Region { start, len: room - cut % room.min(PAGE), rights, back: Back::Pages(pages) }
    })
}

/// Regions, and windows over them at addresses of their own.
fn regions() -> impl Strategy<Value = Vec<Region>> {
    let window = (any::<prop::sample::Index>(), 0u64..1 << 40, any::<[u64; 2]>(), rights());
    let windows = prop::collection::vec(window, 0..4);
    (prop::collection::vec(pages(), 1..5), windows).prop_map(|(mut regions, windows)| {
        let direct = regions.len();
        for (under, start, [at, len], rights) in windows {
            let under = under.index(direct);
            let below = &regions[under];
            let at = at % below.len;
            let behind = below.start + at;
            // Words are where they are on both sides, or not.
            let start = if len % 2 == 0 { start & !7 | behind & 7 } else { start };
            let (len, back) = (1 + len / 2 % (below.len - at), Back::Key(under, behind));
            regions.push(Region { start, len, rights, back });
        }
        regions
    })
}

fn act() -> impl Strategy<Value = Act> {
    let place =
        || (any::<prop::sample::Index>(), any::<u64>()).prop_map(|(key, at)| Place { key, at });
    let kind = prop::sample::select(vec![Kind::Send, Kind::Write, Kind::Read, Kind::FetchAdd]);
    let len = prop_oneof![1 => Just(0u32), 4 => 1..257u32, 4 => 257..3000u32];
    let moves = (kind, place(), place(), len, any::<u64>());
    prop_oneof![
        15 => moves.prop_map(|(kind, own, peer, len, add)| Act::Move { kind, own, peer, len, add }),
        1 => any::<prop::sample::Index>().prop_map(Act::Destroy),
    ]
}

/// The memory, and the keys that lead to it.
struct Model {
    memory: Vec<u8>,
    regions: Vec<Region>,
    alive: Vec<bool>,
}

impl Model {
    /// The bytes that an access reaches, if it may.
    fn reached(&self, key: usize, addr: u64, len: u64, access: &[Access]) -> Option<Vec<usize>> {
        let region = &self.regions[key];
        let may = |access: &Access| {
            region.rights[Access::ALL.iter().position(|one| one == access).unwrap()]
        };
        let from = addr.checked_sub(region.start)?;
        if !self.alive[key] || !access.iter().all(may) || from + len > region.len {
            return None;
        }
        match &region.back {
            Back::Pages(pages) => {
                let first = from + region.start % PAGE;
                let byte = |at: u64| pages[(at / PAGE) as usize] * PAGE as usize;
                Some((first..first + len).map(|at| byte(at) + (at % PAGE) as usize).collect())
            }
            Back::Key(under, at) => {
                // What lies behind is reached with local rights.
                let behind: &[Access] = match access {
                    [Access::LocalRead | Access::RemoteRead] => &[Access::LocalRead],
                    [Access::LocalWrite | Access::RemoteWrite] => &[Access::LocalWrite],
                    _ => &[Access::LocalRead, Access::LocalWrite],
                };
                self.reached(*under, at + from, len, behind)
            }
        }
    }

    fn copy(&mut self, from: &[usize], to: &[usize]) {
        for (&from, &to) in from.iter().zip(to) {
            self.memory[to] = self.memory[from];
        }
    }

    /// Adds, and returns what was.
    fn add(&mut self, to: &[usize], add: u64) -> u64 {
        let mut bytes = [0; 8];
        for (byte, &at) in bytes.iter_mut().zip(to) {
            *byte = self.memory[at];
        }
        let was = u64::from_le_bytes(bytes);
        self.put(to, was.wrapping_add(add).to_le_bytes());
        was
    }

    fn put(&mut self, to: &[usize], bytes: [u8; 8]) {
        for (&at, byte) in to.iter().zip(bytes) {
            self.memory[at] = byte;
        }
    }
}

struct World {
    pair: Pair,
    arena: u64,
    keys: Vec<u32>,
    model: Model,
}

impl World {
    fn new(regions: &[Region]) -> Self {
        let mut pair = Pair::new(QpType::RC);
        let arena = pair.bench.pages(PAGE * PAGES as u64);
        let memory: Vec<u8> =
            (0..PAGES * PAGE as usize).map(|i| (i * 13 + i / 241) as u8).collect();
        pair.bench.write(arena, &memory);
        let mut keys = Vec::new();
        for region_of in regions {
            let &Region { start, len, rights, .. } = region_of;
            let fill = |mkc: &mut Mkc<&mut [u8]>| {
                let set = [Mkc::set_lr, Mkc::set_lw, Mkc::set_rr, Mkc::set_rw, Mkc::set_a];
                for (set, right) in set.into_iter().zip(rights) {
                    set(mkc, right);
                }
            };
            let pd = pair.bench.pd;
            keys.push(match &region_of.back {
                Back::Pages(pages) => {
                    let pages: Vec<u64> = pages.iter().map(|&n| arena + PAGE * n as u64).collect();
                    region(&mut pair.bench, pd, start, len, &pages, &fill)
                }
                Back::Key(under, at) => {
                    let entry = run(len as u32, keys[*under], *at);
                    key_with(&mut pair.bench, &entry, &|mkc| {
                        mkc.set_access_mode_1_0(2);
                        mkc.set_pd(pd);
                        mkc.set_start_addr(start);
                        mkc.set_len(len);
                        fill(mkc);
                    })
                }
            });
        }
        let alive = vec![true; keys.len()];
        Self { pair, arena, keys, model: Model { memory, regions: regions.to_vec(), alive } }
    }

    /// An address in the region, or just outside.
    fn address(&self, place: Place) -> (usize, u64) {
        let key = place.key.index(self.keys.len());
        let Region { start, len, .. } = self.model.regions[key];
        (key, (start + place.at % (len + 32)).saturating_sub(16))
    }

    /// Carries an operation out, in the model too. Whether it is to succeed; `None`: it is not one
    /// that the model can say anything about.
    fn carry_out(
        &mut self,
        kind: Kind,
        own: Place,
        peer: Place,
        len: u32,
        add: u64,
    ) -> Option<bool> {
        let ((own_key, own_at), (peer_key, mut peer_at)) = (self.address(own), self.address(peer));
        let len = match kind {
            // One packet: what of a longer one arrives before a receive's memory ends is not said.
            Kind::Send => len % 257,
            Kind::FetchAdd => 8,
            _ => len,
        };
        // Mostly a whole word.
        if kind == Kind::FetchAdd && !add.is_multiple_of(8) {
            peer_at &= !7;
        }
        let (own_access, peer_access) = match kind {
            Kind::Send => (Access::LocalRead, Access::LocalWrite),
            Kind::Write => (Access::LocalRead, Access::RemoteWrite),
            Kind::Read => (Access::LocalWrite, Access::RemoteRead),
            Kind::FetchAdd => (Access::LocalWrite, Access::RemoteAtomic),
        };
        let model = &mut self.model;
        let own_bytes = model.reached(own_key, own_at, len.into(), &[own_access]);
        let peer_bytes = model.reached(peer_key, peer_at, len.into(), &[peer_access]);
        let good = len == 0 || own_bytes.is_some() && peer_bytes.is_some();
        let (own_bytes, peer_bytes) = (own_bytes.unwrap_or_default(), peer_bytes);
        let peer_bytes = peer_bytes.unwrap_or_default();
        // Packets overtake each other where both are the same memory.
        if peer_bytes.iter().any(|byte| own_bytes.contains(byte)) {
            return None;
        }
        let mut good = good;
        match kind {
            Kind::Send | Kind::Write if good => model.copy(&own_bytes, &peer_bytes),
            Kind::Read if good => model.copy(&peer_bytes, &own_bytes),
            Kind::FetchAdd => {
                let first = peer_bytes.first().copied().unwrap_or(0);
                let aligned = peer_at % 8 == 0 && first % 8 == 0;
                good &= aligned;
                // It is done before its answer finds no place.
                if aligned && !peer_bytes.is_empty() {
                    let was = model.add(&peer_bytes, add);
                    model.put(&own_bytes, was.to_be_bytes());
                }
            }
            _ => {}
        }
        let data = local(own_at, self.keys[own_key], len);
        let data = if len == 0 { &[][..] } else { &data };
        let there = remote(peer_at, self.keys[peer_key]);
        let (opcode, request) = match kind {
            Kind::Send => (WqeOpcode::SEND, wqe(&[data])),
            Kind::Write => (WqeOpcode::RDMA_WRITE, wqe(&[&there, data])),
            Kind::Read => (WqeOpcode::RDMA_READ, wqe(&[&there, data])),
            Kind::FetchAdd => (WqeOpcode::ATOMIC_FA, wqe(&[&there, &operands(&[add, 0]), data])),
        };
        let Pair { bench, b, .. } = &mut self.pair;
        if kind == Kind::Send {
            let lkey = std::mem::replace(&mut bench.lkey, self.keys[peer_key]);
            let range = [(peer_at, len)];
            bench.post_receive(b, if len == 0 { &[] } else { &range });
            bench.lkey = lkey;
        }
        self.pair.post(opcode, &request);
        self.pair.go();
        Some(good)
    }

    fn act(&mut self, act: &Act) -> Result<(), TestCaseError> {
        let &Act::Move { kind, own, peer, len, add } = act else {
            let Act::Destroy(key) = act else { return Ok(()) };
            let key = key.index(self.keys.len());
            if std::mem::replace(&mut self.model.alive[key], false) {
                destroy(&mut self.pair.bench, self.keys[key]);
            }
            return Ok(());
        };
        let Some(good) = self.carry_out(kind, own, peer, len, add) else { return Ok(()) };
        let seen: Vec<_> = self.pair.drain_a().iter().map(|e| CqeOpcode(e.opcode())).collect();
        prop_assert_eq!(seen, [if good { CqeOpcode::REQ } else { CqeOpcode::REQ_ERR }]);
        let now = self.pair.bytes(self.arena, self.model.memory.len());
        let differs = now.iter().zip(&self.model.memory).position(|(is, should)| is != should);
        prop_assert_eq!(differs, None, "{:?}", self.model.regions);
        self.pair.drain_b();
        if !good {
            self.begin_again();
        }
        let (a, b) = (self.pair.a.qpn, self.pair.b.qpn);
        let states = [a, b].map(|qpn| self.pair.bench.state(qpn));
        prop_assert_eq!(states, [QpState::RTS; 2]);
        Ok(())
    }

    /// Both queue pairs through RST, connected again.
    fn begin_again(&mut self) {
        let Pair { bench, a, b, .. } = &mut self.pair;
        for qp in [&mut *a, &mut *b] {
            assert_eq!(bench.state_command(Opcode::TORST_QP, qp.qpn), Status::OK);
            (qp.posted, qp.received) = (0, 0);
            bench.write(qp.record, &[0; 8]);
        }
        bench.connect(a.qpn, b.qpn, |_| {});
        bench.connect(b.qpn, a.qpn, |_| {});
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn what_moves_is_what_the_model_says(
        regions in regions(),
        acts in prop::collection::vec(act(), 1..30),
    ) {
        let mut world = World::new(&regions);
        for act in &acts {
            world.act(act)?;
        }
    }
}

//! What whoever listens is told about work.

mod common;

use std::sync::{Arc, Mutex};

use common::pair::{Pair, local, remote, wqe};
use layouts::*;
use probe::{Hook, Point, Points, Site};

/// Point, structure, and why it was refused.
type Told = (Point, Option<&'static str>, Option<&'static str>);

#[derive(Debug, Clone, Default)]
struct Ear(Arc<Mutex<Vec<Told>>>);

impl Hook for Ear {
    fn at(&self, _now: u64, site: &Site<'_>) {
        let refused = site.values.iter().find(|(name, _)| *name == "refused");
        let refused = refused.and_then(|(_, value)| match value {
            probe::Value::Word(word) => Some(*word),
            probe::Value::Number(_) => None,
        });
        let structure = site.layout.map(|layout| layout.name);
        self.0.lock().unwrap().push((site.point, structure, refused));
    }
}

const WORK: Points =
    Points::of(&[Point::WorkRequest, Point::Translation, Point::Completion, Point::PacketSent]);

fn told(pair: &mut Pair, work: impl FnOnce(&mut Pair)) -> Vec<Told> {
    let ear = Ear::default();
    pair.bench.f.probe.install(Box::new(ear.clone()));
    pair.bench.f.probe.arm(WORK);
    work(pair);
    ear.0.lock().unwrap().clone()
}

#[test]
fn a_write_is_told_from_request_to_completion() {
    let mut pair = Pair::new(QpType::RC);
    let write = wqe(&[&remote(pair.to, pair.rkey), &local(pair.from, pair.bench.lkey, 64)]);
    let told = told(&mut pair, |pair| {
        pair.post(WqeOpcode::RDMA_WRITE, &write);
        pair.go();
    });
    let piece = Some("piece");
    assert_eq!(
        told,
        [
            (Point::WorkRequest, Some("mlx5_wqe_ctrl_seg"), None),
            (Point::Translation, piece, None),
            (Point::PacketSent, None, None),
            (Point::Translation, piece, None),
            (Point::PacketSent, None, None),
            (Point::Completion, Some("mlx5_cqe64"), None),
        ]
    );
}

#[test]
fn a_refusal_is_told_with_its_reason() {
    let mut pair = Pair::new(QpType::RC);
    let (to, from, lkey) = (pair.to, pair.from, pair.bench.lkey);
    let write = wqe(&[&remote(to, pair.rkey ^ 0xff), &local(from, lkey, 64)]);
    let told = told(&mut pair, |pair| {
        pair.post(WqeOpcode::RDMA_WRITE, &write);
        pair.go();
    });
    assert!(told.contains(&(Point::Translation, Some("piece"), Some("wrong_variant"))), "{told:?}");
    assert!(told.contains(&(Point::Completion, Some("mlx5_err_cqe"), None)), "{told:?}");
}

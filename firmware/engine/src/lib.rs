//! Executes work: what the doorbells of send queues announce, what commands leave behind
//! ([`firmware::Work`]), and what is due by time.
//!
//! - [`Engine`]: whose turn it is, and timers. Everything else about a queue is in the tables of
//!   [`firmware::Firmware`], so that a command sees and changes the same state as a work request.
//! - `turn`: how much of it a queue pair may have done at a time.
//! - `send`: the send queue of one queue pair: WQEs are fetched, executed, completed, flushed.
//! - `wqe`: one WQE, copied out of the ring once and judged in the copy. `message`: what one of a
//!   connected service asks for.
//! - `requester`: connected services send. `acknowledge`: what comes back. `responder`:
//!   requests come in. `execute`: they are executed. `answer`: what is sent back. `atomic`: atomic operations.
//! - [`packet`]: what travels between them. [`wire`]: what becomes of it on its way.
//! - `umr`: edits of memory keys.
//! - `datagram`: packets of unreliable datagrams. `headers`: what stands before their payload.
//! - `receive`: where a message's bytes go: receive queues, shared or not.
//! - `held`: what faults make of a work request, and keep back.
//! - `memory`: guest memory through keys. `completion`: what the driver is told in the end.
//!
//! Order depends on nothing but the order of what comes in: queues take turns, and a turn ends
//! after a counted amount of work. A burst arrives while it is sent, unless a cable delays it.
#![forbid(unsafe_code)]

mod acknowledge;
mod answer;
mod atomic;
mod completion;
mod datagram;
mod execute;
mod headers;
mod held;
mod memory;
mod message;
pub mod packet;
mod points;
mod receive;
mod requester;
mod responder;
mod send;
mod timers;
mod turn;
mod umr;
pub mod wire;
mod wqe;

use std::collections::VecDeque;

use dma::Bus;
use firmware::qp::State;
use firmware::{Firmware, Work, cq};
use layouts::{CqDoorbell, WqeCtrlSeg};
use probe::Probe;

use held::HeldBack;
use memory::Scratch;
use timers::{Timer, Timers};
use wire::Wire;

/// What surrounds work: guest memory and interrupts, and what is noted about the guest.
pub type Cx<'a> = (&'a dyn Bus, &'a Probe);

/// What the look at a timer costs, in bytes moved.
const TIMER_COST: usize = 256;

/// Whose turn it is.
#[derive(Debug, Default)]
pub struct Engine {
    /// Queue pairs that have or may have work, each once, in the order of their turns.
    ready: VecDeque<u32>,
    timers: Timers,
    /// The queue pair whose turn it is: it needs no other to be told of what happens meanwhile.
    turn_of: Option<u32>,
    wire: Wire,
    scratch: Scratch,
    held: HeldBack,
    lost_packets: u64,
}

impl Engine {
    /// Nothing to do.
    pub fn new() -> Self {
        Self::default()
    }

    /// A send queue doorbell of UAR page `uar`: the first eight bytes of the last WQE that was
    /// posted, which name the queue pair. How much was posted is in its doorbell record.
    pub fn sq_doorbell(&mut self, fw: &mut Firmware, cx: Cx, uar: u32, words: [u8; 8]) {
        let qpn = WqeCtrlSeg(&words[..]).qpn();
        match fw.qps.get(qpn) {
            // Nothing can be posted yet, and what is in the ring is of an earlier life.
            Some(qp) if qp.uar == Some(uar) && qp.state == State::Reset => {}
            Some(qp) if qp.uar == Some(uar) => self.wake(fw, qpn),
            _ => cx.1.mistake("send queue doorbell", || {
                format!("UAR {uar} rings for QP {qpn:#x}, which is not one of its own")
            }),
        }
    }

    /// A completion queue doorbell of UAR page `uar`: what is asked for and the consumer index, and
    /// the queue's number.
    pub fn cq_doorbell(&mut self, fw: &mut Firmware, cx: Cx, uar: u32, words: [u8; 8]) {
        let doorbell = CqDoorbell(&words[..]);
        if let Some(deadline) = cq::arm(fw, cx, uar, doorbell) {
            self.timers.set(Timer::CompletionEvent(doorbell.cqn()), deadline, 0);
        }
    }

    /// Does queued work worth `budget` bytes moved; the last work request may go beyond. Returns
    /// whether there is more.
    pub fn run(&mut self, fw: &mut Firmware, cx: Cx, budget: usize) -> bool {
        let mut left = budget;
        while let Some(work) = fw.work.pop_front() {
            let Work::QueuePair(qpn) = work;
            self.wake(fw, qpn);
        }
        self.go_on_held(fw, cx);
        while left > 0
            && let Some((timer, wait)) = self.timers.due(fw.now)
        {
            left = left.saturating_sub(TIMER_COST);
            match timer {
                Timer::CompletionEvent(cqn) => cq::event_due(fw, cx, cqn),
                Timer::LateReceives(qpn) => {
                    left = left.saturating_sub(self.late(fw, cx, qpn, wait))
                }
                Timer::Unanswered(qpn) => self.unanswered(fw, cx, qpn),
                Timer::NotReady(qpn) => self.ready_again(fw, qpn),
            }
        }
        while left > 0 && self.wire.next().is_some_and(|at| at <= fw.now) {
            left = left.saturating_sub(self.late_packets(fw, cx));
        }
        while left > 0
            && let Some(qpn) = self.ready.pop_front()
        {
            if let Some(qp) = fw.qps.get_mut(qpn) {
                qp.queued = false;
            }
            let turn = self.turn(fw, cx, qpn);
            left = left.saturating_sub(turn.cost);
            if turn.more {
                self.wake(fw, qpn);
            }
        }
        !self.ready.is_empty() || self.deadline(fw).is_some_and(|at| at <= fw.now)
    }

    /// When [`Self::run`] wants to be called though nothing came in, in ns of [`Firmware::now`].
    pub fn deadline(&self, fw: &Firmware) -> Option<u64> {
        let late = fw.late_completions.next();
        [self.timers.next(), self.wire.next(), self.held.next(), late].into_iter().flatten().min()
    }

    /// What a fault rule keeps back goes on. Returns how much that is.
    pub fn release(&mut self, fw: &mut Firmware, rule: u32, now: u64) -> u64 {
        self.held.release(rule, now) + fw.late_completions.release(rule, now)
    }

    /// How many packets reached nobody, because nobody else is on this fabric or the receiver did
    /// not take them.
    pub fn lost_packets(&self) -> u64 {
        self.lost_packets
    }

    /// Forgets all that was to be done.
    pub fn reset(&mut self) {
        let Self { ready, timers, turn_of: _, wire, scratch: _, held, lost_packets } = self;
        *ready = VecDeque::new();
        timers.reset();
        wire.reset();
        held.reset();
        *lost_packets = 0;
    }

    /// A packet that reaches nobody.
    fn lose(&mut self, what: impl FnOnce() -> String, why: &str) {
        if self.lost_packets == 0 {
            log::info!("{} is lost: {why} (further ones are only counted)", what());
        } else if log::log_enabled!(log::Level::Debug) {
            log::trace!("{} is lost: {why}", what());
        }
        self.lost_packets += 1;
    }

    /// Lets a queue pair wait for its turn, if it does not already.
    fn wake(&mut self, fw: &mut Firmware, qpn: u32) {
        if self.turn_of != Some(qpn)
            && let Some(qp) = fw.qps.get_mut(qpn)
            && !qp.queued
        {
            qp.queued = true;
            self.ready.push_back(qpn);
        }
    }
}

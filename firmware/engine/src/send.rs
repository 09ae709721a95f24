//! The send queue of one queue pair: WQEs are fetched, executed, completed and flushed.
//!
//! A WQE that fails is completed so when it is the oldest of its queue: until then nothing behind
//! it is begun, and when its turn comes it is judged again.

use firmware::Firmware;
use firmware::counters::Side;
use firmware::qp::connection::{Awaits, Sent};
use firmware::qp::{Receives, SendQueue, Service, State};
use layouts::{CqeOpcode, EventType, QpState, WqeOpcode};
use probe::{Counter, Point, at};

use crate::completion::{self, BAD_WQE, Completion, FLUSHED, Failure};
use crate::held::Begins;
use crate::message::Message;
use crate::timers::Timer;
use crate::turn::{Step, TURN, Turn, WQE_COST};
use crate::wqe::Wqe;
use crate::{Cx, Engine, points, umr};

/// Receives that are posted to a queue pair in error ring no doorbell: it is looked at again after
/// this many ns, and after twice as many each time that nothing came, up to the second number.
const LATE_FIRST: u64 = 1_000_000;
const LATE_LAST: u64 = 1_000_000_000;

/// Most work requests of one queue that are begun and not completed: it bounds what the device
/// remembers when a peer never answers.
const MOST_IN_FLIGHT: usize = 16;

/// Values of a WQE's `fence` (MLX5_FENCE_MODE_*).
const FENCE_NONE: u8 = 0;
const FENCE_STRONG_ORDER: u8 = 3;

impl Engine {
    /// Gives a queue pair its turn.
    pub(crate) fn turn(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32) -> Turn {
        match fw.qps.get(qpn).map(|qp| qp.state) {
            Some(State::Rts | State::SqError | State::Error) => self.learn_posted(fw, cx, qpn),
            Some(state) if state.receives() => {}
            _ => return Turn::default(),
        }
        self.turn_of = Some(qpn);
        let mut turn = self.answer(fw, cx, qpn, TURN);
        while turn.cost < TURN {
            match self.step(fw, cx, qpn) {
                Step::Did(cost) => turn.cost += cost,
                Step::Waits => break,
                Step::Empty => {
                    let done = self.sends_done(fw, cx, qpn);
                    turn = Turn { cost: turn.cost + done.cost, more: turn.more || done.more };
                    break;
                }
            }
        }
        self.turn_of = None;
        self.watch(fw, qpn);
        Turn { more: turn.more || turn.cost >= TURN, ..turn }
    }

    /// Does the next thing that a send queue asks for.
    fn step(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32) -> Step {
        let Some(qp) = fw.qps.get(qpn) else { return Step::Empty };
        let Some(sq) = qp.sq else { return Step::Empty };
        let requester = &qp.requester;
        match qp.state {
            State::Rts if requester.rnr_wait || requester.held => Step::Waits,
            State::Rts if requester.sending < requester.in_flight.len() => self.go_on(fw, cx, qpn),
            State::SqError | State::Error if !requester.in_flight.is_empty() => {
                self.flush_in_flight(fw, cx, qpn)
            }
            State::Rts | State::SqError | State::Error if sq.next != sq.posted => {
                self.begin(fw, cx, qpn, &sq)
            }
            _ => Step::Empty,
        }
    }

    /// Begins the WQE that is next in the ring.
    fn begin(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, sq: &SendQueue) -> Step {
        let Some(qp) = fw.qps.get(qpn) else { return Step::Empty };
        let mut wqe = Wqe::default();
        let posted = sq.posted.wrapping_sub(sq.next);
        if wqe.fetch(cx.0, qp, sq, sq.next, posted).is_none() {
            self.break_down(fw, cx, qpn, "its buffer is not mapped");
            return Step::Did(WQE_COST);
        }
        if qp.state != State::Rts {
            // What is flushed has failed already.
            if cx.1.armed(Point::WorkRequest) {
                let _ = points::work_request(fw, cx, qpn, &wqe, false);
            }
            self.leave(fw, cx, qpn, &wqe, Some(FLUSHED));
            return Step::Did(WQE_COST);
        }
        let requester = &qp.requester;
        let ordered = match wqe.ctrl().fence() {
            _ if requester.in_flight.is_empty() => true,
            // One that a fault lets fail is the oldest then.
            _ if cx.1.asks(Point::WorkRequest) => false,
            FENCE_NONE => true,
            FENCE_STRONG_ORDER => false,
            _ => requester.reads == 0,
        };
        if !ordered || requester.in_flight.len() >= MOST_IN_FLIGHT {
            return Step::Waits;
        }
        let begins = match cx.1.armed(Point::WorkRequest) {
            // It has not been fetched whole: there is nothing to ask about.
            _ if wqe.malformed => Begins::Failing(BAD_WQE),
            true => self.begins(fw, cx, qpn, &wqe),
            false => Begins::AsItIs,
        };
        let outcome = match begins {
            Begins::AsItIs => self.execute(fw, cx, qpn, &wqe),
            Begins::Failing(why) => Err(why),
            Begins::Instead(step) => return step,
        };
        let busy = fw.qps.get(qpn).is_some_and(|qp| !qp.requester.in_flight.is_empty());
        match outcome {
            Ok(Step::Did(cost)) => Step::Did(WQE_COST + cost),
            Ok(step) => step,
            // Its turn to fail comes when it is the oldest.
            Err(_) if busy => Step::Waits,
            Err(why) => {
                self.leave(fw, cx, qpn, &wqe, Some(why));
                Step::Did(WQE_COST)
            }
        }
    }

    /// Does what a WQE asks for, or begins to.
    fn execute(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, wqe: &Wqe) -> Result<Step, Failure> {
        let Some(qp) = fw.qps.get(qpn) else { return Err(BAD_WQE) };
        let (service, pd, user) = (qp.service, qp.pd, qp.uid != 0);
        let (ctrl, opcode) = (wqe.ctrl(), wqe.opcode());
        if let Some(sq) = qp.sq.filter(|sq| ctrl.wqe_index() != sq.next || ctrl.qpn() != qpn) {
            cx.1.mistake("WQE of another place", || {
                format!(
                    "QP {qpn:#x}: the WQE at {:#x} says that it is {:#x} of QP {:#x}",
                    sq.next,
                    ctrl.wqe_index(),
                    ctrl.qpn()
                )
            });
        }
        if let Some(message) = Message::parse(service, wqe) {
            return self.begin_message(fw, cx, qpn, wqe, &message?);
        }
        let moved = match opcode {
            WqeOpcode::NOP => 0,
            WqeOpcode::UMR if !service.is_datagram() => {
                umr::execute(&mut self.scratch, fw, cx, umr::Asker { service, pd, qpn, user }, wqe)?
            }
            WqeOpcode::SEND | WqeOpcode::SEND_IMM if service.is_datagram() => {
                self.send_datagram(fw, cx, qpn, wqe)?
            }
            _ => {
                cx.1.missing(work_kind(service), opcode.0, opcode);
                return Err(BAD_WQE);
            }
        };
        self.leave(fw, cx, qpn, wqe, None);
        Ok(Step::Did(moved))
    }

    /// A WQE that is over: it is completed, after those before it, and the next is first in the
    /// ring.
    fn leave(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, wqe: &Wqe, why: Option<Failure>) {
        let Some(sent) = self.take_from_ring(fw, cx, qpn, wqe) else { return };
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        let requester = &mut qp.requester;
        if why.is_none() && !requester.in_flight.is_empty() {
            requester.sending = requester.in_flight.len() + 1;
            requester.in_flight.push_back(sent);
            return;
        }
        match why {
            None => self.complete_send(fw, cx, qpn, &sent),
            Some(why) => self.fail_send(fw, cx, qpn, &sent, why),
        }
    }

    /// The ring goes on behind a WQE. Returns what is remembered of it, as of one that has no
    /// packet.
    pub(crate) fn take_from_ring(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        qpn: u32,
        wqe: &Wqe,
    ) -> Option<Sent> {
        let qp = fw.qps.get_mut(qpn)?;
        let first = qp.requester.next;
        let sq = qp.sq.as_mut()?;
        let index = sq.next;
        sq.next = index.wrapping_add(wqe.blocks);
        cx.1.count(Counter::Wqe);
        Some(Sent {
            wqe: index,
            blocks: wqe.blocks,
            opcode: wqe.opcode(),
            signalled: wqe.is_signalled(),
            // CQ_UPDATE_AND_EQE: as if it were solicited.
            solicited: wqe.ctrl().ce() == 3,
            len: 0,
            first,
            packets: 0,
            sent: 0,
            answered: 0,
            awaits: Awaits::Nothing,
        })
    }

    /// Reads from the doorbell record how far the send queue is posted.
    fn learn_posted(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32) {
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        let Some(sq) = qp.sq else { return };
        match qp.sends_posted(cx.0, &sq) {
            Some(posted) => qp.sq = Some(SendQueue { posted, ..sq }),
            None => self.break_down(fw, cx, qpn, "its doorbell record can't be"),
        }
    }

    /// The send queue is empty. In the error state it is the receive queue's turn to be flushed.
    fn sends_done(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32) -> Turn {
        if fw.qps.get(qpn).is_none_or(|qp| qp.state != State::Error) {
            return Turn::default();
        }
        let (flushed, more) = self.flush_receives(fw, cx, qpn);
        if !more {
            self.nothing_held(fw, cx, qpn);
        }
        Turn { cost: flushed * WQE_COST, more }
    }

    /// A queue pair in error holds nothing any more.
    fn nothing_held(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32) {
        let now = fw.now;
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        // An XRC target has no queue of its own at all.
        let shares = matches!(qp.receives, Receives::Shared(_))
            || qp.service == Service::Xrc && qp.sq.is_none();
        if matches!(qp.receives, Receives::Own(_)) {
            self.timers.set(Timer::LateReceives(qpn), now.saturating_add(LATE_FIRST), LATE_FIRST);
        } else if shares && !qp.last_wqe_told {
            qp.last_wqe_told = true;
            completion::event(fw, cx, EventType::SRQ_LAST_WQE, qpn);
        }
    }

    /// Looks for receives that were posted to a queue pair after its error. Returns what it cost.
    pub(crate) fn late(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, wait: u64) -> usize {
        let in_error = fw.qps.get(qpn).is_some_and(|qp| qp.state == State::Error);
        if !in_error {
            return 0;
        }
        let (flushed, more) = self.flush_receives(fw, cx, qpn);
        let wait = match (flushed, more) {
            (_, true) => 0,
            (0, false) => (wait * 2).clamp(LATE_FIRST, LATE_LAST),
            (_, false) => LATE_FIRST,
        };
        self.timers.set(Timer::LateReceives(qpn), fw.now.saturating_add(wait), wait);
        flushed * WQE_COST
    }

    /// Completes a work request that is done.
    pub(crate) fn complete_send(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, sent: &Sent) {
        if !sent.signalled {
            return;
        }
        let Some((cqn, completion)) = completion_of(fw, qpn, sent) else { return };
        let mut entry = completion.done(CqeOpcode::REQ);
        entry.set_se(sent.solicited);
        entry.set_byte_cnt(sent.len as u32);
        let inline = std::mem::take(&mut self.scratch.inline);
        if !self.complete(fw, cx, cqn, entry, &inline) {
            self.break_down(fw, cx, qpn, "its completion queue takes no more entries");
        }
        self.scratch.inline = inline;
        self.scratch.inline.clear();
    }

    /// Completes a work request that failed. Unless it is only flushed, its queue pair can't go on.
    pub(crate) fn fail_send(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        qpn: u32,
        sent: &Sent,
        why: Failure,
    ) {
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        let service = qp.service;
        if why != FLUSHED {
            cx.1.mistake(why.kind(), || {
                let (service, opcode, wqe) = (service.name(), sent.opcode, sent.wqe);
                format!("QP {qpn:#x} ({service}): WQE {wqe:#x} ({opcode}): {why}")
            });
            let (state, code) = match service.survives_send_error() {
                true => (State::SqError, QpState::SQER),
                false => (State::Error, QpState::ERR),
            };
            qp.state = state;
            at!(cx.1, Modify, kind = "qp", id = qpn, state = code.0, why = why.kind());
            self.wake(fw, qpn);
        }
        fw.count(qpn, |counters| counters.failed(Side::Requester, why.syndrome));
        let Some((cqn, completion)) = completion_of(fw, qpn, sent) else { return };
        let entry = completion.failed(CqeOpcode::REQ_ERR, why);
        if !self.complete(fw, cx, cqn, entry, &[]) {
            self.break_down(fw, cx, qpn, "its completion queue takes no more entries");
        }
    }

    /// Flushes the oldest work request in flight.
    fn flush_in_flight(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32) -> Step {
        let sent = fw.qps.get_mut(qpn).and_then(|qp| {
            let requester = &mut qp.requester;
            (requester.sending, requester.reads, requester.rnr_wait) = (0, 0, false);
            requester.in_flight.pop_front()
        });
        if let Some(sent) = sent {
            self.fail_send(fw, cx, qpn, &sent, FLUSHED);
        }
        Step::Did(WQE_COST)
    }

    /// A queue pair that can't go on: it goes to the error state, and the driver is told once.
    /// What its send queue holds can't be flushed.
    pub(crate) fn break_down(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, why: &'static str) {
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        if let Some(sq) = &mut qp.sq {
            sq.next = sq.posted;
        }
        qp.requester.in_flight.clear();
        if qp.state == State::Error {
            return;
        }
        qp.state = State::Error;
        at!(cx.1, Modify, kind = "qp", id = qpn, state = QpState::ERR.0, why = why);
        cx.1.mistake("work queue error", || format!("QP {qpn:#x}: {why}"));
        completion::event(fw, cx, EventType::WQ_CATAS_ERROR, qpn);
        self.wake(fw, qpn);
    }
}

/// What a send's completion says, and where it goes.
fn completion_of(fw: &Firmware, qpn: u32, sent: &Sent) -> Option<(u32, Completion)> {
    let qp = fw.qps.get(qpn)?;
    let cqn = qp.sq?.cqn;
    let (user_index, wqe, opcode) = (qp.user_index, sent.wqe, sent.opcode.0);
    Some((cqn, Completion { qpn, user_index, wqe, opcode }))
}

/// What the burn-down list calls a work request.
fn work_kind(service: Service) -> &'static str {
    match service {
        Service::Rc => "RC work request",
        Service::Uc => "UC work request",
        Service::Ud => "UD work request",
        Service::Xrc => "XRC work request",
        Service::Qp0 => "QP0 work request",
        Service::Qp1 => "QP1 work request",
        Service::RegUmr => "REG_UMR work request",
    }
}

//! The send queue of one queue pair: WQEs are fetched, executed, completed and flushed.

use firmware::Firmware;
use firmware::qp::{Receives, SendQueue, Service, State};
use layouts::{CqeOpcode, EventType, WqeOpcode};
use probe::Counter;

use crate::completion::{self, BAD_WQE, Completion, FLUSHED, Failure};
use crate::timers::Timer;
use crate::wqe::Wqe;
use crate::{Cx, Engine, umr};

/// After this much work, in bytes moved, it is another queue pair's turn.
const TURN: usize = 64 << 10;
/// What a WQE costs beside the bytes that it moves.
const WQE_COST: usize = 512;
/// Receives that are posted to a queue pair in error ring no doorbell: it is looked at again after
/// this many ns, and after twice as many each time that nothing came, up to the second number.
const LATE_FIRST: u64 = 1_000_000;
const LATE_LAST: u64 = 1_000_000_000;

/// What a turn came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Turn {
    /// In bytes moved.
    pub cost: usize,
    /// There is more to do.
    pub more: bool,
}

/// What a WQE came to.
type Outcome = Result<usize, Failure>;

impl Engine {
    /// Gives a queue pair its turn.
    pub(crate) fn turn(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32) -> Turn {
        let mut cost = 0;
        match fw.qps.get(qpn).map(|qp| qp.state) {
            Some(State::Rts | State::SqError | State::Error) => self.learn_posted(fw, cx, qpn),
            _ => return Turn::default(),
        }
        while cost < TURN {
            let Some(qp) = fw.qps.get(qpn) else { return Turn { cost, more: false } };
            let state = qp.state;
            let Some(sq) = qp.sq.filter(|sq| sq.next != sq.posted) else {
                return self.sends_done(fw, cx, qpn, state, cost);
            };
            let Some(wqe) = Wqe::fetch(cx.0, qp, &sq) else {
                self.break_down(fw, cx, qpn, "its buffer is not mapped");
                return Turn { cost, more: true };
            };
            let outcome = match state {
                _ if state != State::Rts => Err(FLUSHED),
                _ if wqe.malformed => Err(BAD_WQE),
                _ => self.execute(fw, cx, qpn, &wqe),
            };
            cost += WQE_COST + outcome.unwrap_or(0);
            self.finish(fw, cx, qpn, &wqe, outcome.err());
        }
        Turn { cost, more: true }
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
    fn sends_done(
        &mut self,
        fw: &mut Firmware,
        cx: Cx,
        qpn: u32,
        state: State,
        cost: usize,
    ) -> Turn {
        if state != State::Error {
            return Turn { cost, more: false };
        }
        let (flushed, more) = self.flush_receives(fw, cx, qpn);
        if !more {
            self.nothing_held(fw, cx, qpn);
        }
        Turn { cost: cost + flushed * WQE_COST, more }
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

    /// Does what a WQE asks for. Returns how many bytes that moved.
    fn execute(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, wqe: &Wqe) -> Outcome {
        let Some(qp) = fw.qps.get(qpn) else { return Err(BAD_WQE) };
        cx.1.count(Counter::Wqe);
        let (service, pd) = (qp.service, qp.pd);
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
        match opcode {
            WqeOpcode::NOP => Ok(0),
            WqeOpcode::UMR if !service.is_datagram() => {
                umr::execute(&mut self.scratch, fw, cx, umr::Asker { service, pd, qpn }, wqe)
            }
            WqeOpcode::SEND | WqeOpcode::SEND_IMM if service.is_datagram() => {
                self.send_datagram(fw, cx, qpn, wqe)
            }
            _ => {
                cx.1.missing(work_kind(service), opcode.0, opcode);
                Err(BAD_WQE)
            }
        }
    }

    /// Completes a WQE and goes on to the next.
    fn finish(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, wqe: &Wqe, why: Option<Failure>) {
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        let (service, user_index) = (qp.service, qp.user_index);
        let Some(sq) = &mut qp.sq else { return };
        let (cqn, index) = (sq.cqn, sq.next);
        sq.next = index.wrapping_add(wqe.blocks);
        let opcode = wqe.opcode().0;
        let completion = Completion { cqn, qpn, user_index, wqe: index, opcode };
        let entry = match why {
            Some(why) => {
                if why != FLUSHED {
                    cx.1.mistake(why.kind(), || {
                        let (service, opcode) = (service.name(), wqe.opcode());
                        format!("QP {qpn:#x} ({service}): WQE {index:#x} ({opcode}): {why}")
                    });
                    qp.state = match service.survives_send_error() {
                        true => State::SqError,
                        false => State::Error,
                    };
                }
                completion.failed(CqeOpcode::REQ_ERR, why)
            }
            None if !wqe.is_signalled() => return,
            None => {
                let mut entry = completion.done(CqeOpcode::REQ);
                // CQ_UPDATE_AND_EQE: as if it were solicited.
                entry.set_se(wqe.ctrl().ce() == 3);
                entry
            }
        };
        if !self.complete(fw, cx, cqn, entry) {
            self.break_down(fw, cx, qpn, "its completion queue takes no more entries");
        }
    }

    /// A queue pair that can't go on: it goes to the error state, and the driver is told once.
    /// What its send queue holds can't be flushed.
    pub(crate) fn break_down(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, why: &'static str) {
        let Some(qp) = fw.qps.get_mut(qpn) else { return };
        if let Some(sq) = &mut qp.sq {
            sq.next = sq.posted;
        }
        if qp.state == State::Error {
            return;
        }
        qp.state = State::Error;
        cx.1.mistake("work queue error", || format!("QP {qpn:#x}: {why}"));
        completion::event(fw, cx, EventType::WQ_CATAS_ERROR, qpn);
        self.wake(fw, qpn);
    }
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

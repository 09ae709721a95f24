//! What faults make of a work request before it begins, and what they keep back.

use firmware::qp::connection::Cut;
use firmware::{Firmware, cq};
use layouts::CqeSyndrome;
use probe::{Action, Held, Until};

use crate::completion::Failure;
use crate::message::Message;
use crate::requester::path_mtu;
use crate::timers::Timer;
use crate::turn::{Step, WQE_COST};
use crate::wqe::Wqe;
use crate::{Cx, Engine, points};

/// Most work requests that are kept back, one of each queue pair; what comes on top is not.
const MOST: usize = 4096;

/// How a work request begins.
pub enum Begins {
    /// As if there were no faults.
    AsItIs,
    /// It fails.
    Failing(Failure),
    /// It does not: this is what its turn came to.
    Instead(Step),
}

/// Queue pairs whose next work request is kept back.
#[derive(Debug)]
pub struct HeldBack(Held<u32>);

impl Default for HeldBack {
    fn default() -> Self {
        Self(Held::new(MOST))
    }
}

impl HeldBack {
    /// When the next may begin, in ns.
    pub fn next(&self) -> Option<u64> {
        self.0.next()
    }

    /// What a fault rule keeps back goes on. Returns how much that is.
    pub fn release(&mut self, rule: u32, now: u64) -> u64 {
        self.0.release(rule, now)
    }

    /// Forgets all of it.
    pub fn reset(&mut self) {
        self.0.clear();
    }
}

impl Engine {
    /// How the work request that is next in the ring begins. For each this is asked once, however often
    /// its turn comes.
    #[cold]
    pub(crate) fn begins(&mut self, fw: &mut Firmware, cx: Cx, qpn: u32, wqe: &Wqe) -> Begins {
        let Some(qp) = fw.qps.get_mut(qpn) else { return Begins::AsItIs };
        let Some(index) = qp.sq.map(|sq| sq.next) else { return Begins::AsItIs };
        if qp.requester.asked == Some(index) {
            return Begins::AsItIs;
        }
        qp.requester.asked = Some(index);
        let action = points::work_request(fw, cx, qpn, wqe, true);
        let Some(qp) = fw.qps.get_mut(qpn) else { return Begins::AsItIs };
        match action {
            None => Begins::AsItIs,
            Some(Action::Fail { syndrome, vendor, after }) => {
                if after == 0 || Message::parse(qp.service, wqe).is_none() {
                    return Begins::Failing(Failure { syndrome: CqeSyndrome(syndrome), vendor });
                }
                let packets = u32::try_from(after / path_mtu(qp)).unwrap_or(u32::MAX);
                qp.requester.cut = Some(Cut { wqe: index, packets, syndrome, vendor });
                Begins::AsItIs
            }
            Some(Action::Lose) => {
                let _ = self.take_from_ring(fw, cx, qpn, wqe);
                Begins::Instead(Step::Did(WQE_COST))
            }
            Some(action) => match Until::asked(&action, cx.1.now()) {
                Some(until) if self.held.0.push(until, qpn).is_ok() => {
                    qp.requester.held = true;
                    Begins::Instead(Step::Waits)
                }
                _ => Begins::AsItIs,
            },
        }
    }

    /// Goes on with what faults have kept back and whose time has come.
    pub(crate) fn go_on_held(&mut self, fw: &mut Firmware, cx: Cx) {
        while let Some(qpn) = self.held.0.due(fw.now) {
            if let Some(qp) = fw.qps.get_mut(qpn) {
                qp.requester.held = false;
            }
            self.wake(fw, qpn);
        }
        while let Some((cqn, deadline)) = cq::go_on(fw, cx) {
            if let Some(at) = deadline {
                self.timers.set(Timer::CompletionEvent(cqn), at, 0);
            }
        }
    }
}

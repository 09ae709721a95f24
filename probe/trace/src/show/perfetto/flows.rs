//! Arrows: from a doorbell to what it sets going and on to the completion.

use std::collections::{HashMap, VecDeque};

use layouts::decode::{Content, Decoded};
use layouts::{CqeOpcode, EventType};
use probe::Point;
use serde_json::{Value, json as object};

use super::{Place, micro};
use crate::TraceEvent;

/// A moment on a track.
type At = (Place, u64);

/// Work requests of one queue pair that are remembered without a completion.
const PENDING: usize = 4096;

/// What arrows may begin or go on at.
#[derive(Debug, Default)]
pub struct Flows {
    last_id: u64,
    /// Doorbells that set nothing going yet: by queue pair, and of the command queue by slot.
    rung: HashMap<(u16, u64), At>,
    rung_slots: HashMap<(u16, u64), At>,
    /// Work requests that are not completed: index and arrow.
    requests: HashMap<(u16, u64), VecDeque<(u64, u64)>>,
    /// Commands whose completion is not told.
    commands: HashMap<(u16, u64), u64>,
}

impl Flows {
    /// What an event adds, in the format of the file.
    pub fn event(
        &mut self,
        event: &TraceEvent,
        place: Place,
        time: u64,
        fields: &[Decoded],
    ) -> Vec<Value> {
        let (function, here) = (event.function, (place, time));
        let mut out = Vec::new();
        match event.point {
            Point::Doorbell => {
                if let Some(qpn) = event.number("qpn") {
                    self.rung.insert((function, qpn), here);
                }
                for slot in bits(event.number("slots")) {
                    self.rung_slots.insert((function, slot), here);
                }
            }
            Point::Command => {
                let Some(slot) = event.number("slot") else { return out };
                let from = self.rung_slots.remove(&(function, slot));
                let id = self.begin(&mut out, from, here);
                self.commands.insert((function, slot), id);
            }
            Point::Event if number(fields, "mlx5_eqe.type") == Some(EventType::CMD.0.into()) => {
                for slot in bits(number(fields, "cmd.vector")) {
                    let id = self.commands.remove(&(function, slot));
                    out.extend(id.map(|id| arrow("f", id, here)));
                }
            }
            Point::WorkRequest => {
                let Some(qpn) = event.number("qpn") else { return out };
                let from = self.rung.get(&(function, qpn)).copied();
                let id = self.begin(&mut out, from, here);
                let pending = self.requests.entry((function, qpn)).or_default();
                if pending.len() == PENDING {
                    pending.pop_front();
                }
                pending.push_back((event.number("index").unwrap_or(0), id));
            }
            Point::Completion if is_send(fields) => {
                let Some(qpn) = event.number("qpn") else { return out };
                let done = number(fields, "wqe_counter");
                let pending = self.requests.entry((function, qpn)).or_default();
                // One that asked for no completion is done with the next that did.
                let covered = pending.iter().position(|&(index, _)| Some(index) == done);
                let covered = covered.map_or(0, |last| last + 1);
                out.extend(pending.drain(..covered).map(|(_, id)| arrow("f", id, here)));
            }
            _ => {}
        }
        out
    }

    /// An arrow from a doorbell, if one is known, to here.
    fn begin(&mut self, out: &mut Vec<Value>, from: Option<At>, here: At) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        match from {
            Some(from) => out.extend([arrow("s", id, from), arrow("t", id, here)]),
            None => out.push(arrow("s", id, here)),
        }
        id
    }
}

/// Whether a completion is of a send queue's work request.
pub fn is_send(fields: &[Decoded]) -> bool {
    let opcode = number(fields, "opcode").map(|opcode| CqeOpcode(opcode as u8));
    matches!(opcode, Some(CqeOpcode::REQ | CqeOpcode::REQ_ERR))
}

fn number(fields: &[Decoded], path: &str) -> Option<u64> {
    match fields.iter().find(|field| field.path.is(path))?.content {
        Content::Number(number) => Some(number),
        Content::Bytes(_) => None,
    }
}

fn bits(mask: Option<u64>) -> impl Iterator<Item = u64> {
    let mask = mask.unwrap_or(0);
    (0..64).filter(move |bit| mask >> bit & 1 == 1)
}

fn arrow(phase: &str, id: u64, (place, time): At) -> Value {
    let Place { pid, tid } = place;
    let ts = micro(time);
    let mut arrow = object!({
        "ph": phase, "id": id, "name": "work", "cat": "flow", "pid": pid, "tid": tid, "ts": ts,
    });
    if phase == "f"
        && let Some(arrow) = arrow.as_object_mut()
    {
        // It ends at the slice around it, not at the next one.
        arrow.insert("bp".into(), "e".into());
    }
    arrow
}

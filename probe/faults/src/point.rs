//! What can be said about each point, and what can be done there.

use layouts::{
    CommandMailbox, CqDoorbell, Cqe64, EqDoorbell, Eqe, ErrCqe, InitialSegment, LayoutInfo, MboxIn,
    MboxOut, Opcode, WqeCtrlSeg, command,
};
use probe::Point;

use crate::verb::Verb;

/// The name of no point: a rule there fires by the clock.
pub const TIME: &str = "time";

/// A value that is told beside the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// Its name in rules.
    pub name: &'static str,
    /// Its name at the point.
    pub at_point: &'static str,
    /// If it is a word, those that there are.
    pub words: &'static [&'static str],
    /// If its numbers have names, the structure and field that they have them by.
    pub named_as: Option<(&'static str, &'static str)>,
}

const fn number(name: &'static str) -> Told {
    Told { name, at_point: name, words: &[], named_as: None }
}

const fn word(name: &'static str, at_point: &'static str, words: &'static [&'static str]) -> Told {
    Told { name, at_point, words, named_as: None }
}

const fn code(name: &'static str, structure: &'static str, field: &'static str) -> Told {
    Told { name, at_point: name, words: &[], named_as: Some((structure, field)) }
}

/// Names of packets.
const PACKETS: &[&str] = &[
    "SEND",
    "RDMA WRITE",
    "RDMA READ request",
    "ATOMIC request",
    "ACK",
    "RNR NAK",
    "NAK",
    "RDMA READ response",
    "ATOMIC acknowledge",
];
const TRANSPORTS: &[&str] = &["RC", "UC", "XRC", "UD"];
const ACCESSES: &[&str] =
    &["local_read", "local_write", "remote_read", "remote_write", "remote_atomic"];

/// What is told at a point beside the bytes.
pub fn told(point: Point) -> &'static [Told] {
    match point {
        Point::RegisterRead | Point::RegisterWrite => &const { [number("offset")] },
        Point::Command => &const { [number("slot")] },
        Point::Reply => {
            &const {
                [
                    number("slot"),
                    code("opcode", "mbox_in", "opcode"),
                    number("op_mod"),
                    code("register_id", "access_register_in", "register_id"),
                ]
            }
        }
        Point::Event => &const { [number("eqn"), number("index")] },
        Point::Interrupt => &const { [number("vector")] },
        Point::Doorbell => {
            &const {
                [
                    number("slots"),
                    number("uar"),
                    number("eqn"),
                    number("cqn"),
                    number("qpn"),
                    number("arm"),
                ]
            }
        }
        Point::WorkRequest => &const { [number("qpn"), number("index"), code("st", "qpc", "st")] },
        Point::Completion => &const { [number("cqn"), number("index"), number("qpn")] },
        Point::Translation => {
            &const {
                [
                    number("key"),
                    number("addr"),
                    number("len"),
                    word("access", "access", ACCESSES),
                    number("pd"),
                    number("qpn"),
                    number("refused"),
                ]
            }
        }
        Point::DmaRead | Point::DmaWrite => &const { [number("addr"), number("len")] },
        Point::DmaCopy => &const { [number("src"), number("dst"), number("len")] },
        Point::DmaExchange => &const { [number("addr")] },
        Point::PacketSent => {
            &const {
                [
                    word("kind", "what", PACKETS),
                    word("transport", "transport", TRANSPORTS),
                    number("dest_qpn"),
                    number("psn"),
                    number("len"),
                ]
            }
        }
        Point::Mailbox
        | Point::Pages
        | Point::PacketReceived
        | Point::Create
        | Point::Modify
        | Point::Destroy
        | Point::Health
        | Point::Port
        | Point::Reset
        | Point::Fault => &[],
    }
}

/// The structures that the bytes of a point may be, if the commands there have this opcode.
pub fn structures(point: Point, opcode: Option<Opcode>) -> Vec<&'static LayoutInfo> {
    match point {
        Point::Command => vec![opcode.map_or(&MboxIn::INFO, |opcode| command(opcode).0)],
        Point::Reply => vec![opcode.map_or(&MboxOut::INFO, |opcode| command(opcode).1)],
        Point::Event => vec![&Eqe::INFO],
        Point::Completion => vec![&Cqe64::INFO, &ErrCqe::INFO],
        Point::WorkRequest => vec![&WqeCtrlSeg::INFO],
        Point::Doorbell => vec![&CqDoorbell::INFO, &EqDoorbell::INFO, &WqeCtrlSeg::INFO],
        Point::Mailbox => vec![&CommandMailbox::INFO],
        _ => Vec::new(),
    }
}

/// The structures of which `set` changes fields at a point.
pub fn settable(point: Point, opcode: Option<Opcode>) -> Vec<&'static LayoutInfo> {
    match point {
        // A read is a part of it.
        Point::RegisterRead => vec![&InitialSegment::INFO],
        _ => structures(point, opcode),
    }
}

/// Whether a structure's bytes are told whatever the commands at the point are.
pub fn is_header(layout: &LayoutInfo) -> bool {
    layout.name == MboxIn::INFO.name || layout.name == MboxOut::INFO.name
}

/// What can be done at a point, beside what concerns the card as a whole.
pub fn verbs(point: Point) -> &'static [Verb] {
    use Verb::*;
    match point {
        Point::Command => &[Status, Delivery, Lose, Hold, DelayMs, DelayUs],
        Point::Reply => &[Status, Delivery, Corrupt, Set, Lose, Hold, DelayMs, DelayUs, Twice],
        Point::RegisterRead => &[Set],
        Point::Event => {
            &[Set, Lose, Hold, DelayMs, DelayUs, Twice, Overwrite, OwnerLateMs, OwnerLateUs]
        }
        Point::Interrupt => &[Vector, Lose, Hold, DelayMs, DelayUs, Twice],
        Point::Doorbell => &[Lose, Hold, DelayMs, DelayUs],
        Point::WorkRequest => &[Fail, Lose, Hold, DelayMs, DelayUs],
        Point::Completion => &[Set, Lose, Hold, DelayMs, DelayUs, Twice, OwnerLateMs, OwnerLateUs],
        Point::Translation => &[Refuse, Stale],
        Point::DmaExchange => &[Refuse],
        Point::DmaRead => &[Refuse, Torn],
        Point::DmaWrite | Point::DmaCopy => &[Refuse, Torn, Lose, Hold, DelayMs, DelayUs],
        Point::PacketSent => &[Lose, DelayMs, DelayUs, Twice],
        _ => &[],
    }
}

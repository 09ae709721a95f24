//! The card as a tree, for people. An object's values are those of its context as the driver would
//! query it, by the layouts' names.

use std::ops::ControlFlow;

use control::{FaultState, Node, Refusal, RefusalKind};
use dma::Bus;
use firmware::{CmdError, Cx, Firmware, caps, cq, eq, port, qp, srq};
use layouts::decode::{Content, decode};
use layouts::*;
use mtt::{KeyInfo, Question};
use probe::Probe;
use serde_json::{Map, Value};

use super::ACCESSES;

/// Most children that a list shows when it is not what was asked for.
const FEW: usize = 8;
/// Most runs of memory that a key shows.
const PIECES: usize = 256;

/// What is needed to look at things.
pub struct View<'a> {
    pub firmware: &'a mut Firmware,
    /// Of the card.
    pub probe: &'a Probe,
    pub bus: &'a dyn Bus,
    /// The fault rules and what they have done.
    pub faults: &'a dyn Fn() -> Vec<FaultState>,
    /// Most children of a list.
    pub limit: usize,
}

/// The node that `path` names, `qps/0x45` for example, or all of it.
pub fn node(mut view: View<'_>, path: &str) -> Result<Node, Refusal> {
    let mut steps = path.split('/').filter(|step| !step.is_empty());
    let (list, object) = (steps.next(), steps.next());
    let not_found =
        || Refusal { kind: RefusalKind::NotFound, message: format!("there is no node \"{path}\"") };
    if steps.next().is_some() {
        return Err(not_found());
    }
    match (list, object) {
        (None, _) => {
            view.limit = FEW.min(view.limit);
            let children = NODES.iter().map(|(name, node)| named(name, node(&mut view, None)));
            Ok(Node { name: "card".into(), children: children.collect(), ..Node::default() })
        }
        (Some(name), object) => {
            let (name, node) =
                NODES.iter().find(|(known, _)| *known == name).ok_or_else(not_found)?;
            let all = named(name, node(&mut view, object));
            let Some(object) = object else { return Ok(all) };
            all.children.into_iter().find(|child| is(&child.name, object)).ok_or_else(not_found)
        }
    }
}

/// Makes a list's node. With the name of an object, only that one matters, with all that it has.
type Make = fn(&mut View<'_>, Option<&str>) -> Node;

/// The nodes under the root.
const NODES: &[(&str, Make)] = &[
    ("function", |view, _| values([("state", view.firmware.life.state.name().into())])),
    ("capabilities", capabilities),
    ("pages", |view, _| values([("held", view.firmware.pages.held().into())])),
    ("objects", |view, _| {
        values(view.firmware.object_counts().into_iter().map(|(k, n)| (k, n.into())))
    }),
    ("eqs", eqs),
    ("cqs", cqs),
    ("qps", qps),
    ("srqs", srqs),
    ("mkeys", |view, only| keys(view, only, |_| true)),
    // Type 2: those of type 1 are like any other indirect key.
    ("windows", |view, only| keys(view, only, |info| info.qpn != mtt::ANY_QPN)),
    ("port", port_node),
    ("counters", |view, _| {
        values(view.probe.counters(Opcode).iter().map(|(name, n)| (&**name, (*n).into())))
    }),
    ("mistakes", |view, _| {
        values(view.probe.mistakes().into_iter().map(|(name, n)| (name, n.into())))
    }),
    ("faults", faults),
    ("missing", |view, _| {
        values(view.probe.touched().iter().map(|(name, n)| (&**name, (*n).into())))
    }),
];

/// Fault rules, in the order in which they are tried.
fn faults(view: &mut View<'_>, _only: Option<&str>) -> Node {
    let children = (view.faults)().into_iter().map(|rule| {
        let FaultState { name, at, matched, fired, must_fire, rule: _ } = rule;
        named(
            &name,
            values([
                ("at", at.into()),
                ("matched", matched.into()),
                ("fired", fired.into()),
                ("must_fire", must_fire.into()),
            ]),
        )
    });
    Node { children: children.collect(), ..Node::default() }
}

fn named(name: &str, node: Node) -> Node {
    Node { name: name.into(), ..node }
}

fn values<'a>(of: impl IntoIterator<Item = (&'a str, Value)>) -> Node {
    let values = of.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Node { values, ..Node::default() }
}

/// A number is named in any base.
fn is(name: &str, wanted: &str) -> bool {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    name == wanted || number(name).is_some_and(|own| number(wanted) == Some(own))
}

/// A list of objects of which `make` shows one.
fn list(
    view: &mut View<'_>,
    ids: Vec<u32>,
    only: Option<&str>,
    make: impl Fn(&mut View<'_>, u32, bool) -> Node,
) -> Node {
    let mut node = values([("count", ids.len().into())]);
    let name = |id: u32| format!("{id:#x}");
    if let Some(only) = only {
        let wanted = ids.into_iter().find(|&id| is(&name(id), only));
        node.children.extend(wanted.map(|id| named(&name(id), make(view, id, true))));
        return node;
    }
    node.more = ids.len().saturating_sub(view.limit) as u64;
    for id in ids.into_iter().take(view.limit) {
        node.children.push(named(&name(id), make(view, id, false)));
    }
    node
}

/// Asks the firmware as a command would, and takes the answer apart.
fn query(
    view: &mut View<'_>,
    opcode: Opcode,
    op_mod: u16,
    ask: impl FnOnce(&mut Firmware, &Cx, &mut [u8]) -> Result<(), CmdError>,
) -> Result<Map<String, Value>, CmdError> {
    // What is asked here is not the guest's doing.
    let probe = Probe::new();
    let cx = Cx { bus: view.bus, probe: &probe, uid: 0, op_mod };
    let layout = command(opcode).1;
    let mut out = vec![0; layout.size];
    ask(view.firmware, &cx, &mut out)?;
    let hints = |name: &str| (name == "op_mod").then_some(op_mod.into());
    let fields = decode(layout, &out, &hints);
    Ok(fields
        .iter()
        .filter(|field| !field.is_zero())
        .map(|field| {
            let value = match (&field.content, field.name) {
                (_, Some(name)) => name.into(),
                (Content::Number(number), None) => number_value(*number),
                (Content::Bytes(bytes), None) => {
                    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
                }
            };
            (field.path.brief(), value)
        })
        .collect())
}

/// Numbers above 2^32 are addresses and the like: as strings they lose nothing.
fn number_value(number: u64) -> Value {
    if number >> 32 == 0 { number.into() } else { format!("{number:#x}").into() }
}

/// An object by its context: all of it, or what its name ends with.
fn context(answer: Result<Map<String, Value>, CmdError>, full: bool, brief: &[&str]) -> Node {
    let values = match answer {
        Ok(all) if full => all,
        Ok(all) => {
            let wanted =
                |path: &str| brief.iter().any(|name| path.rsplit('.').next() == Some(name));
            all.into_iter().filter(|(path, _)| wanted(path)).collect()
        }
        Err(error) => Map::from_iter([("error".to_owned(), error.to_string().into())]),
    };
    Node { values, ..Node::default() }
}

fn capabilities(view: &mut View<'_>, _only: Option<&str>) -> Node {
    let mut node = Node::default();
    for &(set, name) in CapType::NAMES {
        let mut ask = |current: u16| {
            query(view, Opcode::QUERY_HCA_CAP, set.0 << 1 | current, |fw, cx, out| {
                caps::query(fw, cx, QueryHcaCapIn(&[][..]), QueryHcaCapOut(out))
            })
        };
        let (Ok(now), Ok(most)) = (ask(1), ask(0)) else { continue };
        let mut values = Map::new();
        for (path, most) in most {
            let name = path.rsplit('.').next().unwrap_or(&path).to_owned();
            let value = match now.get(&path) {
                Some(now) if *now == most => most,
                now => format!("{} of {most}", now.unwrap_or(&Value::from(0))).into(),
            };
            values.insert(name, value);
        }
        node.children.push(Node { name: name.to_lowercase(), values, ..Node::default() });
    }
    node
}

fn eqs(view: &mut View<'_>, only: Option<&str>) -> Node {
    let ids = (0..=0xff).filter(|&eqn| view.firmware.eqs.get(eqn).is_some()).collect();
    list(view, ids, only, |view, id, full| {
        let answer = query(view, Opcode::QUERY_EQ, 0, |fw, cx, out| {
            let mut input = [0; QueryEqIn::SIZE];
            QueryEqIn(&mut input[..]).set_eq_number(id as u8);
            eq::query(fw, cx, QueryEqIn(&input[..]), QueryEqOut(out))
        });
        let brief = ["intr", "uar_page", "log_eq_size", "consumer_counter", "producer_counter"];
        context(answer, full, &brief)
    })
}

fn cqs(view: &mut View<'_>, only: Option<&str>) -> Node {
    let ids = view.firmware.cqs.iter().map(|(id, _)| id).collect();
    list(view, ids, only, |view, id, full| {
        let answer = query(view, Opcode::QUERY_CQ, 0, |fw, cx, out| {
            let mut input = [0; QueryCqIn::SIZE];
            QueryCqIn(&mut input[..]).set_cqn(id);
            cq::query(fw, cx, QueryCqIn(&input[..]), QueryCqOut(out))
        });
        let brief = ["status", "st", "log_cq_size", "consumer_counter", "producer_counter"];
        context(answer, full, &brief)
    })
}

fn qps(view: &mut View<'_>, only: Option<&str>) -> Node {
    let ids = view.firmware.qps.iter().map(|(id, _)| id).collect();
    list(view, ids, only, |view, id, full| {
        let answer = query(view, Opcode::QUERY_QP, 0, |fw, cx, out| {
            let mut input = [0; QueryQpIn::SIZE];
            QueryQpIn(&mut input[..]).set_qpn(id);
            qp::query(fw, cx, QueryQpIn(&input[..]), QueryQpOut(out))
        });
        let brief = ["state", "st", "pd", "remote_qpn", "cqn_snd", "cqn_rcv"];
        let mut node = context(answer, full, &brief);
        if let Some(qp) = view.firmware.qps.get(id) {
            node.values.insert("service".into(), qp.service.name().into());
            if let Some(sq) = qp.sq.filter(|_| full) {
                node.values.insert("sq.next".into(), sq.next.into());
                node.values.insert("sq.posted".into(), sq.posted.into());
            }
        }
        node
    })
}

fn srqs(view: &mut View<'_>, only: Option<&str>) -> Node {
    let ids = view.firmware.srqs.iter().map(|(id, _)| id).collect();
    list(view, ids, only, |view, id, full| {
        let kind = view.firmware.srqs.get(id).map_or(srq::Kind::Basic, |srq| srq.kind);
        let opcode = match kind {
            srq::Kind::Basic => Opcode::QUERY_SRQ,
            srq::Kind::Xrc => Opcode::QUERY_XRC_SRQ,
            srq::Kind::Rmp => Opcode::QUERY_RMP,
        };
        let answer = query(view, opcode, 0, |fw, cx, out| {
            // The number is in the same place of all of them.
            let mut input = [0; QuerySrqIn::SIZE];
            QuerySrqIn(&mut input[..]).set_srqn(id);
            match kind {
                srq::Kind::Basic => srq::query(fw, cx, QuerySrqIn(&input[..]), QuerySrqOut(out)),
                srq::Kind::Xrc => {
                    srq::query_xrc(fw, cx, QueryXrcSrqIn(&input[..]), QueryXrcSrqOut(out))
                }
                srq::Kind::Rmp => srq::query_rmp(fw, cx, QueryRmpIn(&input[..]), QueryRmpOut(out)),
            }
        });
        context(answer, full, &["state", "pd", "log_srq_size", "log_wq_sz", "cqn", "lwm"])
    })
}

/// Keys are named by the whole key, not only by their index.
fn keys(view: &mut View<'_>, only: Option<&str>, which: fn(&KeyInfo) -> bool) -> Node {
    let keys = view.firmware.mtt.infos().filter(which).map(|info| info.key).collect();
    list(view, keys, only, |view, key, full| {
        let Some(info) = view.firmware.mtt.info(mtt::index_of(key)) else {
            return Node::default();
        };
        let mut node = values(describe(&info));
        if full {
            node.children = pieces(view.firmware, &info);
        }
        node
    })
}

fn describe(info: &KeyInfo) -> [(&'static str, Value); 9] {
    let permitted = ACCESSES.iter().filter(|(_, access)| info.permits(*access));
    let access: Vec<String> = permitted.map(|(_, access)| access.to_string()).collect();
    let bound = (info.qpn != mtt::ANY_QPN).then_some(info.qpn);
    [
        ("free", info.free.into()),
        ("mode", info.mode.name().into()),
        ("pd", info.pd.into()),
        ("bound to QP", bound.into()),
        ("start", format!("{:#x}", info.start).into()),
        ("length", if info.length64 { "2^64".into() } else { number_value(info.len) }),
        ("page size", 1u64.checked_shl(info.log_page_size.into()).unwrap_or(0).into()),
        ("entries", format!("{} of {}", info.filled, info.capacity).into()),
        ("access", access.join(", ").into()),
    ]
}

/// What all of a key's addresses reach, as local reads see it.
fn pieces(firmware: &Firmware, info: &KeyInfo) -> Vec<Node> {
    let access = ACCESSES.iter().map(|(_, access)| *access).find(|access| info.permits(*access));
    let Some(access) = access.filter(|_| !info.length64 && !info.free) else { return Vec::new() };
    let question =
        Question { key: info.key, addr: info.start, len: info.len, access, pd: None, qpn: None };
    let mut all = Vec::new();
    let judged = firmware.mtt.visit(&question, |piece| {
        let at = match piece.place {
            mtt::Place::Memory(at) => format!("{at:#x}"),
            mtt::Place::Null => "nowhere".into(),
        };
        all.push(named(&at, values([("length", piece.len.into())])));
        if all.len() < PIECES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    if let Err(refusal) = judged {
        return vec![named("refused", values([("reason", refusal.to_string().into())]))];
    }
    all
}

fn port_node(view: &mut View<'_>, _only: Option<&str>) -> Node {
    let settings = query(view, Opcode::QUERY_HCA_VPORT_CONTEXT, 0, |fw, cx, out| {
        let mut input = [0; QueryHcaVportContextIn::SIZE];
        QueryHcaVportContextIn(&mut input[..]).set_port_num(1);
        port::query_context(
            fw,
            cx,
            QueryHcaVportContextIn(&input[..]),
            QueryHcaVportContextOut(out),
        )
    });
    let counters = query(view, Opcode::QUERY_VPORT_COUNTER, 0, |fw, cx, out| {
        let mut input = [0; QueryVportCounterIn::SIZE];
        QueryVportCounterIn(&mut input[..]).set_port_num(1);
        port::query_counter(fw, cx, QueryVportCounterIn(&input[..]), QueryVportCounterOut(out))
    });
    let child = |name, answer| named(name, context(answer, true, &[]));
    let children = vec![child("context", settings), child("counters", counters)];
    Node { children, ..Node::default() }
}

//! Datagrams to ourselves: the MAD layer's queue pairs, UD, shared receives, and what gets lost.

mod common;

use common::{Bench, Cq, IDENTITY, QKEY, Qp, QpOptions, failure, scatter_list};
use layouts::*;

/// Bytes that a receive has before the payload.
const GRH: u32 = 40;

struct Datagram<'a> {
    qpn: u32,
    lid: u16,
    qkey: u32,
    av: &'a dyn Fn(&mut WqeDatagramSeg<&mut [u8]>),
    solicited: bool,
    immediate: u32,
}

impl Default for Datagram<'_> {
    fn default() -> Self {
        let (lid, qkey) = (IDENTITY.lid, QKEY);
        Self { qpn: 0, lid, qkey, av: &|_| {}, solicited: false, immediate: 0 }
    }
}

impl Datagram<'_> {
    fn wqe(&self, data: &[u8]) -> Vec<u8> {
        let mut wqe = vec![0; 64];
        let mut ctrl = WqeCtrlSeg(&mut wqe[..16]);
        ctrl.set_ce(2);
        ctrl.set_se(self.solicited);
        ctrl.set_imm(self.immediate);
        let mut av = WqeDatagramSeg(&mut wqe[16..64]);
        av.set_qkey(self.qkey);
        av.set_ext(true);
        av.set_destination_qp_dct(self.qpn);
        av.set_rlid(self.lid);
        av.set_sl(3);
        (self.av)(&mut av);
        wqe.extend_from_slice(data);
        wqe
    }
}

/// Data segments.
fn gather(ranges: &[(u64, u32)], lkey: u32) -> Vec<u8> {
    scatter_list(ranges, lkey, ranges.len() * 16)
}

fn inline(data: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; 4];
    let mut view = WqeInlineSeg(&mut segment);
    view.set_inline(true);
    view.set_byte_count(data.len() as u16);
    segment.extend_from_slice(data);
    segment.resize(segment.len().next_multiple_of(16), 0);
    segment
}

/// Two queue pairs with a completion queue each.
struct Two {
    bench: Bench,
    from: Qp,
    from_cq: Cq,
    to: Qp,
    to_cq: Cq,
    buffer: u64,
}

impl Two {
    fn new(service: QpType) -> Self {
        Self::with(service, service, |_, _| {})
    }

    fn with(from: QpType, to: QpType, fill: impl FnOnce(&mut Bench, &mut QpOptions)) -> Self {
        let mut bench = Bench::new();
        let (from_cq, to_cq) = (bench.cq(4), bench.cq(4));
        let from = bench.ready_qp(&QpOptions::new(from, from_cq.cqn, from_cq.cqn));
        let mut options = QpOptions::new(to, to_cq.cqn, to_cq.cqn);
        fill(&mut bench, &mut options);
        let to = bench.ready_qp(&options);
        let buffer = bench.pages(8192);
        Self { bench, from, from_cq, to, to_cq, buffer }
    }

    /// Sends; returns the sender's completion.
    fn send(&mut self, opcode: WqeOpcode, wqe: &[u8]) -> Cqe64<[u8; 64]> {
        let Self { bench, from, from_cq, .. } = self;
        bench.post(from, opcode, wqe);
        bench.ring(from);
        bench.run();
        let mut seen = bench.drain(from_cq);
        assert_eq!(seen.len(), 1);
        seen.remove(0)
    }

    fn received(&mut self) -> Vec<Cqe64<[u8; 64]>> {
        self.bench.drain(&mut self.to_cq)
    }
}

fn ok(entry: &Cqe64<[u8; 64]>) -> bool {
    CqeOpcode(entry.opcode()) == CqeOpcode::REQ
}

#[test]
fn a_datagram_reaches_its_queue_pair() {
    let mut two = Two::new(QpType::UD);
    let (qpn, buffer) = (two.to.qpn, two.buffer);
    two.bench.write(buffer, b"part oneand part two");
    two.bench.write(buffer + 4096, &[0xee; 200]);
    // The header's place and the payload in pieces that do not match those of the sender.
    let ranges = [(buffer + 4096, 45), (buffer + 4096 + 100, 100)];
    two.bench.post_receive(&mut two.to, &ranges);
    let list = gather(&[(buffer, 8), (buffer + 8, 12)], two.bench.lkey);
    let sent = two.send(WqeOpcode::SEND, &Datagram { qpn, ..Datagram::default() }.wqe(&list));
    assert!(ok(&sent));
    assert_eq!(sent.sop(), WqeOpcode::SEND.0);
    let seen = two.received();
    assert_eq!(seen.len(), 1);
    let entry = &seen[0];
    assert_eq!(CqeOpcode(entry.opcode()), CqeOpcode::RESP_SEND);
    assert_eq!(entry.byte_cnt(), GRH + 20);
    assert_eq!((entry.qpn(), entry.rqpn()), (two.to.qpn, two.from.qpn));
    assert_eq!((entry.slid(), entry.sl(), entry.pkey()), (IDENTITY.lid, 3, 0xffff));
    assert_eq!((entry.srqn(), entry.wqe_counter(), entry.grh()), (0x77, 0, 0));
    assert!(!entry.se());
    assert_eq!(&two.bench.read::<5>(buffer + 4096 + 40), b"part ");
    assert_eq!(&two.bench.read::<15>(buffer + 4096 + 100), b"oneand part two");
    assert_eq!(two.bench.read::<40>(buffer + 4096), [0xee; 40], "no header came");
    assert_eq!(two.bench.read::<1>(buffer + 4096 + 115), [0xee]);
}

#[test]
fn immediate_and_inline_data_and_a_header() {
    let mut two = Two::new(QpType::UD);
    let (qpn, buffer) = (two.to.qpn, two.buffer);
    let gid = two.bench.f.fw.port.gid(0).unwrap();
    two.bench.post_receive(&mut two.to, &[(buffer, 100)]);
    let av = move |av: &mut WqeDatagramSeg<&mut [u8]>| {
        av.set_grh(true);
        av.set_rgid(&gid);
        av.set_tclass(0x12);
        av.set_flow_label(0x3_4567);
        av.set_hop_limit(64);
    };
    let datagram =
        Datagram { qpn, av: &av, solicited: true, immediate: 0x0102_0304, ..Datagram::default() };
    assert!(ok(&two.send(WqeOpcode::SEND_IMM, &datagram.wqe(&inline(b"hello")))));
    let entry = &two.received()[0];
    assert_eq!(CqeOpcode(entry.opcode()), CqeOpcode::RESP_SEND_IMM);
    assert_eq!((entry.immediate(), entry.byte_cnt()), (0x0102_0304, GRH + 5));
    assert!(entry.se());
    assert_eq!(entry.grh(), 1);
    let header: [u8; 40] = two.bench.read(buffer);
    assert_eq!(header[..8], [0x61, 0x23, 0x45, 0x67, 0, 8 + 24 + 4, 0x1b, 64]);
    assert_eq!(header[8..24], gid);
    assert_eq!(header[24..], gid);
    assert_eq!(&two.bench.read::<5>(buffer + 40), b"hello");
}

#[test]
fn the_special_queue_pairs_go_by_their_names_on_the_wire() {
    for (service, name, key) in [(QpType::QP0, 0, 0), (QpType::QP1, 1, 0x8001_0000)] {
        let mut bench = Bench::new();
        let mut cq = bench.cq(4);
        let mut qp = bench.ready_qp(&QpOptions::new(service, cq.cqn, cq.cqn));
        assert!(qp.qpn > 1);
        bench.transition(Opcode::RTS2RTS_QP, qp.qpn, 1 << 5, |qpc| qpc.set_q_key(key));
        let buffer = bench.pages(4096);
        bench.post_receive(&mut qp, &[(buffer, 40 + 256)]);
        // A Q_Key with its highest bit set stands for the queue pair's own.
        let qkey = key | 1 << 31;
        let wqe = Datagram { qpn: name, qkey, ..Datagram::default() }.wqe(&inline(&[7; 256]));
        bench.post(&mut qp, WqeOpcode::SEND, &wqe);
        bench.ring(&qp);
        bench.run();
        let seen = bench.drain(&mut cq);
        assert_eq!(seen.len(), 2, "{service}");
        let receive = seen.iter().find(|e| CqeOpcode(e.opcode()) == CqeOpcode::RESP_SEND).unwrap();
        assert_eq!((receive.rqpn(), receive.qpn()), (name, qp.qpn));
        assert_eq!(bench.read::<256>(buffer + 40), [7; 256]);
    }
}

#[test]
fn what_nobody_takes_is_lost_and_the_send_succeeds() {
    type Change = fn(&mut Two) -> Vec<u8>;
    let data = || inline(b"x");
    let cases: [(&str, Change); 7] = [
        ("another LID", |two| {
            Datagram { qpn: two.to.qpn, lid: 8, ..Datagram::default() }.wqe(&inline(b"x"))
        }),
        ("a multicast LID", |two| {
            Datagram { qpn: two.to.qpn, lid: 0xc001, ..Datagram::default() }.wqe(&inline(b"x"))
        }),
        ("another Q_Key", |two| {
            Datagram { qpn: two.to.qpn, qkey: 1, ..Datagram::default() }.wqe(&inline(b"x"))
        }),
        ("no such queue pair", |_| {
            Datagram { qpn: 0x99_9999, ..Datagram::default() }.wqe(&inline(b"x"))
        }),
        ("no special queue pair", |_| {
            Datagram { qpn: 1, ..Datagram::default() }.wqe(&inline(b"x"))
        }),
        ("a queue pair that does not receive", |two| {
            two.bench.state_command(Opcode::TORST_QP, two.to.qpn);
            Datagram { qpn: two.to.qpn, ..Datagram::default() }.wqe(&inline(b"x"))
        }),
        ("another GID", |two| {
            let av = |av: &mut WqeDatagramSeg<&mut [u8]>| {
                av.set_grh(true);
                av.set_rgid(&[1; 16]);
            };
            Datagram { qpn: two.to.qpn, av: &av, ..Datagram::default() }.wqe(&inline(b"x"))
        }),
    ];
    for (what, change) in cases {
        let mut two = Two::new(QpType::UD);
        let buffer = two.buffer;
        two.bench.post_receive(&mut two.to, &[(buffer, 100)]);
        let wqe = change(&mut two);
        assert!(ok(&two.send(WqeOpcode::SEND, &wqe)), "{what}");
        assert_eq!(two.received().len(), 0, "{what}");
        assert_eq!(two.bench.engine.lost_packets(), 1, "{what}");
    }
    let mut two = Two::new(QpType::UD);
    let qpn = two.to.qpn;
    assert!(ok(&two.send(WqeOpcode::SEND, &Datagram { qpn, ..Datagram::default() }.wqe(&data()))));
    assert_eq!(two.bench.engine.lost_packets(), 1, "no receive was posted");
}

#[test]
fn a_message_longer_than_the_path_or_the_receive() {
    let mut two = Two::new(QpType::UD);
    let (qpn, buffer) = (two.to.qpn, two.buffer);
    two.bench.post_receive(&mut two.to, &[(buffer, 40 + 99)]);
    two.bench.post_receive(&mut two.to, &[(buffer, 40 + 99)]);
    let list = gather(&[(buffer, 100)], two.bench.lkey);
    let datagram = Datagram { qpn, ..Datagram::default() };
    assert!(ok(&two.send(WqeOpcode::SEND, &datagram.wqe(&list))), "the sender can't know");
    let seen = two.received();
    assert_eq!(failure(&seen[0]).0, CqeSyndrome::LOCAL_LENGTH_ERR);
    assert_eq!(failure(&seen[1]).0, CqeSyndrome::WR_FLUSH_ERR, "in error, and flushed");
    assert_eq!(two.bench.state(qpn), QpState::ERR);
    // 4096 bytes fit, 4097 don't.
    let list = gather(&[(buffer, 4000), (buffer, 96)], two.bench.lkey);
    assert!(ok(&two.send(WqeOpcode::SEND, &datagram.wqe(&list))));
    let list = gather(&[(buffer, 4000), (buffer, 97)], two.bench.lkey);
    let sent = two.send(WqeOpcode::SEND, &datagram.wqe(&list));
    assert_eq!(failure(&sent).0, CqeSyndrome::LOCAL_LENGTH_ERR);
}

#[test]
fn keys_that_do_not_permit_it() {
    let local = |why| (CqeSyndrome::LOCAL_PROT_ERR, why);
    type MakeKey = fn(&mut Bench) -> u32;
    let cases: [(&str, MakeKey, (CqeSyndrome, u8)); 4] = [
        ("no such key", |_| 0x77_7700, local(0x51)),
        ("another variant", |b| b.lkey ^ 1, local(0x51)),
        (
            "another domain",
            |b| {
                let pd = AllocPdOut(&b.f.ok(Opcode::ALLOC_PD, 0, 0x10, 0x10, |_| {})).pd();
                b.pa_key(pd)
            },
            local(0x52),
        ),
        (
            "out of bounds",
            |b| {
                let pd = b.pd;
                b.key(|mkc| {
                    mkc.set_pd(pd);
                    mkc.set_len(4);
                    mkc.set_lr(true);
                })
            },
            local(0x53),
        ),
    ];
    for (what, make, expected) in cases {
        let mut two = Two::new(QpType::UD);
        let (qpn, buffer) = (two.to.qpn, two.buffer);
        two.bench.post_receive(&mut two.to, &[(buffer, 100)]);
        let key = make(&mut two.bench);
        let wqe = Datagram { qpn, ..Datagram::default() }.wqe(&gather(&[(buffer, 8)], key));
        let sent = two.send(WqeOpcode::SEND, &wqe);
        assert_eq!(failure(&sent), expected, "{what}");
        assert_eq!(two.bench.state(two.from.qpn), QpState::SQER, "{what}");
        assert_eq!(two.received().len(), 0, "{what}");
    }
    // The receiver's key: without the right to write.
    let mut two = Two::new(QpType::UD);
    let (qpn, buffer, pd) = (two.to.qpn, two.buffer, two.bench.pd);
    let read_only = two.bench.key(|mkc| {
        mkc.set_pd(pd);
        mkc.set_length64(true);
        mkc.set_lr(true);
    });
    let lkey = std::mem::replace(&mut two.bench.lkey, read_only);
    two.bench.post_receive(&mut two.to, &[(buffer, 100)]);
    two.bench.lkey = lkey;
    assert!(ok(
        &two.send(WqeOpcode::SEND, &Datagram { qpn, ..Datagram::default() }.wqe(&inline(b"x")))
    ));
    assert_eq!(failure(&two.received()[0]), (CqeSyndrome::LOCAL_PROT_ERR, 0x52));
}

/// A shared receive queue of 16 WQEs of 64 bytes.
struct Srq {
    srqn: u32,
    ring: u64,
    record: u64,
    posted: u16,
    head: u16,
}

impl Srq {
    fn new(bench: &mut Bench) -> Self {
        let (ring, record, pd) = (bench.pages(4096), bench.pages(8), bench.pd);
        // As the drivers do: a list in order.
        for i in 0..16u16 {
            let mut next = [0; 16];
            WqeSrqNextSeg(&mut next[..]).set_next_wqe_index((i + 1) % 16);
            bench.write(ring + 64 * u64::from(i), &next);
        }
        let out = bench.f.ok(Opcode::CREATE_RMP, 0, 0x118, 0x10, |input| {
            input[0x110..].copy_from_slice(&ring.to_be_bytes());
            let mut input = CreateRmpIn(input);
            let mut context = input.ctx_mut();
            context.set_state(1);
            let mut wq = context.wq_mut();
            wq.set_log_wq_sz(4);
            wq.set_log_wq_stride(6);
            wq.set_pd(pd);
            wq.set_dbr_addr(record);
        });
        Self { srqn: CreateRmpOut(&out).rmpn(), ring, record, posted: 0, head: 0 }
    }

    fn post(&mut self, bench: &Bench, ranges: &[(u64, u32)]) {
        let at = self.ring + 64 * u64::from(self.head);
        bench.write(at + 16, &scatter_list(ranges, bench.lkey, 48));
        self.head = WqeSrqNextSeg(&bench.read::<16>(at)).next_wqe_index();
        self.posted += 1;
        bench.write(self.record, &u32::from(self.posted).to_be_bytes());
    }

    fn set_limit(&self, bench: &mut Bench, limit: u16) {
        bench.f.ok(Opcode::MODIFY_RMP, 0, 0x110, 0x10, |input| {
            let mut input = ModifyRmpIn(input);
            input.set_rmp_state(1);
            input.set_rmpn(self.srqn);
            input.bitmask_mut().set_lwm(true);
            input.ctx_mut().wq_mut().set_lwm(limit);
        });
    }
}

#[test]
fn shared_receives_are_used_in_the_order_of_their_list() {
    let mut srq = None;
    let mut two = Two::with(QpType::UD, QpType::UD, |bench, options| {
        let new = Srq::new(bench);
        options.srqn = Some(new.srqn);
        srq = Some(new);
    });
    let mut srq = srq.unwrap();
    let (qpn, buffer) = (two.to.qpn, two.buffer);
    // The list goes 0, 5, 6, …: as after frees in another order.
    let mut next = [0; 16];
    WqeSrqNextSeg(&mut next[..]).set_next_wqe_index(5);
    two.bench.write(srq.ring, &next);
    for i in 0..4 {
        srq.post(&two.bench, &[(buffer + 512 * i, 512)]);
    }
    srq.set_limit(&mut two.bench, 3);
    let datagram = Datagram { qpn, ..Datagram::default() };
    for (i, wqe) in [0, 5, 6, 7].into_iter().enumerate() {
        two.send(WqeOpcode::SEND, &datagram.wqe(&inline(&[i as u8; 100])));
        let entry = &two.received()[0];
        assert_eq!((entry.wqe_counter(), entry.srqn()), (wqe, 0x77));
        assert_eq!(two.bench.read::<100>(buffer + 512 * i as u64 + 40), [i as u8; 100]);
        let events = two.bench.async_events();
        // Told once, when two are left of the three that were asked for.
        let told = vec![(EventType::SRQ_RQ_LIMIT, srq.srqn)];
        assert_eq!(events, if i == 1 { told } else { vec![] });
    }
    two.send(WqeOpcode::SEND, &datagram.wqe(&inline(b"x")));
    assert_eq!(two.bench.engine.lost_packets(), 1, "empty");
    srq.set_limit(&mut two.bench, 2);
    assert_eq!(two.bench.async_events().len(), 1, "too few already");
}

#[test]
fn a_shared_list_that_leads_out_of_its_buffer() {
    let mut srq = None;
    let mut two = Two::with(QpType::UD, QpType::UD, |bench, options| {
        let new = Srq::new(bench);
        options.srqn = Some(new.srqn);
        srq = Some(new);
    });
    let mut srq = srq.unwrap();
    let (qpn, buffer) = (two.to.qpn, two.buffer);
    srq.post(&two.bench, &[(buffer, 512)]);
    let mut next = [0; 16];
    WqeSrqNextSeg(&mut next[..]).set_next_wqe_index(16);
    two.bench.write(srq.ring, &next);
    for _ in 0..2 {
        let wqe = Datagram { qpn, ..Datagram::default() }.wqe(&inline(b"x"));
        two.send(WqeOpcode::SEND, &wqe);
    }
    assert_eq!(two.bench.async_events(), [(EventType::SRQ_CATAS_ERROR, srq.srqn)], "told once");
    let out = two.bench.f.ok(Opcode::QUERY_RMP, 0, 0x10, 0x110, |i| {
        QueryRmpIn(i).set_rmpn(srq.srqn);
    });
    assert_eq!(QueryRmpOut(&out).rmp_context().state(), 3);
}

#[test]
fn a_datagram_of_no_bytes_needs_room_for_its_headers_only() {
    let mut two = Two::new(QpType::UD);
    let (qpn, buffer) = (two.to.qpn, two.buffer);
    for ranges in [&[(buffer, GRH)][..], &[(buffer, 10), (buffer, GRH)]] {
        two.bench.post_receive(&mut two.to, ranges);
        assert!(ok(&two.send(WqeOpcode::SEND, &Datagram { qpn, ..Datagram::default() }.wqe(&[]))));
        let seen = two.received();
        assert_eq!(CqeOpcode(seen[0].opcode()), CqeOpcode::RESP_SEND);
        assert_eq!(seen[0].byte_cnt(), GRH);
    }
    two.bench.post_receive(&mut two.to, &[(buffer, GRH - 1)]);
    assert!(ok(&two.send(WqeOpcode::SEND, &Datagram { qpn, ..Datagram::default() }.wqe(&[]))));
    let seen = two.received();
    assert_eq!(failure(&seen[0]).0, CqeSyndrome::LOCAL_LENGTH_ERR);
}

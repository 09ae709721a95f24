"""DMA and keys that do not do what they should."""

import ctypes
import struct

import card
import host
import rdma

e = rdma.e
OLD, NEW = b"o" * 4096, b"n" * 4096


def fresh():
    """A pair, a page of new data at the one and of old data at the other; what the other's application is told."""
    card.disarm()
    events = rdma.Events()
    one, other = rdma.Half(inline=64), rdma.Half(context=events.context)
    one.connect(other)
    other.connect(one)
    one.memory.write(0, NEW)
    other.memory.write(0, OLD)
    return one, other, events


def told(completions):
    return [(c.wr_id, *rdma.told(c)) for c in completions]


def statuses(completions):
    return [int(c.status) for c in completions]


def ring(half, sge):
    """Where in this process the work request is whose only data segment that is."""
    needle = rdma.data_segment(half.memory.address, sge, half.mr.lkey)
    # The control segment is before those of the remote address and the data.
    number = lambda place: struct.unpack(">I", ctypes.string_at(place - 28, 4))[0] >> 8
    (place,) = rdma.find(needle, lambda place: number(place) == half.qp.qp_num)
    return place


def work_request_unreadable():
    other, one, events = fresh()
    one.rdma_write(other, 1, length=61)
    one.take(1)
    card.arm("work request unreadable", addr=rdma.page(ring(one, 61)))
    one.rdma_write(other, 2)
    came = one.take(1, seconds=0.5)
    kinds = events.take()
    good = not came and kinds == [e.IBV_EVENT_QP_FATAL] and one.state() == e.IBV_QPS_ERR
    host.promise("work-request-unreadable", good, f"{rdma.words(came)}; events {kinds}; state {one.state()}")


def write(rule, length=4096, flags=0, **where):
    """A write under a rule: what the writer and the peer's application are told, and the memory then."""
    one, other, events = fresh()
    card.arm(rule, **{key: value(one, other) for key, value in where.items()})
    one.rdma_write(other, 1, length=length, flags=flags)
    return told(one.take(1)), events.take(), other.memory.read(0, 4096)


def message(rule, length=4096, flags=0, **where):
    """A message under a rule: what the sender, then the receiver is told, and the memory then."""
    one, other, _ = fresh()
    card.arm(rule, **{key: value(one, other) for key, value in where.items()})
    other.receive(1, [other.sge(0, length)])
    one.send(1, length=length, flags=flags)
    return one.take(1), other.take(1), other.memory.read(0, 4096)


def source(one, _):
    return one.memory.page()


def target(_, other):
    return other.memory.page()


def refused():
    came, kinds, there = write("source unreadable", src=source)
    host.promise("source-unreadable", came == [(1, 4, 0x51)] and there == OLD, f"{came}; events {kinds}")
    # What is in the work request itself is written, not copied.
    inline = {"length": 64, "flags": e.IBV_SEND_INLINE}
    came, kinds, there = write("target unwritable", addr=target, **inline)
    good = came == [(1, 11, 0x89)] and there == OLD and kinds == [e.IBV_EVENT_QP_REQ_ERR]
    host.promise("target-unwritable", good, f"{came}; events {kinds}")
    sent, received, _ = message("target unwritable", addr=target, **inline)
    good = (statuses(sent), statuses(received)) == ([11], [4])
    host.promise("receive-unwritable", good, f"sent {rdma.words(sent)}; received {rdma.words(received)}")


def unseen():
    for rule, moved in (("torn", 300), ("never there", 0)):
        sent, received, there = message(rule, dst=target)
        lengths = [c.byte_len for c in received]
        good = (statuses(sent), statuses(received), lengths) == ([0], [0], [4096])
        good = good and there == NEW[:moved] + OLD[moved:]
        host.promise(rule.replace(" ", "-"), good, f"told {lengths} bytes; {there.count(b'n')} are new")


def after_teardown():
    one, other, _ = fresh()
    card.arm("kept back", dst=target(one, other))
    one.rdma_write(other, 1, length=4096)
    came = one.take(1)
    rkey = other.mr.rkey
    gone = [rdma.refusal(thing.close) for thing in (other.qp, other.mr, one.qp)]
    key = card.key(rkey)
    live = key is not None and not key["free"]
    first = other.memory.read(0, 4096)
    released = card.release("kept back")
    then = other.memory.read(0, 4096)
    good = statuses(came) == [0] and not any(gone) and not live and first == OLD and then == NEW
    host.promise("after-teardown", good, f"closed {gone}, live {live}: {first[:4]}, after {released} {then[:4]}")


def keys():
    came, kinds, _ = write("local key gone", key=lambda one, _: one.mr.lkey)
    host.promise("local-key-gone", came == [(1, 4, 0x51)], f"{came}; events {kinds}")
    sent, received, _ = message("receive key gone", key=lambda _, other: other.mr.lkey)
    good = (statuses(sent), statuses(received)) == ([11], [4])
    host.promise("receive-key-gone", good, f"sent {rdma.words(sent)}; received {rdma.words(received)}")
    came, kinds, _ = write("remote key gone", key=lambda _, other: other.mr.rkey)
    good = came == [(1, 10, 0x88)] and kinds == [e.IBV_EVENT_QP_ACCESS_ERR]
    host.promise("remote-key-gone", good, f"{came}; events {kinds}")


def stale():
    one, other, _ = fresh()
    region = other.memory.register(other.pd, 4096)
    remote = (region.rkey, other.memory.address)
    card.arm("stale", key=region.rkey)
    seen = []
    for number, letter in enumerate((b"1", b"2", b"3")):
        one.memory.write(0, letter * 64)
        one.post(e.IBV_WR_RDMA_WRITE, number, [one.sge(0, 64)], remote)
        seen.append((statuses(one.take(1)), other.memory.read(0, 1)))
        if number == 0:
            region.close()
    host.promise("stale", seen == [([0], b"1"), ([0], b"2"), ([10], b"2")], repr(seen))


work_request_unreadable()
refused()
unseen()
after_teardown()
keys()
stale()

"""Completions that are not what they should be."""

import time

import card
import host
import rdma

e = rdma.e


def armed(rule, receiver=False, **more):
    """A pair; the rule alone holds, for the sender's completions or the receiver's."""
    card.disarm()
    one, other = rdma.pair(**more)
    card.arm(rule, qpn=(other if receiver else one).qp.qp_num)
    return one, other


def message(rule, length, room):
    """What is received of a message of `n`, and the memory around it, which was `o`."""
    one, other = armed(rule, receiver=True)
    one.memory.write(0, b"n" * 64)
    other.memory.write(0, b"o" * 128)
    other.receive(1, [other.sge(0, room)])
    one.send(1, length=length)
    return other.take(1), other.memory.read(0, 128)


def byte_count():
    came, there = message("counts 7", 64, 64)
    told = [(c.status, c.byte_len) for c in came]
    host.promise("byte-count", told == [(0, 7)] and there == b"n" * 64 + b"o" * 64, f"{told} {there}")
    came, there = message("counts 7", 20, 64)
    told = [(c.status, c.byte_len) for c in came]
    host.promise("byte-count-inline", told == [(0, 7)] and there == b"n" * 7 + b"o" * 121, f"{told} {there}")
    came, there = message("counts 30", 16, 20)
    behind = there[20:] == b"o" * 108
    told = [int(c.status) for c in came]
    host.promise("byte-count-too-long", told == [e.IBV_WC_LOC_LEN_ERR] and behind, f"{told} {there}")


def lost_send():
    one, other = armed("second lost", depth=8)
    for number in (1, 2, 3):
        one.memory.write(64 * number, bytes([number]) * 64)
        one.rdma_write(other, number, offset=64 * number, at=64 * number)
    came = one.take(3, seconds=1)
    there = [other.memory.read(64 * number, 1)[0] for number in (1, 2, 3)]
    for number in range(8):
        one.rdma_write(other, number)
    more = one.take(8)
    good = rdma.outcomes(came) == [(1, 0), (3, 0)] and there == [1, 2, 3]
    good = good and rdma.outcomes(more) == [(number, 0) for number in range(8)]
    host.promise("lost-send", good, f"{rdma.words(came)}; memory {there}; then {rdma.words(more)}")


def lost_receive():
    depth = 4
    one, other = armed("second lost", receiver=True, recv_depth=depth)
    for number in range(depth):
        other.receive(number, [other.sge(0, 64)])
        one.send(number)
    came = other.take(depth, seconds=1)
    posted = [rdma.name(rdma.refusal(lambda: other.receive(9, [other.sge(0, 64)]))) for _ in range(depth)]
    good = rdma.outcomes(came) == [(0, 0), (2, 0), (3, 0)] and posted == ["success"] * 3 + ["ENOMEM"]
    host.promise("lost-receive", good, f"{rdma.words(came)}; then {posted}")


def twice():
    one, other = armed("second twice")
    for number in (1, 2, 3):
        one.rdma_write(other, number)
    came = one.take(5, seconds=1)
    host.promise("twice-send", rdma.outcomes(came) == [(1, 0), (2, 0), (2, 0), (3, 0)], rdma.words(came))
    one, other = armed("second twice", receiver=True)
    for number in (1, 2, 3):
        other.receive(number, [other.sge(0, 64)])
        one.send(number, length=40 + number)
    came = other.take(5, seconds=1)
    told = [(c.wr_id, int(c.status), c.byte_len) for c in came]
    good = told == [(1, 0, 41), (2, 0, 42), (2, 0, 42), (3, 0, 43)]
    host.promise("twice-receive", good, repr(told))


def flushes_lost():
    depth = 8
    one, other = armed("flushes lost", receiver=True, recv_depth=depth)
    for number in range(depth):
        other.receive(number, [other.sge(0, 64)])
    other.fail()
    came = other.take(depth, seconds=1)
    told = rdma.outcomes(came) == [(number, e.IBV_WC_WR_FLUSH_ERR) for number in (0, 1, 4, 5, 6, 7)]
    host.promise("flushes-lost", told, rdma.words(came))
    for half in (one, other):
        half.reset()
    one.connect(other)
    other.connect(one)
    for number in range(depth):
        other.receive(number, [other.sge(0, 64)])
        one.send(number)
    came = other.take(depth + 1, seconds=1)
    good = rdma.outcomes(came) == [(number, 0) for number in range(depth)]
    host.promise("flushes-lost-reset", good, rdma.words(came))


def owner_late():
    one, other = armed("owner late", notify=True)
    one.cq.req_notify()
    one.rdma_write(other, 1)
    one.rdma_write(other, 2)
    woken = one.channel.take(one.cq, count=1)
    none = one.take(1, seconds=0)
    came = one.take(2)
    good = woken == 1 and not none and rdma.outcomes(came) == [(1, 0), (2, 0)]
    host.promise("owner-late", good, f"{woken} event, with it {rdma.words(none)}; then {rdma.words(came)}")


def overtaken():
    one, other = armed("first held")
    for number in (1, 2, 3):
        one.rdma_write(other, number)
    came = one.take(3, seconds=1)
    card.release("first held")
    last = one.take(1)
    good = [rdma.outcomes(found) for found in (came, last)] == [[(2, 0), (3, 0)], [(1, 0)]]
    host.promise("overtaken", good, f"{rdma.words(came)}; released {rdma.words(last)}")


def late():
    one, other = armed("first late")
    begin = time.monotonic()
    one.rdma_write(other, 1)
    came = one.take(1)
    took = time.monotonic() - begin
    host.promise("late", took > 0.35 and rdma.outcomes(came) == [(1, 0)], f"{rdma.words(came)} after {took:.2f} s")


def of_nobody():
    one, other = armed("of nobody")
    one.rdma_write(other, 1)
    failed = []

    def fails():
        failed.append(rdma.refusal(lambda: one.take(1, seconds=0)))
        return failed[-1]

    card.wait(fails)
    one.rdma_write(other, 2)
    came = one.take(1)
    good = failed[-1] and rdma.outcomes(came) == [(2, 0)]
    host.promise("of-nobody", good, f"polling fails with {failed[-1]}; then {rdma.words(came)}")


def before_data():
    one, other = rdma.pair()
    one.memory.write(0, b"n" * 4096)
    other.memory.write(0, b"o" * 4096)
    card.arm("data late", dst=other.memory.page())
    other.receive(1, [other.sge(0, 4096)])
    one.send(1, length=4096)
    came = other.take(1)
    first = other.memory.read(0, 4096)
    released = card.release("data late")
    then = other.memory.read(0, 4096)
    good = rdma.outcomes(came) == [(1, 0)] and first == b"o" * 4096 and then == b"n" * 4096
    host.promise("before-data", good, f"{rdma.words(came)}: {first[:4]}, after {released} released {then[:4]}")


byte_count()
lost_send()
lost_receive()
twice()
flushes_lost()
owner_late()
overtaken()
late()
of_nobody()
before_data()

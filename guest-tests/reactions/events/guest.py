"""Events that are invented, lost, late, doubled, in another order."""

import contextlib
import os

import card
import driver
import host
import kernel
import rdma
from commands import Caller
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from rdma import e

# DEVICE_SPEED_CHANGE, which comes with the state's changes in kernels that know it. This libibverbs does not.
SPEED = [20] if int(os.uname().release.split(".")[0]) >= 7 else []
# The kinds of a port's change, and what an application hears.
PORT = {
    1: [e.IBV_EVENT_PORT_ERR, *SPEED],
    4: [e.IBV_EVENT_PORT_ACTIVE, *SPEED],
    5: [e.IBV_EVENT_PORT_ERR, *SPEED],
    6: [e.IBV_EVENT_LID_CHANGE],
    7: [e.IBV_EVENT_PKEY_CHANGE],
    9: [e.IBV_EVENT_CLIENT_REREGISTER],
    15: [],
}
LID, GUID = 6, 8
QUEUE_PAIR = {
    "PATH_MIG": e.IBV_EVENT_PATH_MIG,
    "COMM_EST": e.IBV_EVENT_COMM_EST,
    "SQ_DRAINED": e.IBV_EVENT_SQ_DRAINED,
    "SRQ_LAST_WQE": e.IBV_EVENT_QP_LAST_WQE_REACHED,
    "WQ_CATAS_ERROR": e.IBV_EVENT_QP_FATAL,
    "PATH_MIG_FAILED": e.IBV_EVENT_PATH_MIG_ERR,
    "WQ_INVAL_REQ_ERROR": e.IBV_EVENT_QP_REQ_ERR,
    "WQ_ACCESS_ERROR": e.IBV_EVENT_QP_ACCESS_ERR,
}
RECEIVE_QUEUE = {"SRQ_CATAS_ERROR": e.IBV_EVENT_SRQ_ERR, "SRQ_RQ_LIMIT": e.IBV_EVENT_SRQ_LIMIT_REACHED}
ETIMEDOUT = 110
# Entries of the queue, and of one kind in a flood.
ENTRIES, EACH = 8192, 200


def invented(kind, sub_type=0, **values):
    """The card invents an event in this block."""
    return card.rule("time", {"invent": kind, "sub_type": sub_type, "set": values}, after_ms=1)


def change(kind, port=1):
    return invented("PORT_CHANGE", kind, **{"port.port_num": port})


def hears(block, user, count=1, seconds=0.3):
    """What an application hears of it; so many events are waited for."""
    with block as rule:
        if not card.wait_fired(rule):
            raise card.NeverFired(rule)
        return user.take(seconds, count)


log = kernel.Log()
driver.unbind()
with card.armed("is set", "general"):
    driver.bind()
    driver.wait_active()
user, stranger = rdma.Events(), rdma.Events()
half = rdma.Half(user.context, notify=True)
half.connect(half)
cqn = card.values(f"qps/{half.qp.qp_num:#x}")["qpc.cqn_snd"]
queue = card.events_queue()
# With the first one the driver makes some of its own.
first = SRQ(half.pd, SrqInitAttr(SrqAttr(max_wr=16)))
others = card.numbers("srqs")
srq = SRQ(half.pd, SrqInitAttr(SrqAttr(max_wr=16)))
(srqn,) = card.numbers("srqs") - others

# Those of one change come in any order.
found = {kind: sorted(hears(change(kind), user, len(events))) for kind, events in PORT.items()}
expected = {kind: sorted(events) for kind, events in PORT.items()}
everybody = sorted(event for events in PORT.values() for event in events)
stranger_found = sorted(stranger.take(0.3, len(everybody)))
host.promise("port", found == expected and stranger_found == everybody, f"{found}, {stranger_found}")

asked = card.counter("command:QUERY_HCA_VPORT_GID")
found = hears(change(GUID), user, 0, 1)
asked = card.counter("command:QUERY_HCA_VPORT_GID") - asked
host.promise("gid", found == [] and asked, f"{found}, {asked} queries")

found = hears(change(LID, 5), user, 0)
line = log.wait("event on port 5", 5)
host.promise("other-port", found == [] and line, f"{found}, {line}")

found = {kind: hears(invented(kind, **{"qp_srq.qp_srq_n": half.qp.qp_num}), user) for kind in QUEUE_PAIR}
kept = found == {kind: [event] for kind, event in QUEUE_PAIR.items()} and stranger.take() == []
host.promise("queue-pair", kept, repr(found))

found = {kind: hears(invented(kind, **{"qp_srq.qp_srq_n": srqn}), user) for kind in RECEIVE_QUEUE}
kept = found == {kind: [event] for kind, event in RECEIVE_QUEUE.items()} and stranger.take() == []
host.promise("receive-queue", kept, repr(found))

found = hears(invented("CQ_ERROR", **{"cq_err.cqn": cqn, "cq_err.syndrome": 1}), user)
line = log.find(rf"CQ error on CQN {cqn:#x}, syndrome 0x1")
host.promise("completion-queue", found == [e.IBV_EVENT_CQ_ERR] and line and not stranger.take(), f"{found}\n{line}")

found = {}
for kind in (*QUEUE_PAIR, *RECEIVE_QUEUE):
    found[kind] = hears(invented(kind, **{"qp_srq.qp_srq_n": 0xFFFF0}), user, 0, 0.1)
found["CQ_ERROR"] = hears(invented("CQ_ERROR", **{"cq_err.cqn": 0xFFFF0}), user, 0)
line = log.find("Async event for bogus CQ 0xffff0")
host.promise("unknown", not any(found.values()) and line, f"{found}\n{line}")

with invented("TEMP_WARN_EVENT", **{"temp_warning.sensor_warning_lsb": 1}):
    line = log.wait("High temperature on sensors with bit set (0x)?0 (0x)?1", 5)
host.promise("temperature", line, line)

begun = len(log.lines())
found = hears(invented("GENERAL_EVENT", 0x7F), user, 0)
lines = [line for line in log.lines()[begun:] if "mlx5" in line]
host.promise("general", found == [] and not lines, f"{found}, {lines}")


def meets(rule, block, count):
    """What the application hears of an event that meets this rule."""
    with card.armed(rule):
        return hears(block, user, count)


found = meets("lost", card.rule("time", {"port": "down"}, after_ms=1), 0)
state = user.context.query_port(1).state
again = hears(card.rule("time", {"port": "up"}, after_ms=1), user, 1 + len(SPEED))
kept = found == [] and state == e.IBV_PORT_DOWN and sorted(again) == sorted([e.IBV_EVENT_PORT_ACTIVE, *SPEED])
host.promise("lost", kept, f"{found}, state {state}, {again}")

early = []
with card.armed("delayed"):
    with change(LID) as rule:
        card.wait_fired(rule)
        early = user.take(0.2)
        late = user.take(0.3, 1)
host.promise("delayed", (early, late) == ([], [e.IBV_EVENT_LID_CHANGE]), f"{early}, {late}")

found = meets("twice", change(LID), 2)
host.promise("twice", found == [e.IBV_EVENT_LID_CHANGE] * 2, repr(found))

qpn = {"qp_srq.qp_srq_n": half.qp.qp_num}
with card.armed("overtaken"), invented("COMM_EST", **qpn) as first:
    card.wait_fired(first)
    found = hears(invented("SQ_DRAINED", **qpn), user, 2)
host.promise("order", found == [e.IBV_EVENT_SQ_DRAINED, e.IBV_EVENT_COMM_EST], repr(found))

with card.armed("owner"), change(LID) as rule:
    card.wait_fired(rule)
    early = user.take(0.2)
    late = user.take(0.3, 1)
host.promise("owner", (early, late) == ([], [e.IBV_EVENT_LID_CHANGE]), f"{early}, {late}")


def command(rule, pattern):
    """The errno of a command whose event meets this rule, the seconds that it took, and lines of the log since."""
    begun = len(log.lines())
    card.quiet()
    with card.armed(rule):
        number, seconds = Caller(user.context).result()
    return number, seconds, [line for line in log.lines()[begun:] if pattern in line]


number, seconds, lines = command("command owner", "ecovered")
kept = not number and seconds >= 0.5 and not lines
host.promise("command-owner", kept, f"{rdma.name(number)} after {seconds:.1f} s\n{lines}")

number, seconds, lines = command("command late", "ALLOC_PD(0x800) recovered after timeout")
kept = not number and seconds >= 4.5 and len(lines) == 1
host.promise("command-late", kept, f"{rdma.name(number)} after {seconds:.1f} s\n{lines}")

number, seconds, lines = command("command lost", "No done completion")
slot = int(lines[0].split("cmd[")[1].split("]")[0])
with invented("CMD", **{"cmd.vector": 1 << slot}):
    line = log.wait(rf"Command completion arrived after timeout \(entry idx = {slot}\)")
host.promise("command-lost", number == ETIMEDOUT and line, f"{rdma.name(number)}\n{lines}\n{line}")


def woken(count=1, rule=None):
    """How often the application is woken by a completion whose event meets this rule; its completions."""
    half.cq.req_notify(False)
    if rule:
        card.arm(rule)
    half.post(e.IBV_WR_RDMA_WRITE, 1, [half.sge()], (half.mr.rkey, half.memory.address))
    if rule and not card.wait_fired(rule):
        raise card.NeverFired(rule)
    times = half.channel.take(half.cq, count=count)
    if rule:
        card.clear(rule)
    return times, len(half.take())


good = woken()
found = woken(0, "completion lost"), woken()
host.promise("completion-lost", (good, *found) == ((1, 1), (0, 1), (1, 1)), f"{good}, {found}")
found = woken(1, "completion twice"), woken()
host.promise("completion-twice", found in (((1, 1), (1, 1)), ((2, 1), (1, 1))), repr(found))
found = woken(0, "completion bogus"), woken()
host.promise("completion-bogus", found == ((0, 1), (1, 1)), repr(found))


def unread():
    """The entries of the queue that the driver has not read."""
    now = card.values(f"eqs/{queue:#x}")
    return now["eqc.producer_counter"] - now["eqc.consumer_counter"]


def flood():
    """Events of kinds that the driver does not know, all at the same time."""
    with contextlib.ExitStack() as block:
        each = [{"invent": "PORT_CHANGE", "sub_type": kind, "set": {"port.port_num": 1}} for kind in range(32, 42)]
        for rule in [block.enter_context(card.rule("time", do, EACH, after_ms=1)) for do in each]:
            card.wait_fired(rule, EACH, 60)


def flooded(count, *rules):
    """How many entries are there when more came than the queue can hold, and what is heard of an event that comes
    when everybody looks again."""
    card.quiet()
    card.arm("deaf", vector=card.vector(queue))
    for rule in rules:
        card.arm(rule)
    # The driver may still take some of the first.
    while unread() < ENTRIES:
        flood()
    flood()
    full = unread()
    card.clear("deaf")
    with card.rule("time", {"interrupt": card.vector(queue)}, after_ms=1) as rule:
        card.wait_fired(rule)
        card.quiet()
    found = hears(change(LID), user, count, 1)
    card.disarm()
    return full, found


full, found = flooded(1)
host.promise("full", full == ENTRIES and found == [e.IBV_EVENT_LID_CHANGE], f"{full} entries, {found}")

full, found = flooded(0, "overwrite")
number = rdma.refusal(lambda: rdma.PD(user.context))
driver.rebind()
user = rdma.Events()
again = hears(change(LID), user)
kept = full > ENTRIES and found == [] and not number and again == [e.IBV_EVENT_LID_CHANGE]
host.promise("overwrite", kept, f"{full} entries, {found}, {rdma.name(number)}, {again}")

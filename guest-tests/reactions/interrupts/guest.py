"""Interrupts that are lost, late, doubled, sent for nothing, or sent to another vector."""

from pathlib import Path

import card
import host
import kernel
import rdma
from commands import Caller
from rdma import e

LID = 6
EACH = 1000

log = kernel.Log()
user = rdma.Events()
half = rdma.Half(user.context, notify=True)
half.connect(half)
cqn = card.values(f"qps/{half.qp.qp_num:#x}")["qpc.cqn_snd"]
eqn = card.values(f"cqs/{cqn:#x}")["cqc.c_eqn_or_apu_element"]
EVENTS, COMPLETIONS = card.vector(card.events_queue()), card.vector(eqn)


def elsewhere(vector, to):
    """An interrupt of a vector comes as another one in this block."""
    return card.rule("interrupt", {"vector": to}, vector=vector)


def command(block):
    """The errno of a command whose interrupt meets a rule, the seconds that it took, and what was recovered."""
    begun = len(log.lines())
    card.quiet()
    with block:
        number, seconds = Caller(user.context).result()
    return number, seconds, [line for line in log.lines()[begun:] if "ecovered" in line]


def recovered(block):
    """Whether the driver found the command's event itself, and what was seen."""
    number, seconds, lines = command(block)
    kept = not number and seconds >= 3 and len(lines) == 2 and "Recovered 1 EQEs on cmd_eq" in lines[0]
    return kept, f"{rdma.name(number)} after {seconds:.1f} s\n{lines}"


def write():
    half.cq.req_notify(False)
    half.post(e.IBV_WR_RDMA_WRITE, 1, [half.sge()], (half.mr.rkey, half.memory.address))


def woken(block, count=0):
    """How often the application is woken by a completion whose interrupt meets a rule."""
    with block:
        write()
        return half.channel.take(half.cq, count=count)


def interrupt(vector, times=1):
    """Interrupts that nothing caused."""
    with card.rule("time", {"interrupt": vector}, times, after_ms=1) as rule:
        card.wait_fired(rule, times)


def handled():
    """How often the driver's handlers have run, by interrupt."""
    lines = [line.split() for line in Path("/proc/interrupts").read_text().splitlines() if "mlx5" in line]
    return {line[-1]: sum(int(count) for count in line[1:] if count.isdigit()) for line in lines}


kept, seen = recovered(card.armed("lost", vector=EVENTS))
host.promise("command-lost", kept, seen)

with card.armed("lost", vector=EVENTS):
    with card.rule("time", {"invent": "PORT_CHANGE", "sub_type": LID, "set": {"port.port_num": 1}}, after_ms=1) as rule:
        card.wait_fired(rule)
        before = user.take()
number = rdma.refusal(lambda: rdma.PD(user.context))
after = user.take(count=1)
kept = (before, number, after) == ([], 0, [e.IBV_EVENT_LID_CHANGE])
host.promise("event-lost", kept, f"{before}, {rdma.name(number)}, {after}")

first = woken(card.armed("lost", vector=COMPLETIONS))
write()
later = half.channel.take(half.cq)
host.promise("completion-lost", (first, later) == (0, 0), f"{first}, {later}")
found = len(half.take(2))
host.promise("completion-found", found == 2, f"{found} of 2")
interrupt(COMPLETIONS)
times = half.channel.take(half.cq, count=1)
write()
again = half.channel.take(half.cq, count=1)
half.take(1)
host.promise("spurious-recovers", (times >= 1, again) == (True, 1), f"woken {times} times, then {again}")

number, seconds, lines = command(card.armed("delayed", vector=EVENTS))
times = woken(card.armed("delayed", vector=COMPLETIONS), 1)
kept = (number, times, lines) == (0, 1, []) and seconds >= 0.5
half.take(1)
host.promise("delayed", kept, f"{rdma.name(number)} after {seconds:.1f} s, woken {times} times, {lines}")

number, seconds, lines = command(card.armed("twice", vector=EVENTS))
times = woken(card.armed("twice", vector=COMPLETIONS), 1)
half.take(1)
host.promise("twice", (number, times, lines) == (0, 1, []), f"{rdma.name(number)}, woken {times} times, {lines}")

begun, before = len(log.lines()), handled()
for vector in (EVENTS, COMPLETIONS):
    interrupt(vector, EACH)
more = {name: count - before.get(name, 0) for name, count in handled().items()}
lines = [line for line in log.lines()[begun:] if "mlx5" in line or "irq" in line]
write()
times = half.channel.take(half.cq, count=1)
half.take(1)
number = rdma.refusal(lambda: rdma.PD(user.context))
ran = [name for name, count in more.items() if count > 100]
kept = len(ran) >= 2 and not lines and not user.take() and (times, number) == (1, 0)
host.promise("spurious", kept, f"{more}, {lines}, woken {times} times, {rdma.name(number)}")

kept, seen = recovered(elsewhere(EVENTS, COMPLETIONS))
times = woken(elsewhere(COMPLETIONS, EVENTS))
interrupt(COMPLETIONS)
again = half.channel.take(half.cq, count=1)
host.promise("vector", kept and (times, again) == (0, 1), f"{seen}, woken {times} times, then {again}")

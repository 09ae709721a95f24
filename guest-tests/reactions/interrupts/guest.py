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


def command(rule):
    """The errno of a command whose interrupt meets this rule, the seconds that it took, and what was recovered."""
    begun = len(log.lines())
    card.quiet()
    with card.armed(rule):
        number, seconds = Caller(user.context).result()
    return number, seconds, [line for line in log.lines()[begun:] if "ecovered" in line]


def recovered(rule):
    """Whether the driver found the command's event itself, and what was seen."""
    number, seconds, lines = command(rule)
    kept = not number and 3 <= seconds < 8 and len(lines) == 2 and "Recovered 1 EQEs on cmd_eq" in lines[0]
    return kept, f"{rdma.name(number)} after {seconds:.1f} s\n{lines}"


def write():
    half.cq.req_notify(False)
    half.post(e.IBV_WR_RDMA_WRITE, 1, [half.sge()], (half.mr.rkey, half.memory.address))


def woken(rule, seconds=0.5):
    """How often the application is woken by a completion whose interrupt meets this rule."""
    with card.armed(rule):
        write()
        if not card.wait_fired(rule):
            raise card.NeverFired(rule)
        return half.channel.take(half.cq, seconds)


def interrupt(vector, times=1):
    """Interrupts that nothing caused."""
    with card.rule("time", {"interrupt": vector}, times, after_ms=1) as rule:
        card.wait_fired(rule, times)


def wakes(number):
    """How often the application is woken by an interrupt of this vector."""
    interrupt(number)
    return half.channel.take(half.cq, 0.2)


def handled():
    """How often the driver's handlers have run, by interrupt."""
    lines = [line.split() for line in Path("/proc/interrupts").read_text().splitlines() if "mlx5" in line]
    return {line[-1]: sum(int(count) for count in line[1:] if count.isdigit()) for line in lines}


kept, seen = recovered("lost")
host.promise("command-lost", kept, seen)

with card.armed("lost"):
    with card.rule("time", {"invent": "PORT_CHANGE", "sub_type": LID, "set": {"port.port_num": 1}}, after_ms=1) as rule:
        card.wait_fired(rule)
        before = user.take()
number = rdma.refusal(lambda: rdma.PD(user.context))
after = user.take()
kept = (before, number, after) == ([], 0, [e.IBV_EVENT_LID_CHANGE])
host.promise("event-lost", kept, f"{before}, {rdma.name(number)}, {after}")

first = woken("completion lost")
write()
later = half.channel.take(half.cq)
host.promise("completion-lost", (first, later) == (0, 0), f"{first}, {later}")
found = len(half.take(2))
host.promise("completion-found", found == 2, f"{found} of 2")
found = next((number for number in range(1, 64) if wakes(number)), None)
write()
again = half.channel.take(half.cq)
half.take(1)
host.promise("spurious-recovers", found and again == 1, f"vector {found}, then woken {again} times")

number, seconds, lines = command("delayed")
times = woken("completion delayed", 1)
kept = (number, times, lines) == (0, 1, []) and 0.5 <= seconds < 3
half.take(1)
host.promise("delayed", kept, f"{rdma.name(number)} after {seconds:.1f} s, woken {times} times, {lines}")

number, seconds, lines = command("twice")
times = woken("completion twice")
half.take(1)
host.promise("twice", (number, times, lines) == (0, 1, []), f"{rdma.name(number)}, woken {times} times, {lines}")

begun, before = len(log.lines()), handled()
for each in (0, found):
    interrupt(each, EACH)
more = {name: count - before.get(name, 0) for name, count in handled().items()}
lines = log.lines()[begun:]
write()
times = half.channel.take(half.cq)
half.take(1)
number = rdma.refusal(lambda: rdma.PD(user.context))
ran = [name for name, count in more.items() if count > 0]
kept = len(ran) >= 2 and not lines and not user.take() and (times, number) == (1, 0)
host.promise("spurious", kept, f"{more}, {lines}, woken {times} times, {rdma.name(number)}")

kept, seen = recovered("command elsewhere")
times = woken("completion elsewhere")
again = wakes(found)
host.promise("vector", kept and (times, again) == (0, 1), f"{seen}, woken {times} times, then {again}")

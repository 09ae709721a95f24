"""Commands that are completed late, never, or in another order."""

import os
import re
import time

import card
import driver
import host
import kernel
import rdma
from commands import SLOTS, Caller, Crowd, at_once

# What the driver waits with fast timeouts, and then for a lost event.
TIMEOUT, RECOVERY = 3, 5
ETIMEDOUT = 110
LATE = "Command completion arrived after timeout"

log = kernel.Log()
context = rdma.open_device()


def call(rule):
    """A process whose command meets this rule."""
    card.arm(rule)
    caller = Caller(context)
    if not card.wait_fired(rule):
        raise card.NeverFired(rule)
    return caller


def domains():
    return card.quiet()["objects"]["pd"]


def other():
    """Another command at the same time."""
    return rdma.refusal(lambda: context.query_port(1))


number, seconds = call("delayed").result()
host.promise("delayed", not number and seconds >= 0.5, f"{rdma.name(number)} after {seconds:.1f} s")
card.disarm()

found = []
for rule in ("held before", "held after", "slot held"):
    caller = call(rule)
    others, over = other(), caller.over()
    card.release(rule)
    found.append((others, over, caller.result()[0]))
    card.disarm()
# The slot that comes back with a delivery status brings that one's errno.
host.promise("held", found == [(0, False, 0), (0, False, 0), (0, False, 5)], repr(found))

rules = ("first", "second", "third")
callers = [call(rule) for rule in rules]
found = []
for i in (2, 1, 0):
    before = [caller.over() for caller in callers[: i + 1]]
    card.release(rules[i])
    found.append((any(before), callers[i].result()[0]))
host.promise("order", found == [(False, 0)] * 3, repr(found))
card.disarm()

# All that takes as long as the driver's timeout, at the same time.
before = domains()
held = {rule: call(rule) for rule in ("held before", "held after", "slot held")}
lost = {rule: call(rule) for rule in ("lost before", "lost after", "doorbell")}
carried_out = domains() - before
others = other()
held = {rule: caller.result() for rule, caller in held.items()}
lost = {rule: caller.result() for rule, caller in lost.items()}


def timed_out(found):
    return all(number == ETIMEDOUT and seconds >= TIMEOUT + RECOVERY - 0.1 for number, seconds in found.values())


given_up = log.find(r"ALLOC_PD\(0x800\) No done completion")
told = log.find(r"ALLOC_PD\(0x800\) timeout\. Will cause a leak of a command resource")
host.promise("timeout", timed_out(held) and len(given_up) == len(told) == 6 and not others, f"{held}\n{told}")
host.promise("lost", timed_out(lost) and carried_out == 2, f"{lost}, {carried_out} carried out")
for rule in held:
    card.release(rule)
card.wait(lambda: len(log.find(LATE)) >= 3)
late = log.find(LATE)
host.promise("late", len(late) == 3, "\n".join(late))
card.disarm()

# All slots at once: those that were lost are missing, until another command is over.
crowd = Crowd(SLOTS)
card.arm("all")
crowd.go()
card.wait_fired("all", SLOTS - len(lost))
time.sleep(0.5)
fired = card.fired("all")
card.disarm()
failed = [number for number in crowd.results() if number]
crowd.close()
host.promise("leak", fired == SLOTS - len(lost) and not failed, f"{fired} at the same time, failed: {failed}")


def slots(lines, pattern):
    return {int(re.search(pattern, line).group(1)) for line in lines}


gone = slots(given_up, r"cmd\[(\d+)\]") - slots(late, r"entry idx = (\d+)")
unbinding = os.fork()
if unbinding == 0:
    os._exit(1 if rdma.refusal(driver.unbind) else 0)
waits = lambda: re.search("mlx5_cmd_(allowed_opcode|change_mod|use_)", kernel.stack(unbinding))
waiting = card.wait(waits) and not card.wait(lambda: not waits(), 1)
where = kernel.stack(unbinding)
vector = sum(1 << slot for slot in gone)
with card.rule("time", {"invent": "CMD", "set": {"cmd.vector": vector}}, after_ms=1):
    ended = card.wait(lambda: os.waitpid(unbinding, os.WNOHANG)[0])
bound = driver.bound()
host.promise("unbind", waiting and ended and not bound, f"slots {gone}, waited: {waiting}, ended: {ended}\n{where}")

number = rdma.refusal(driver.bind)
active = driver.wait_active()
good, seen = at_once(SLOTS) if active else (False, "")
host.promise("rebind", not number and good, f"{rdma.name(number)}, {active}, {seen}")

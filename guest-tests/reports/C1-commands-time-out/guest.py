"""Completions of many commands that come too late."""

import card
import commands
import host
import kernel
import rdma

log = kernel.Log()
context = rdma.open_device()
timed_out, reserved, late, slots = [], [], [], []
for count in (1, 8, commands.SLOTS):
    before = len(log.find("arrived after timeout"))
    crowd = commands.Crowd(count)
    card.arm("held")
    crowd.go()
    card.wait_fired("held", count)
    results = crowd.results()
    timed_out.append(results)
    # A domain is a command too; with no slot left it would wait in vain.
    reserved.append(rdma.refusal(lambda: rdma.PD(context)) if count < commands.SLOTS else 0)
    card.disarm()
    come = lambda: len(log.find("arrived after timeout")) - before
    card.wait(lambda: come() >= count)
    late.append((count, come()))
    crowd.close()
    slots.append(commands.at_once(commands.SLOTS))
host.promise("timed-out", all(one == 110 for results in timed_out for one in results), repr(timed_out))
host.promise("reserved", not any(reserved), repr(reserved))
host.promise("late", all(count == come for count, come in late), repr(late))
host.promise("slots", all(good for good, _ in slots), repr(slots))

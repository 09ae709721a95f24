"""Completions of commands after a fatal error."""

import time

import card
import commands
import driver
import host
import kernel
import rdma

COUNT = 8

seen, again = [], []
for delay in (0, 0.01, 0.05):
    log = kernel.Log()
    crowd = commands.Crowd(COUNT)
    card.arm("held")
    crowd.go()
    card.wait_fired("held", COUNT)
    card.arm("fatal")
    found = log.wait("Fatal error|start reset|health compromised")
    time.sleep(delay)
    card.disarm()
    results = crowd.results()
    seen.append((delay, bool(found), results))
    crowd.close()
    number = rdma.refusal(driver.renew)
    again.append((rdma.name(number), driver.active()))
host.promise("once", all(found and len(r) == COUNT and all(r) for _, found, r in seen), repr(seen))
host.promise("rebind", all(active for _, active in again), repr(again))

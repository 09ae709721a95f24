"""Many short commands when the card fails."""

import os
import random
import time

import card
import commands
import driver
import host
import rdma

random.seed(5)
seen, again = [], []
for _ in range(4):
    children = [commands.busy() for _ in range(6)]
    time.sleep(0.2 + random.random() / 2)
    card.arm("fatal")
    card.wait_fired("fatal")
    seen.append([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
    card.disarm()
    number = rdma.refusal(driver.renew)
    again.append((rdma.name(number), driver.active()))
host.promise("ended", all(code == commands.FAILED for codes in seen for code in codes), repr(seen))
host.promise("rebind", all(active for _, active in again), repr(again))

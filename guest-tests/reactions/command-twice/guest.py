"""A command that is completed twice."""

import os
import re
from pathlib import Path

import card
import host
import kernel
import rdma
from commands import SLOTS, at_once

CPU = 0

log = kernel.Log()
context = rdma.open_device()
(line,) = [line for line in Path("/proc/interrupts").read_text().splitlines() if "mlx5_async" in line]
number = re.match(r" *(\d+):", line).group(1)
Path(f"/proc/irq/{number}/smp_affinity_list").write_text(str(CPU))
# One interrupt takes it there.
rdma.PD(context)
every = os.sched_getaffinity(0)
os.sched_setaffinity(0, {CPU})
with card.armed("twice"):
    number = rdma.refusal(lambda: rdma.PD(context))
os.sched_setaffinity(0, every)
line = log.wait("Command completion arrived after timeout")
host.promise("told", not number and line, f"{rdma.name(number)}\n{line}")
good, seen = at_once(SLOTS)
host.promise("slots", good, seen)

"""An ordinary user with a small limit of locked memory."""

import os
import resource

import card
import host
import rdma

HEARD = ("command:CREATE_MKEY", "umr")

context = rdma.open_device()
pd = rdma.PD(context)
memory = rdma.Memory(1 << 20)
card.quiet()
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
rdma.user()

before = card.counters(*HEARD)
refused = rdma.refusal(lambda: memory.register(pd))
after = card.counters(*HEARD)
host.promise("enomem", refused == 12, f"{rdma.name(refused)} as user {os.getuid()}")
host.promise("unheard", before == after, f"before {before}, after {after}")

made = []
refused = rdma.refusal(lambda: made.append(memory.register(pd, length=32768)))
changed = card.counters(*HEARD)
host.promise("below", not refused and changed != after, f"{rdma.name(refused)}, {changed}")

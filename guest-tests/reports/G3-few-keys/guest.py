"""Registers until the card has no keys any more."""

import card
import host
import rdma

KEYS = 2048

context = rdma.open_device()
attributes = context.query_device()
host.promise("max-mr", attributes.max_mr == KEYS, f"max_mr {attributes.max_mr}")
pd = rdma.PD(context)
memory = rdma.Memory(4096)
begin = card.quiet()["objects"]
regions, refused = [], 0
while not refused and len(regions) <= KEYS:
    refused = rdma.refusal(lambda: regions.append(memory.register(pd)))
full = card.quiet()["objects"]
seen = f"{rdma.name(refused)} after {len(regions)}; keys before {begin['mkey']}, then {full['mkey']}"
host.promise("enomem", refused == 12, seen)
host.promise("enforced", full["mkey"] <= KEYS, seen)
host.promise("all", len(regions) >= KEYS // 2, seen)
for region in regions[::2]:
    region.close()
again = card.wait(lambda: not rdma.refusal(lambda: regions.append(memory.register(pd))))
host.promise("again", again, seen)

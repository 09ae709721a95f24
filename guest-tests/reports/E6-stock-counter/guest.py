"""A region whose key can't be revoked."""

from pathlib import Path

import card
import driver
import host
import process
import rdma


def in_use():
    """Keys in use by size, where there are any: all less those in stock."""
    found = {}
    for size in Path("/sys/kernel/debug/mlx5").glob("*/mr_cache/*/size"):
        used = int(size.read_text()) - int((size.parent / "cur").read_text())
        if used:
            found[size.parent.name] = used
    return found


def revoke():
    pd = rdma.PD(rdma.open_device())
    region = rdma.Memory(1 << 16).register(pd)
    own = card.own_queue_pairs()
    card.arm("revoke fails", qpn=own)
    host.note(f"{own}: {rdma.name(rdma.refusal(region.close))}")


def odd_sizes():
    pd = rdma.PD(rdma.open_device())
    memory = rdma.Memory(1 << 22)
    for pages in range(3, 700, 23):
        memory.register(pd, pages * 4096).close()


# Not while the driver fills its stock.
live = card.quiet()["objects"]["mkey_live"]
before = in_use()
process.run(revoke)
fired = card.fired("revoke fails")
card.disarm()
now = card.quiet()["objects"]["mkey_live"]
after = in_use()
host.promise("in-use", before == after and fired, f"before {before}, after {after}, fired {fired}")
host.promise("live", now == live, f"{live} before, {now} after")
process.run(odd_sizes)
driver.unbind()
left = card.quiet()["objects"]
host.promise("empty", left["mkey"] == 0, repr(left))

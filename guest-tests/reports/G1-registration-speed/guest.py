"""Registers more and more memory, with pages of three sizes."""

import mmap
import time
from pathlib import Path

import card
import host
import rdma

MIB, GIB = 1 << 20, 1 << 30
ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
MAP_HUGETLB, SHIFT = 0x40000, 26
MADV_NOHUGEPAGE = 15


def busy():
    """How long the card has worked, in s, and how much it was asked."""
    now = card.ask("metrics")
    spent = sum(one["sum"] for one in now["latencies"].values()) / 1e9
    counters = now["status"]["counters"]
    return spent, counters.get("umr", 0) + counters.get("commands", 0)


def measure(pd, memory):
    before, begin = busy(), time.monotonic()
    region = memory.register(pd)
    took = time.monotonic() - begin
    after = busy()
    key = card.key(region.lkey)
    region.close()
    return {
        "MiB": memory.length // MIB,
        "page": key["log_page_size"],
        "entries": key["filled"],
        "s": round(took, 3),
        "card s": round(after[0] - before[0], 3),
        "asked": after[1] - before[1],
    }


def touched(memory, page):
    for at in range(0, memory.length, page):
        memory.write(at, b"x")
    return memory


def small(length):
    memory = rdma.Memory(length)
    rdma.advise(memory, MADV_NOHUGEPAGE)
    return touched(memory, 4096)


pd = rdma.PD(rdma.open_device())
rows = [measure(pd, small(size * MIB)) for size in (16, 64, 256)]
Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").write_text("512")
rows.append(measure(pd, touched(rdma.Memory(GIB, ANONYMOUS | MAP_HUGETLB | 21 << SHIFT), 2 * MIB)))
rows.append(measure(pd, touched(rdma.Memory(GIB, ANONYMOUS | MAP_HUGETLB | 30 << SHIFT), GIB)))
Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").write_text("0")
seen = "\n".join(map(repr, rows))
sizes = [12, 12, 12, 21, 30]
entries = all(
    row["page"] >= size and row["entries"] in (row["MiB"] * MIB >> row["page"], (row["MiB"] * MIB >> row["page"]) + 1)
    for row, size in zip(rows, sizes)
)
host.promise("entries", entries and rows[0]["page"] < 21, seen)
grows = [after["asked"] <= 4 * before["asked"] + 16 for before, after in zip(rows, rows[1:3])]
host.promise("linear", all(grows) and rows[4]["asked"] <= 16, seen)
host.promise("share", all(row["card s"] < row["s"] / 2 for row in rows), seen)

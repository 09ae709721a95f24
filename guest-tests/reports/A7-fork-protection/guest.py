"""Registers and deregisters parts of one mapping, with and without protection of forks."""

import ctypes
import json
import os
import random
from pathlib import Path

import card
import host
import rdma

CYCLES = 2000
FEW = 300
PAGES = 64
UNNEEDED = 2

verbs = ctypes.CDLL("libibverbs.so.1")


def mappings():
    return len(Path("/proc/self/maps").read_text().splitlines())


def cycles(protected):
    """What it came to, as the child tells it."""
    initialized = verbs.ibv_fork_init() if protected else 0
    pd = rdma.PD(rdma.open_device())
    memory = rdma.Memory(PAGES * 4096)
    random.seed(7)
    before = mappings()
    refused = most = 0
    kept = []
    for _ in range(CYCLES):
        begin = random.randrange(PAGES)
        pages = random.randint(1, PAGES - begin)
        action = lambda: kept.append(memory.register(pd, pages * 4096, offset=begin * 4096))
        refused = refused or rdma.refusal(action)
        # A few at a time, so that protected ranges overlap.
        if len(kept) > 8:
            kept.pop(random.randrange(len(kept))).close()
        most = max(most, mappings()) if _ % 100 == 0 else most
    for region in kept:
        region.close()
    status = verbs.ibv_is_fork_initialized()
    return {"init": initialized, "status": status, "refused": refused, "before": before, "most": most}


def in_child(protected):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, json.dumps(cycles(protected)).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    return json.loads(os.read(read, 4096))


limit = Path("/proc/sys/vm/max_map_count")
old = limit.read_text()
live = card.quiet()["objects"]["mkey_live"]
limit.write_text(str(FEW))
try:
    without, protected = in_child(False), in_child(True)
finally:
    limit.write_text(old)
after = card.quiet()["objects"]["mkey_live"]
both = f"without: {without}; with: {protected}"
host.promise("unneeded", protected["status"] == UNNEEDED, both)
host.promise("all", not without["refused"] and not protected["refused"], both)
host.promise("flat", all(one["most"] <= one["before"] + 8 for one in (without, protected)), both)
host.promise("matched", live == after, f"{live} live keys before, {after} after")

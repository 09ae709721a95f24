"""Processes that are killed with their regions; then a card without resources."""

import os
import signal

import card
import host
import rdma

ROUNDS = 5
REGIONS = 1000


def register_and_wait(ready):
    pd = rdma.PD(rdma.open_device())
    memory = rdma.Memory(8192)
    kept = [memory.register(pd) for _ in range(REGIONS)]
    os.write(ready, b"%d" % len(kept))
    signal.pause()


def killed():
    """A process that registers and is killed: how many keys it had alive."""
    done, ready = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            register_and_wait(ready)
        finally:
            os._exit(1)
    os.close(ready)
    os.read(done, 16)
    alive = card.objects("mkey_live")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(done)
    return alive


before = card.quiet()["objects"]
rounds, peaks = [], []
for _ in range(ROUNDS):
    peaks.append(killed() - before["mkey_live"])
    now = card.quiet()["objects"]
    rounds.append((now["mkey_live"], now["mkey"]))
live = [live for live, _ in rounds]
kept = [every for _, every in rounds]
shown = all(peak >= REGIONS for peak in peaks)
host.promise(
    "returned",
    shown and all(one == before["mkey_live"] for one in live),
    f"{before['mkey_live']} before; alive before each kill {peaks}, after it {live}",
)
# The first round may leave more in stock than there was: the driver keeps what it once needed.
host.promise("stock", max(kept) <= kept[0] + REGIONS // 10, f"all keys after each round: {kept}")

pd = rdma.PD(rdma.open_device())
memory = rdma.Memory(8192)
regions = []
card.arm("no resources")
refused = 0
while not refused and len(regions) < 20 * REGIONS:
    refused = rdma.refusal(lambda: regions.append(memory.register(pd)))
host.promise("eagain", refused == 11, f"{rdma.name(refused)} after {len(regions)} registrations")
frames = rdma.reached(regions[0], memory)
host.promise("usable", frames, f"the first of {len(regions)} regions reaches {frames}")

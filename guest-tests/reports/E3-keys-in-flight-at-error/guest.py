"""Deregisters while the card does nothing, then fails."""

import os
import time

import card
import driver
import host
import rdma


def own_queue_pairs():
    """Those of the driver for changes of keys."""
    found = card.ask("inspect", node="qps")["children"]
    return [int(one["name"], 16) for one in found if one["values"].get("service") not in ("RC", "UD", "UC", "XRC")]


def holder(ready):
    pd = rdma.PD(rdma.open_device())
    region = rdma.Memory(1 << 20).register(pd)
    os.write(ready, b"r")
    os.read(go, 1)
    os.write(ready, bytes([rdma.refusal(region.close)]))


read, ready = os.pipe()
go, tell = os.pipe()
child = os.fork()
if child == 0:
    try:
        holder(ready)
    finally:
        os._exit(0)
os.close(ready)
os.read(read, 1)
numbers = own_queue_pairs()
host.note(f"queue pairs of the driver: {numbers}")
card.arm("stopped", qpn=numbers)
os.write(tell, b"g")
held = card.wait_fired("stopped")
time.sleep(0.2)
waits = os.waitpid(child, os.WNOHANG)[0] == 0
host.promise("waits", held and waits, f"{numbers}")
card.arm("fatal")
card.wait_fired("fatal")
begin = time.monotonic()
number = rdma.refusal(driver.unbind)
host.promise("unbound", not number, f"{rdma.name(number)} after {time.monotonic() - begin:.0f} s")
ended = card.wait(lambda: os.waitpid(child, os.WNOHANG)[0], 60)
host.promise("returns", ended, f"{os.read(read, 1) if ended else 'it hangs'}")
card.disarm()
number = rdma.refusal(driver.restore)
host.promise("rebind", not number and driver.active(), rdma.name(number))

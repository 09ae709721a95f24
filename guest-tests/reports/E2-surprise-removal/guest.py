"""The card is gone while regions are deregistered."""

import os
import time

import card
import driver
import host
import process
import rdma


def holder(ready):
    pd = rdma.PD(rdma.open_device())
    memory = rdma.Memory(1 << 20)
    kept = [memory.register(pd) for _ in range(100)]
    os.write(ready, b"r")
    while True:
        region = kept.pop(0)
        if rdma.refusal(region.close) or rdma.refusal(lambda: kept.append(memory.register(pd))):
            return


read, ready = os.pipe()
child = process.start(lambda: holder(ready))
os.read(read, 1)
card.arm("gone")
card.wait_fired("gone")
begin = time.monotonic()
number = rdma.refusal(driver.unbind)
host.promise("unbound", not number, f"{rdma.name(number)} after {time.monotonic() - begin:.0f} s")
ended = card.wait(lambda: os.waitpid(child, os.WNOHANG)[0], 60)
host.promise("ended", ended, f"{time.monotonic() - begin:.0f} s after the card was gone")
card.disarm()
number = rdma.refusal(driver.restore)
host.promise("back", not number and driver.active(), rdma.name(number))

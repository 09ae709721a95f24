"""Deregisters while the card does nothing, then fails."""

import os
import time

import card
import driver
import host
import kernel
import process
import rdma


def holder(ready, go):
    pd = rdma.PD(rdma.open_device())
    region = rdma.Memory(1 << 20).register(pd)
    os.write(ready, b"r")
    os.read(go, 1)
    os.write(ready, bytes([rdma.refusal(region.close)]))


log = kernel.Log()
read, ready = os.pipe()
go, tell = os.pipe()
child = process.start(lambda: holder(ready, go))
os.close(ready)
os.read(read, 1)
card.arm("stopped", qpn=card.own_queue_pairs())
os.write(tell, b"g")
held = card.wait_fired("stopped")
host.promise("waits", held and os.waitpid(child, os.WNOHANG)[0] == 0, "its doorbell rang and nothing came of it")
card.arm("fatal")
told = log.wait("Fatal error")
begin = time.monotonic()
ended = told and card.wait(lambda: os.waitpid(child, os.WNOHANG)[0], 20)
seconds = f"{time.monotonic() - begin:.0f} s after the driver had seen the error"
host.promise("returns", ended, seconds if ended else "\n".join(kernel.stuck()))
if not ended:
    card.disarm()
number = rdma.refusal(driver.unbind) if driver.bound() else 0
host.promise("unbound", not number, rdma.name(number))
card.disarm()
number = rdma.refusal(driver.restore)
host.promise("rebind", not number and driver.active(), rdma.name(number))

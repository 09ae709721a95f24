"""Unbinds the driver under a process with regions."""

import os

import card
import driver
import host
import process
import rdma


def holder(ready, go):
    sender, receiver = rdma.pair()
    memory = rdma.Memory(1 << 20)
    kept = [memory.register(sender.pd) for _ in range(100)]
    sender.post(rdma.e.IBV_WR_RDMA_WRITE, 1, [sender.sge()], (receiver.mr.rkey, receiver.memory.address))
    os.write(ready, bytes([len(sender.take())]))
    os.read(go, 1)
    os.write(ready, bytes([rdma.refusal(lambda: kept.append(memory.register(sender.pd)))]))
    os.read(go, 1)


read, ready = os.pipe()
go, tell = os.pipe()
child = process.start(lambda: holder(ready, go))
moved = os.read(read, 1)
number = rdma.refusal(driver.unbind)
host.promise("unbound", moved == b"\1" and not number and not driver.bound(), rdma.name(number))
status = card.quiet()
left = {kind: count for kind, count in status["objects"].items() if count}
host.promise("empty", not left and not status["pages"], f"{left}, {status['pages']} pages")
os.write(tell, b"g")
number = os.read(read, 1)[0]
host.promise("eio", number == 5, rdma.name(number))
number = rdma.refusal(driver.bind)
active = driver.wait_active()
os.write(tell, b"g")
_, code = os.waitpid(child, 0)
host.promise("rebind", not number and active and code == 0, f"{rdma.name(number)}, active {active}, code {code}")

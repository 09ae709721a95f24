"""Registers until there are no translation entries any more."""

import host
import kernel
import rdma

MOST = 1000

log = kernel.Log()
pd = rdma.PD(rdma.open_device())
scattered = rdma.Scattered(1 << 20)
made, refused = [], 0
one, other = rdma.pair()
while not refused and len(made) < MOST:
    refused = rdma.refusal(lambda: made.append(scattered.register(pd)))
line = log.find(r"reg umr failed \(6\)")


def moves(number):
    one.memory.write(0, bytes([number]) * 8)
    one.rdma_write(other, number, length=8)
    return rdma.outcomes(one.take(1)) == [(number, 0)] and other.memory.read(0, 8) == bytes([number]) * 8


moved = [moves(1)]
count = len(made)
made.pop().close()
again = rdma.refusal(lambda: made.append(scattered.register(pd)))
moved.append(moves(2))
seen = f"{rdma.name(refused)} after {count}, {line[:1]}; then {rdma.name(again)}"
host.promise("translations", refused == 14 and line and not again, seen)
host.promise("goes-on", all(moved), repr(moved))

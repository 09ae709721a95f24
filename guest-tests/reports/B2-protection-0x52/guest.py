"""Each way in which a local key can be wrong."""

import host
import rdma

e = rdma.e
LENGTH = 64


def attempt(key, offset=0, length=LENGTH, read=False):
    """One work request with this local key: what the sender is told, and whether anything has moved."""
    sender, receiver = rdma.pair()
    receiver.memory.write(0, b"r" * 4096)
    receiver.receive(100, [receiver.sge(0, 4096)])
    target = rdma.Memory(4096)
    target.write(0, b"t" * 4096)
    region = {
        "own": lambda: target.register(sender.pd, 2048, offset=1024),
        "read-only": lambda: target.register(sender.pd, 2048, rdma.e.IBV_ACCESS_REMOTE_READ, offset=1024),
        "other": lambda: target.register(rdma.PD(sender.context), 2048, offset=1024),
    }
    kind, change = key
    made = region[kind]()
    sges = [rdma.SGE(target.address + 1024 + offset, length, change(made.lkey))] if length else []
    if length == 0:
        sges = [rdma.SGE(target.address + 1024, 0, change(made.lkey))]
    opcode = e.IBV_WR_RDMA_READ if read else e.IBV_WR_SEND
    sender.post(opcode, 1, sges, (receiver.mr.rkey, receiver.memory.address) if read else None)
    came = sender.take(1)
    received = receiver.take(1, seconds=0.2)
    still = target.read(0, 4096) == b"t" * 4096 and receiver.memory.read(0, 4096) == b"r" * 4096
    return rdma.told(came[0]) if came else None, still, received


same = lambda key: key
MATRIX = {
    "unknown index": (0x51, (("own", lambda key: key ^ 0x7F00_0000), 0)),
    "other variant": (0x51, (("own", lambda key: key ^ 1), 0)),
    "other domain": (0x52, (("other", same), 0)),
    "a byte before": (0x53, (("own", same), -1)),
    "a byte behind": (0x53, (("own", same), 2048 - LENGTH + 1)),
}

seen, moved = {}, []
for name, (_, (key, offset)) in MATRIX.items():
    for _ in range(2):
        told, still, received = attempt(key, offset)
        seen.setdefault(name, []).append(told)
        moved += [] if still and not received else [name]
told, still, _ = attempt(("read-only", same), read=True)
seen["read-only"] = [told]
moved += [] if still else ["read-only"]
wanted = {name: [(4, byte)] * 2 for name, (byte, _) in MATRIX.items()} | {"read-only": [(4, 0x52)]}
host.promise("matrix", seen == wanted, repr(seen))
host.promise("untouched", not moved, repr(moved))
told, still, received = attempt(("own", lambda key: key ^ 1), length=0)
host.promise("zero-length", told and told[0] == 0 and still and len(received) == 1, f"{told} {received}")

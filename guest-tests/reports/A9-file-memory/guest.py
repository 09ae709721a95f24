"""Registers mappings of files."""

import mmap
import os

import card
import host
import rdma

HEARD = ("command:CREATE_MKEY", "umr")
SIZE = 4 * 4096

pd = rdma.PD(rdma.open_device())
heard = []


def refused(memory, access):
    before = card.counters(*HEARD)
    number = rdma.refusal(lambda: memory.register(pd, access=access))
    heard.append((before, card.counters(*HEARD)))
    return number


path = "/dev/shm/read-only"
with open(path, "wb") as file:
    file.write(os.urandom(SIZE))
file = os.open(path, os.O_RDONLY)
readable = rdma.Mapping(file, SIZE, mmap.MAP_SHARED, mmap.PROT_READ)
card.quiet()
number = refused(readable, rdma.e.IBV_ACCESS_LOCAL_WRITE)
host.promise("read-only", number == 14, rdma.name(number))
made = []
number = rdma.refusal(lambda: made.append(readable.register(pd, access=rdma.e.IBV_ACCESS_REMOTE_READ)))
host.promise("readable", not number, rdma.name(number))

file = os.open("/dev/shm/shared", os.O_RDWR | os.O_CREAT)
os.truncate(file, SIZE)
shared = rdma.Mapping(file, SIZE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
number = rdma.refusal(lambda: made.append(shared.register(pd)))
frames = rdma.reached(made[-1], shared)
host.promise("shared", not number and frames, f"{rdma.name(number)}, {frames}")

# The doorbell pages that libmlx5 has mapped.
line = next(line for line in open("/proc/self/maps") if "uverbs" in line)
registers = rdma.Memory.__new__(rdma.Memory)
registers.address, registers.length = int(line.split("-")[0], 16), 4096
card.quiet()
number = refused(registers, rdma.ALL)
host.promise("registers", number == 14, rdma.name(number))
host.promise("unheard", all(before == after for before, after in heard), repr(heard))

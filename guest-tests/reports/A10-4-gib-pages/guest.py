"""Four adjacent pages of 1 GiB, registered as one."""

import ctypes
import mmap

import card
import host
import rdma

GIB = 1 << 30
PAGES = 4
MAP_HUGETLB = 0x40000
MAP_HUGE_1GB = 30 << 26
MAY_MOVE_TO = 1 | 2
# Far from everything else in this process.
BASE = 0x2000_0000_0000

libc = ctypes.CDLL(None, use_errno=True)
libc.mremap.restype = ctypes.c_void_p
libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]


def in_order(memory):
    """Moves the pages so that they are adjacent as in memory, at an address with the same low bits."""
    frames = {memory.frame(page * GIB): memory.address + page * GIB for page in range(PAGES)}
    first = min(frames)
    start = BASE + (first << 12) % (4 * GIB)
    for frame, address in frames.items():
        to = start + ((frame - first) << 12)
        if libc.mremap(address, GIB, GIB, MAY_MOVE_TO, to) != to:
            raise OSError(ctypes.get_errno(), "mremap")
    if max(frames) - first != (PAGES - 1) * (GIB >> 12):
        raise RuntimeError(f"the pages are not adjacent: {[hex(frame) for frame in frames]}")
    memory.address = start
    return first


flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_1GB
memory = rdma.Memory(PAGES * GIB, flags=flags)
for page in range(PAGES):
    memory.write(page * GIB, b"x")
first = in_order(memory)
aligned = first % (4 * GIB >> 12) == 0
host.note(f"first frame {first:#x}")

sender, receiver = rdma.pair()
made = []


def register(length):
    made.append(memory.register(receiver.pd, length))
    return made[-1]


def reaches(region, length):
    """First, middle and last bytes, and nothing behind them."""
    ends = [
        rdma.translated(region.rkey, memory.address + at, 8) == (first << 12) + at
        for at in (0, length // 16 * 8, length - 8)
    ]
    return all(ends) and rdma.translated(region.rkey, memory.address + length, 1) is None


number = rdma.refusal(lambda: register(4 * GIB))
host.promise("registers", not number, rdma.name(number))
region = made[-1]
key = card.key(region.rkey)
host.promise("page-size", aligned and key["log_page_size"] == 32 and key["filled"] <= 2, f"{first:#x} {key}")
host.promise("reaches", reaches(region, 4 * GIB), f"{key}")

last = 4 * GIB - 8
sender.memory.write(0, b"four GiB")
sender.post(rdma.e.IBV_WR_RDMA_WRITE, 1, [sender.sge(0, 8)], (region.rkey, memory.address + last))
came = sender.take()
there = memory.read(last, 8)
host.promise("written", there == b"four GiB" and came[0].status == 0, f"{there} {rdma.words(came)}")

seen = []
for _ in range(3):
    region.close()
    region = register(4096)
    small, index = reaches(region, 4096), region.rkey >> 8
    region.close()
    region = register(4 * GIB)
    page = card.key(region.rkey)["log_page_size"]
    seen.append((hex(index), hex(region.rkey >> 8), page, small, reaches(region, 4 * GIB)))
same = all(one[0] == one[1] for one in seen)
host.promise("crossing", same and all(one[3] and one[4] for one in seen), repr(seen))

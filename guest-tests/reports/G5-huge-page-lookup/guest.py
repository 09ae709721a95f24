"""Times registrations with the library's protection of forks, and with its look-up of huge pages."""

import ctypes
import json
import mmap
import os
import resource
import time

import card
import host
import rdma

REGISTRATIONS = 50
MAPPINGS = 300
UNNEEDED = 2

libc = ctypes.CDLL(None, use_errno=True)
verbs = ctypes.CDLL("libibverbs.so.1")
# Python's os.environ does not reach getenv() of libraries that are loaded.
setenv = lambda name: libc.setenv(name.encode(), b"1", 1)


def as_on_an_old_kernel():
    """The library asks the kernel over a socket whether forks copy: it gets none."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, files[1]))
    result = verbs.ibv_fork_init()
    resource.setrlimit(resource.RLIMIT_NOFILE, files)
    return result


def measure(init, *environment):
    for name in environment:
        setenv(name)
    result = init()
    status = verbs.ibv_is_fork_initialized()
    pd = rdma.PD(rdma.open_device())
    memory = rdma.Memory(65536)
    memory.register(pd).close()
    others = [mmap.mmap(-1, 4096, prot=mmap.PROT_READ << (at % 2)) for at in range(MAPPINGS)]
    before, begin = card.counters("umr", "command:CREATE_MKEY"), time.monotonic()
    for _ in range(REGISTRATIONS):
        memory.register(pd).close()
    took = time.monotonic() - begin
    after = card.counters("umr", "command:CREATE_MKEY")
    asked = {name: after[name] - before[name] for name in after}
    return {"init": result, "status": status, "us": round(took / REGISTRATIONS * 1e6), "asked": asked, "maps": len(others)}


def in_child(*arguments):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, json.dumps(measure(*arguments)).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    return json.loads(os.read(read, 4096))


card.quiet()
plain = in_child(lambda: 0)
protected = in_child(as_on_an_old_kernel)
lookup = in_child(as_on_an_old_kernel, "RDMAV_HUGEPAGES_SAFE")
unneeded = in_child(verbs.ibv_fork_init, "RDMAV_HUGEPAGES_SAFE", "RDMAV_FORK_SAFE")
seen = f"plain {plain}\nprotected {protected}\nlook-up {lookup}\nunneeded {unneeded}"
host.promise("card", plain["asked"] == protected["asked"] == lookup["asked"], seen)
host.promise("lookup", lookup["us"] >= 2 * protected["us"], seen)
# Half of what lies between the two: neither is measured exactly.
same = unneeded["status"] == UNNEEDED and unneeded["us"] < (plain["us"] + lookup["us"]) / 2
host.promise("unneeded", same, seen)

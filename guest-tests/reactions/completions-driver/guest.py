"""A completion of nobody's while the driver registers a region."""

import os

import card
import host
import kernel
import rdma


def register():
    """Registers a region in a process of its own."""
    child = os.fork()
    if child == 0:
        try:
            rdma.Memory(1 << 16).register(rdma.PD(rdma.open_device()))
        finally:
            os._exit(0)
    return child


# The driver makes its queue pair for the first.
os.waitpid(register(), 0)
log = kernel.Log()
card.arm("of nobody", qpn=card.own_queue_pairs())
register()
card.wait_fired("of nobody")
broken = log.wait("BUG:|Oops|general protection", 3)
host.promise("of-nobody", not broken, f"{broken}")

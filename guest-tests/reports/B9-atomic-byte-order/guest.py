"""Atomics with values that read differently from both ends."""

import struct

import card
import driver
import host
import rdma

e = rdma.e
OLD, ADD, SWAP = 0x0102030405060708, 0x1111111111111101, 0xF0E1D2C3B4A59687


def atomic(sender, receiver, opcode, *operands):
    """The old value and the new one, as the processor reads them."""
    receiver.memory.write(0, struct.pack("=Q", OLD))
    request = rdma.SendWR(1, opcode=opcode, num_sge=1, sg=[sender.sge(64, 8)], send_flags=e.IBV_SEND_SIGNALED)
    request.set_wr_atomic(receiver.mr.rkey, receiver.memory.address, *operands)
    sender.qp.post_send(request)
    came = sender.take(1)
    value = lambda half, at: struct.unpack("=Q", half.memory.read(at, 8))[0]
    return rdma.told(came[0])[0], hex(value(sender, 64)), hex(value(receiver, 0))


def offered():
    return rdma.open_device().query_device().atomic_caps


def in_host_order():
    sender, receiver = rdma.pair()
    add = atomic(sender, receiver, e.IBV_WR_ATOMIC_FETCH_AND_ADD, ADD)
    swap = atomic(sender, receiver, e.IBV_WR_ATOMIC_CMP_AND_SWP, OLD, SWAP)
    good = add == (0, hex(OLD), hex(OLD + ADD)) and swap == (0, hex(OLD), hex(SWAP))
    host.promise("host-order", good, f"fetch and add {add}, compare and swap {swap}")


in_host_order()
caps = offered()
host.promise("offered", caps == e.IBV_ATOMIC_HCA, repr(caps))
card.arm("network order only")
driver.rebind()
caps = offered()
host.promise("not-offered", caps == e.IBV_ATOMIC_NONE, repr(caps))
card.disarm()
driver.rebind()

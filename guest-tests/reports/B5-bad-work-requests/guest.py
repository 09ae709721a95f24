"""Work requests that are no such."""

import ctypes
import struct

import card
import host
import rdma
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

e = rdma.e


def control(**fields):
    """Changes the control segment (16 bytes before the data segment): opcode or number of segments."""

    def change(place):
        begin = place - 16
        index_and_opcode, number_and_ds = struct.unpack(">II", ctypes.string_at(begin, 8))
        if "opcode" in fields:
            index_and_opcode = index_and_opcode & ~0xFF | fields["opcode"]
        if "ds" in fields:
            number_and_ds = number_and_ds & ~0x3F | fields["ds"]
        ctypes.memmove(begin, struct.pack(">II", index_and_opcode, number_and_ds), 8)

    return change


def inline(place):
    """The data segment says that inline data follows, more than the work request has."""
    ctypes.memmove(place, struct.pack(">I", 0x8000_3FF0), 4)


BAD = {
    "no segments": control(ds=0),
    "more than the ring": control(ds=63),
    "opcode 0x3e": control(opcode=0x3E),
    "inline too long": inline,
}


def attempt(change, srq=None):
    sender, receiver = rdma.pair(depth=4)
    card.arm("held doorbell", qpn=sender.qp.qp_num)
    # A needle: the only data segment of this length.
    sge = sender.sge(4096, 61)
    sender.post(e.IBV_WR_SEND, 1, [sge])
    sender.post(e.IBV_WR_SEND, 2, [sender.sge(0, 64)])
    needle = rdma.data_segment(sender.memory.address + 4096, 61, sender.mr.lkey)
    number = sender.qp.qp_num
    places = rdma.find(needle, lambda place: struct.unpack(">I", ctypes.string_at(place - 12, 4))[0] >> 8 == number)
    if len(places) != 1:
        raise RuntimeError(f"the work request is at {len(places)} places")
    change(places[0])
    card.disarm()
    came = sender.take(2)
    return [rdma.told(one) for one in came]


seen = {name: attempt(change) for name, change in BAD.items()}
host.promise("completed", all(told[:1] == [(2, 0x61)] for told in seen.values()), repr(seen))
host.promise("flushed", all(told[1:] == [(5, 0xF9)] for told in seen.values()), repr(seen))

events = rdma.Events()
pd = rdma.PD(events.context)
srq = SRQ(pd, SrqInitAttr(SrqAttr(max_wr=16)))
responder = rdma.Half(context=events.context, srq=srq)
requester = rdma.Half()
requester.connect(responder)
responder.connect(requester)
responder.qp.modify(rdma.QPAttr(qp_state=e.IBV_QPS_ERR, cur_qp_state=e.IBV_QPS_RTS), e.IBV_QP_STATE)
kinds = events.take()
host.promise("srq", e.IBV_EVENT_QP_LAST_WQE_REACHED in kinds, repr(kinds))

sender, receiver = rdma.pair()
sender.memory.write(0, b"alive")
sender.post(e.IBV_WR_RDMA_WRITE, 1, [sender.sge(0, 5)], (receiver.mr.rkey, receiver.memory.address))
came = sender.take(1)
host.promise("alive", receiver.memory.read(0, 5) == b"alive", rdma.words(came))

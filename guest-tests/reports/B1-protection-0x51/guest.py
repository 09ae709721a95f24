"""Sends whose memory is gone."""

import card
import host
import rdma

e = rdma.e


def ends(sender, receiver, posted):
    """Completions of the sender and the receiver, and the sender's state."""
    came = sender.take(posted)
    return came, receiver.take(1, seconds=0.5), sender.state()


sender, receiver = rdma.pair()
receiver.receive(100, [receiver.sge(0, 64)])
card.arm("held doorbell", qpn=sender.qp.qp_num)
gone = rdma.Memory(4096)
region = gone.register(sender.pd)
sender.post(e.IBV_WR_SEND, 1, [rdma.SGE(gone.address, 64, region.lkey)])
sender.post(e.IBV_WR_SEND, 2, [sender.sge(64, 64)])
sender.post(e.IBV_WR_SEND, 3, [sender.sge(64, 64)], signalled=False)
card.wait_fired("held doorbell")
region.close()
card.clear("held doorbell")
came, received, state = ends(sender, receiver, 3)
told = [rdma.told(one) for one in came]
host.promise("deregistered", told[:1] == [(4, 0x51)], rdma.words(came))
host.promise("flushed", told[1:] == [(5, 0xF9)] * 2 and state == e.IBV_QPS_ERR, f"{rdma.words(came)}, state {state}")
host.promise("nothing", not received, rdma.words(received))

sender, receiver = rdma.pair()
receiver.receive(100, [receiver.sge(0, 64)])
begin = sender.memory.frame(0) << 12
card.arm("no DMA", src=f"{begin:#x}..{begin + 4096:#x}")
sender.post(e.IBV_WR_SEND, 1, [sender.sge(0, 64)])
sender.post(e.IBV_WR_SEND, 2, [sender.sge(0, 64)])
came, received, state = ends(sender, receiver, 2)
told = [rdma.told(one) for one in came]
same = told == [(4, 0x51), (5, 0xF9)] and state == e.IBV_QPS_ERR and not received
host.promise("unreadable", same, f"{rdma.words(came)}, state {state}; received {rdma.words(received)}")

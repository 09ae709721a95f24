"""A work request in the middle of many fails."""

import card
import host
import rdma

e = rdma.e
ALL, BAD, RECEIVES = 32, 20, 8

sender, receiver = rdma.pair(depth=64)
for number in range(RECEIVES):
    receiver.receive(number, [receiver.sge(4096, 64)])
card.arm("retries exceeded", qpn=sender.qp.qp_num)
remote = (receiver.mr.rkey, receiver.memory.address)
for number in range(1, ALL + 1):
    sender.post(e.IBV_WR_RDMA_WRITE, number, [sender.sge(0, 64)], remote, signalled=number % 2 == 0)
came = sender.take(ALL, seconds=2)
told = [(one.wr_id, *rdma.told(one)) for one in came]
failed = [one for one in told if one[1] not in (0, 5)]
host.promise("one", failed == [(BAD, 12, 0x83)], rdma.words(came))
before = [one[0] for one in told if one[1] == 0]
host.promise("before", before == list(range(2, BAD, 2)), rdma.words(came))
behind = [one[0] for one in told if one[1] == 5]
host.promise("behind", behind == list(range(BAD + 1, ALL + 1)), rdma.words(came))

receiver.qp.modify(rdma.QPAttr(qp_state=e.IBV_QPS_ERR, cur_qp_state=e.IBV_QPS_RTS), e.IBV_QP_STATE)
came = receiver.take(RECEIVES)
told = [(one.wr_id, one.status) for one in came]
host.promise("companion", told == [(number, 5) for number in range(RECEIVES)], rdma.words(came))

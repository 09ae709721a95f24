"""Requests that the responder refuses."""

import host
import rdma

e = rdma.e


def both(post, access=rdma.ALL):
    """What the two ends are told, and the events of the responder."""
    events = rdma.Events()
    requester, responder = rdma.Half(), rdma.Half(context=events.context)
    requester.connect(responder)
    responder.connect(requester, access=access)
    post(requester, responder)
    asked = requester.take(1)
    answered = responder.take(1, seconds=0.5)
    # Communication established is told with the first packet.
    kinds = [kind for kind in events.take() if kind != e.IBV_EVENT_COMM_EST]
    seen = f"requester {rdma.words(asked)}; responder {rdma.words(answered)}; events {kinds}"
    return [rdma.told(one) for one in asked], [rdma.told(one) for one in answered], kinds, seen


def too_long(requester, responder):
    responder.receive(100, [responder.sge(0, 32)])
    requester.post(e.IBV_WR_SEND, 1, [requester.sge(0, 64)])


def bad_receive(requester, responder):
    responder.receive(100, [responder.sge(0, 64, responder.mr.lkey ^ 1)])
    requester.post(e.IBV_WR_SEND, 1, [requester.sge(0, 64)])


def write(key):
    def post(requester, responder):
        remote = (responder.mr.rkey ^ key, responder.memory.address)
        requester.post(e.IBV_WR_RDMA_WRITE, 1, [requester.sge(0, 64)], remote)

    return post


asked, answered, kinds, seen = both(too_long)
host.promise("too-long", asked == [(9, 0x8A)] and [one[0] for one in answered] == [1], seen)
asked, answered, kinds, seen = both(bad_receive)
host.promise("bad-receive", asked[0][0] == 11 and [one[0] for one in answered] == [4], seen)
asked, answered, kinds, seen = both(write(1))
host.promise("bad-key", asked == [(10, 0x88)] and kinds == [e.IBV_EVENT_QP_ACCESS_ERR], seen)
asked, answered, kinds, seen = both(write(0), access=e.IBV_ACCESS_LOCAL_WRITE)
host.promise("not-permitted", asked == [(9, 0x8A)] and kinds == [e.IBV_EVENT_QP_REQ_ERR], seen)

"""Takes what there is until there is no more."""

import card
import host
import kernel
import rdma

e = rdma.e
MOST = 1000
LIMITS = r"{}.*limits exceeded\(0x8\), syndrome \(0x[0-9a-f]+\), err\(-12\)"
RESOURCES = r"{}.*no resources\(0xf\), syndrome \(0x[0-9a-f]+\), err\(-11\)"


def exhaust(promise, make, command, line, number, full):
    """Makes things until it is refused, as the line about the command says; then gives one back and makes it again."""
    log, made, refused = kernel.Log(), [], 0
    while not refused and len(made) < MOST:
        refused = rdma.refusal(lambda: made.append(make()))
    found = log.find(line.format(command)) if command else [""]
    count, there = len(made), full(made)
    made.pop().close()
    again = rdma.refusal(lambda: made.append(make()))
    while made:
        made.pop().close()
    seen = f"{rdma.name(refused)} after {count}, {found[:1]}; {there}; then {rdma.name(again)}"
    host.promise(promise, refused == number and found and there[0] and not again, seen)


context = rdma.open_device()
pd = rdma.PD(context)
page, scattered = rdma.Memory(4096), rdma.Scattered(1 << 20)
keys = lambda made: (card.objects("mkey") == 500, f"{card.objects('mkey')} keys")
exhaust("keys", lambda: page.register(pd), "CREATE_MKEY", LIMITS, 12, keys)


def entries(made):
    filled = sum(card.key(region.rkey)["filled"] for region in made)
    return 20000 - 256 < filled <= 20000, f"{filled} entries"


exhaust("translations", lambda: scattered.register(pd), "CREATE_MKEY", RESOURCES, 11, entries)
queues = lambda made: (card.objects("cq") == 300, f"{card.objects('cq')} completion queues")
exhaust("completion-queues", lambda: rdma.CQ(context, 16), None, None, 12, queues)
cq = rdma.CQ(context, 16)
cap = rdma.QPCap(max_send_wr=1, max_recv_wr=1, max_send_sge=1, max_recv_sge=1)
start = rdma.QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap)
pairs = lambda made: (card.objects("qp") == 300, f"{card.objects('qp')} queue pairs")
exhaust("queue-pairs", lambda: rdma.QP(pd, start), None, None, 12, pairs)

"""Commands that are answered wrongly."""

import os
import re
import time

import card
import driver
import host
import kernel
import process
import rdma
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from rdma import e

VICTIM = {"opcode": "QUERY_HCA_VPORT_CONTEXT"}
CALLED = r"QUERY_HCA_VPORT_CONTEXT\(0x762\) op_mod\(0x0\) failed"
# What the driver makes of a status: its number, what it calls it, the errno.
STATUS = {
    "INT_ERR": (0x1, "internal error", 5),
    "BAD_OP": (0x2, "bad operation", 22),
    "BAD_PARAM": (0x3, "bad parameter", 22),
    "BAD_SYS_STATE": (0x4, "bad system state", 5),
    "BAD_RES": (0x5, "bad resource", 22),
    "RES_BUSY": (0x6, "resource busy", 16),
    "LIM_ERR": (0x8, "limits exceeded", 12),
    "BAD_RES_STATE": (0x9, "bad resource state", 22),
    "IX_ERR": (0xA, "bad index", 22),
    "NO_RES": (0xF, "no resources", 11),
    "BAD_QP_STATE": (0x10, "bad QP state", 22),
    "BAD_PKT": (0x30, r"bad packet \(discarded\)", 22),
    "BAD_SIZE_OUTS_CQES": (0x40, "bad size too many outstanding CQEs", 22),
    "BAD_INPUT_LEN": (0x50, "bad input length", 5),
    "BAD_OUTPUT_LEN": (0x51, "bad output length", 5),
    0x77: (0x77, "unknown status", 5),
}
DELIVERY = {
    "SIGNATURE_ERR": 53,
    "TOKEN_ERR": 53,
    "BAD_BLK_NUM_ERR": 14,
    "OUT_PTR_ALIGN_ERR": 14,
    "IN_PTR_ALIGN_ERR": 14,
    "FW_ERR": 5,
    "INPUT_LEN_ERR": 42,
    "OUTPUT_LEN_ERR": 42,
    "RESERVED_ERR": 42,
    "CMD_DESC_ERR": 42,
    0x2A: 22,
}
# The kernel prints 10 lines from one place in 5 s.
LINES_AGAIN = 5.1

log = kernel.Log()
context = rdma.open_device()


def query():
    return rdma.refusal(lambda: context.query_port(1))


def refused(status):
    """The errno of a query that is refused so, with the status as its syndrome, and its line in the log."""
    number, text, errno = STATUS[status]
    line = rf"{CALLED}, status {text}\({number:#x}\), syndrome \({0x5000 + number:#x}\), err\(-{errno}\)"
    for _ in range(3):
        with card.rule("command", {"status": status, "syndrome": 0x5000 + number}, **VICTIM):
            got = query()
        if got != errno or log.find(line):
            break
        time.sleep(LINES_AGAIN)
    return got, bool(log.find(line))


def counted():
    names = ("failed_mbox_status", "last_failed_errno", "last_failed_mbox_status", "last_failed_syndrome")
    return [driver.told(f"commands/QUERY_HCA_VPORT_CONTEXT/{name}") for name in names]


before = counted()
seen = {status: refused(status) for status in STATUS}
host.promise("status", all(seen[one][0] == STATUS[one][2] for one in STATUS), repr(seen))
host.promise("line", all(line for _, line in seen.values()), repr(seen))

after = counted()
# The last errno is the one of the driver's inner call (EREMOTEIO: the status says the rest).
more = after[0] - before[0] >= len(STATUS) and after[1:] == [121, 0x77, 0x5077]
host.promise("counted", more, f"{before}, {after}")

begun = len(log.lines())
with card.rule("command", {"status": "NOT_READY", "syndrome": 0x5007}, **VICTIM):
    got = query()
lines = [line for line in log.lines()[begun:] if re.search(CALLED, line)]
known = not os.uname().release.startswith("6.1.")
host.promise("not-ready", (got == 11 and not lines) if known else got == 5, f"{rdma.name(got)} {lines}")

# Objects of an application.
half = rdma.Half(context)
queues = rdma.QPInitAttr(qp_type=e.IBV_QPT_RC, scq=half.cq, rcq=half.cq)
tries = {
    "CREATE_CQ": ("LIM_ERR", 12, lambda: rdma.CQ(context, 16)),
    "CREATE_QP": ("NO_RES", 11, lambda: rdma.QP(half.pd, queues)),
    "ALLOC_PD": ("INT_ERR", 5, lambda: rdma.PD(context)),
}
found = {}
for opcode, (status, errno, action) in tries.items():
    had = card.quiet()["objects"]
    with card.rule("command", {"status": status}, opcode=opcode):
        got = rdma.refusal(action)
    found[opcode] = (rdma.name(got), got == errno and card.quiet()["objects"] == had, rdma.refusal(action))
host.promise("create", all(same and not again for _, same, again in found.values()), repr(found))

attributes = rdma.QPAttr(port_num=1)
with card.armed("executed"):
    got = rdma.refusal(lambda: half.qp.to_init(attributes))
state = half.state()
host.promise("executed", (got, state) == (22, e.IBV_QPS_INIT), f"{rdma.name(got)}, state {state}")

srq = SRQ(half.pd, SrqInitAttr(SrqAttr(max_wr=16)))
victims = {"DESTROY_CQ": rdma.CQ(context, 16), "DESTROY_RMP": srq, "DEALLOC_PD": rdma.PD(context)}
found = []
for opcode, victim in victims.items():
    had = card.quiet()["objects"]
    with card.rule("command", {"status": "RES_BUSY"}, opcode=opcode):
        got = rdma.refusal(victim.close)
    found.append((rdma.name(got), card.quiet()["objects"] == had, rdma.refusal(victim.close)))
host.promise("destroy", found == [("EBUSY", True, 0)] * 3, repr(found))


def with_queue():
    SRQ(rdma.PD(rdma.open_device()), SrqInitAttr(SrqAttr(max_wr=16)))


had = card.quiet()["objects"]
with card.rule("command", {"status": "RES_BUSY"}, opcode="DESTROY_RMP"):
    process.run(with_queue)
now = card.quiet()["objects"]
host.promise("exit", now == had, f"{had}, {now}")

with card.armed("port"):
    port = context.query_port(1)
sender, _ = rdma.pair()
with card.armed("queue pair"):
    attr = sender.qp.query(e.IBV_QP_SQ_PSN | e.IBV_QP_RNR_RETRY)[0]
seen = [port.lid, port.sm_lid, port.state, attr.sq_psn, attr.rnr_retry]
host.promise("output", seen == [0x1234, 0x77, e.IBV_PORT_INIT, 0x654321, 3], repr(seen))

for wrong in ("signature", "token", "length"):
    with card.rule("reply", {"corrupt": wrong}, **VICTIM):
        number = query()
    with card.rule("reply", {"corrupt": wrong}, opcode="ALLOC_PD"):
        other = rdma.refusal(lambda: rdma.PD(context))
    host.promise(wrong, not number and not other, f"{rdma.name(number)}, {rdma.name(other)}")

begun = len(log.lines())
seen = {}
for status in DELIVERY:
    with card.rule("command", {"delivery": status}, **VICTIM):
        seen[status] = query()
lines = [line for line in log.lines()[begun:] if "QUERY_HCA_VPORT" in line]
host.promise("delivery", seen == DELIVERY and not lines, f"{seen} {lines}")

driver.unbind()
with card.armed("capability"):
    driver.bind()
    attr = rdma.open_device().query_device() if driver.wait_active() else None
seen = attr and (attr.max_cq, attr.max_cqe)
driver.rebind()
host.promise("capability", seen == (512, 4095), repr(seen))

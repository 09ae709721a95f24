"""Unbinds while one command of a kind fails."""

import time

import card
import driver
import host
import kernel
import rdma

KINDS = ["DESTROY_QP", "DESTROY_CQ", "DESTROY_MKEY", "DESTROY_SRQ", "DESTROY_XRC_SRQ", "DESTROY_RMP", "DESTROY_EQ", "DEALLOC_PD", "DEALLOC_XRCD", "DEALLOC_UAR", "TEARDOWN_HCA", "DISABLE_HCA"]

# Each costs the driver's whole wait.
LOST = ["DESTROY_CQ", "DESTROY_MKEY", "DEALLOC_PD"]

seen, bad, again, shown = [], [], [], 0
for kind in KINDS:
    for how in ("fails", "is lost") if kind in LOST else ("fails",):
        rule = f"{kind} {how}"
        log = kernel.Log()
        card.arm(rule)
        begin = time.monotonic()
        number = rdma.refusal(driver.unbind)
        took = time.monotonic() - begin
        fired = card.fired(rule)
        shown += fired
        card.disarm()
        warned = [line.split("] ", 1)[-1] for line in log.find("WARNING: |BUG: |refcount_t")]
        seen.append((rule, fired, f"{took:.0f} s", rdma.name(number), warned))
        if number:
            bad.append(rule)
        number = rdma.refusal(driver.renew)
        if number or not driver.active():
            again.append((rule, rdma.name(number)))
text = "\n".join(map(repr, seen))
host.promise("unbound", not bad, text)
host.promise("rebind", not again, repr(again))
host.promise("shown", shown >= 8, text)

"""Probes with other capabilities."""

import card
import driver
import host
import kernel
import rdma


def probe(rule):
    """Its errno, whether the port is active then, and the log."""
    log = kernel.Log()
    if driver.bound():
        driver.unbind()
    card.arm(rule)
    number = rdma.refusal(driver.bind)
    active = not number and driver.wait_active()
    if active:
        # Not only bound: it moves data.
        sender, receiver = rdma.pair()
        sender.post(rdma.e.IBV_WR_RDMA_WRITE, 1, [sender.sge()], (receiver.mr.rkey, receiver.memory.address))
        active = [one.status for one in sender.take()] == [0]
    card.disarm()
    return number, active, log


number, active, log = probe("few")
host.promise("few", not number and active, f"{rdma.name(number)}\n{log.text()}")
for rule in ("many", "refused"):
    number, active, log = probe(rule)
    named = log.find("handle_hca_cap failed")
    host.promise(rule, number == 22 and named, f"{rdma.name(number)}\n{log.text()}")
number = rdma.refusal(driver.bind)
host.promise("rebind", not number and driver.wait_active(), rdma.name(number))

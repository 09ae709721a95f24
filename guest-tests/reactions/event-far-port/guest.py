"""A change of a port that there is not."""

import card
import driver
import host
import kernel
import rdma

log = kernel.Log()
user = rdma.Events()
with card.armed("far"):
    line = log.wait("event on port 9")
found = user.take()
host.promise("told", line and not found, f"{line}, {found}")
user.context.close()
number = rdma.refusal(driver.rebind)
host.promise("rebind", not number and driver.active(), rdma.name(number))

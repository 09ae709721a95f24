"""A firmware that asks for more pages than there can be."""

import os

import card
import driver
import host
import kernel
import rdma

ENOMEM = 12

driver.unbind()
log = kernel.Log()
with card.armed("query"):
    number = rdma.refusal(driver.bind)
told = log.find("vzalloc failed") and log.find("failed to allocate boot pages")
host.promise("query", number == ENOMEM and told, f"{rdma.name(number)}\n{told}")
number = rdma.refusal(driver.bind)
active = driver.wait_active()
host.promise("next", not number and active, f"{rdma.name(number)}, active: {active}")

log = kernel.Log()
with card.armed("event", "no pages"):
    line = log.wait("give fail -12")
    card.wait_fired("no pages")
usable = not rdma.refusal(rdma.pair)
host.promise("event", line and usable, f"{line}, usable: {usable}")

if os.uname().release.startswith("6.1."):
    host.without("offer", "this driver has no limit: it asks for all 2^24, which takes minutes")
else:
    before = card.quiet()["pages"]
    with card.armed("offer", "taken"):
        card.wait_fired("taken")
        after = card.quiet()["pages"]
    usable = not rdma.refusal(rdma.pair)
    host.promise("offer", after < before and usable, f"{before} pages, then {after}, usable: {usable}")

"""A firmware that keeps pages."""

import time

import card
import driver
import host
import kernel
import rdma

WAITS = 2


def pages():
    """In the driver's count and in the card's, when nothing goes on."""
    held = card.quiet()["pages"]
    return driver.told("pages/fw_pages_total"), held


log = kernel.Log()
start = pages()
with card.armed("too many", "offers few"):
    line = log.wait("fw returned 2000, driver asked 10 => corruption")
    fail = log.wait("reclaim fail -22")
driver_has, card_has = pages()
kept = line and fail and driver_has == start[0] and card_has == start[1] - 10
host.promise("corruption", kept, f"{line}\n{fail}\n{start}, {driver_has}, {card_has}")

begin = time.monotonic()
with card.armed("kept"):
    number = rdma.refusal(driver.unbind)
seconds = time.monotonic() - begin
line = log.find(r"FW did not return all pages\. giving up")
host.promise("kept", not number and seconds >= WAITS and line, f"{rdma.name(number)} after {seconds:.1f} s, {line}")

number = rdma.refusal(driver.renew)
found = pages()
host.promise("back", not number and found[0] == found[1] > 0, f"{rdma.name(number)}, {found}")

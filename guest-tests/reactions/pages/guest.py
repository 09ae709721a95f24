"""A firmware that asks for pages."""

import time

import card
import driver
import host
import kernel
import rdma

TOTAL, DROPPED = "pages/fw_pages_total", "pages/fw_pages_give_dropped"


def pages():
    """In the driver's count and in the card's, when nothing goes on."""
    held = card.quiet()["pages"]
    return driver.told(TOTAL), held


def probe(*rules):
    """Its errno, the seconds that it took, and the pages afterwards, without those that the card asks for by event."""
    driver.release()
    card.arm("no request")
    with card.armed(*rules):
        begin = time.monotonic()
        number = rdma.refusal(driver.bind)
        seconds = time.monotonic() - begin
    usable = driver.wait_active()
    found = pages()
    card.clear("no request")
    return number, seconds, found, usable


log = kernel.Log()
number, seconds, _, usable = probe("slow query", "slow supply")
host.promise("slow", not number and usable and seconds >= 4, f"{rdma.name(number)} after {seconds:.1f} s")

number, _, found, usable = probe("few at boot", "few before INIT_HCA")
host.promise("fewer", not number and usable and found == (8, 8), f"{rdma.name(number)}, {found}")

number, _, found, usable = probe("none")
host.promise("none", not number and usable and found == (0, 0), f"{rdma.name(number)}, {found}")

driver.rebind()
start = pages()
steps = [start]
for rule, change in (("asks", 1000), ("offers", -1000)):
    with card.armed(rule):
        card.wait(lambda: driver.told(TOTAL) == start[0] + max(change, 0))
        steps.append(pages())
more = tuple(count + 1000 for count in start)
host.promise("request", steps == [start, more, start], repr(steps))

dropped = driver.told(DROPPED)
with card.armed("refuses", "asks"):
    card.wait(lambda: driver.told(DROPPED) > dropped)
    found = pages()
lines = log.find(r"give fail|MANAGE_PAGES")
now = driver.told(DROPPED) - dropped
host.promise("dropped", now == 1000 and found == start and not lines, f"{now} dropped, {found}\n{lines}")

with card.armed("not delivered", "no pages", "asks"):
    line = log.wait("give fail -5")
    told_so = card.wait_fired("no pages")
    found = pages()
host.promise("undelivered", line and found == start and told_so, f"{line}, {found}")

left = card.status()["pages"]
driver.unbind()
found = card.status()["pages"]
driver.bind()
host.promise("unbind", left > 0 and found == 0, f"{left}, then {found}")

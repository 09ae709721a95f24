"""A firmware that starts slowly, or fails at a step of the probe."""

import os
import time

import card
import driver
import host
import kernel
import rdma

EIO, ENOMEM, EBUSY, ETIMEDOUT = 5, 12, 16, 110
RELEASE = os.uname().release
OLD, NEW = RELEASE.startswith("6.1."), int(RELEASE.split(".")[0]) >= 7
# Seconds that the driver waits for an answer.
TIMEOUT = 3
INT_ERR = {"status": "INT_ERR", "syndrome": 0x51}
# The service of the queue pair that only ib_mad has.
QP0 = 7
# Steps in their order: the command, what it is told by besides its opcode, the line of the log.
STEPS = [
    ("ENABLE_HCA", {}, "enable hca failed"),
    ("SET_ISSI", {}, r"Failed to set ISSI to 1 err\(-5\)"),
    ("QUERY_PAGES", {"op_mod": 1}, "failed to allocate boot pages"),
    ("MANAGE_PAGES", {"op_mod": 1}, r"npages 64, err -5"),
    ("ACCESS_REG", {"register_id": "DTOR"}, "failed to read dtor"),
    ("ACCESS_REG", {"register_id": "HOST_ENDIANNESS"}, "set_hca_ctrl failed"),
    ("QUERY_HCA_CAP", {"op_mod": [0, 1]}, "handle_hca_cap failed"),
    ("SET_HCA_CAP", {}, "handle_hca_cap failed"),
    ("QUERY_PAGES", {"op_mod": 2}, "failed to allocate init pages"),
    ("INIT_HCA", {}, "init hca failed"),
    ("QUERY_ADAPTER", {}, "query board id failed"),
    ("ALLOC_UAR", {}, "Failed allocating (uar|bfreg)"),
    ("CREATE_EQ", {}, "Failed to create EQs"),
]


def bind():
    """Its errno, the seconds that it took, the log."""
    driver.release()
    log, begin = kernel.Log(), time.monotonic()
    number = rdma.refusal(driver.bind)
    return number, time.monotonic() - begin, log


driver.release()
begin = time.monotonic()
with card.armed("before"):
    card.wait_fired("before")
    number, _, log = bind()
seconds = time.monotonic() - begin
host.promise("pre-initializing", not number and seconds >= 4, f"{rdma.name(number)} after {seconds:.1f} s")

with card.armed("short"):
    number, seconds, log = bind()
host.promise("initializing", not number and seconds >= 1, f"{rdma.name(number)} after {seconds:.1f} s")

with card.armed("long"):
    number, seconds, log = bind()
line = log.find("Firmware over 2000 MS in initializing state, aborting")
# The next probe waits until the firmware is there.
again = rdma.refusal(driver.bind)
kept = number == (EBUSY if OLD else ETIMEDOUT) and line and not again
host.promise("too-long", kept, f"{rdma.name(number)}, {rdma.name(again)}\n{line}")

found = {}
for opcode, where, line in STEPS:
    step = opcode + "".join(f" {value}" for value in where.values())
    driver.release()
    try:
        with card.rule("command", INT_ERR, opcode=opcode, **where):
            number, _, log = bind()
    except card.NeverFired:
        found[step] = "not reached"
        continue
    told = log.find(line) and log.find("mlx5_init_one failed with error code -5")
    found[step] = "as promised" if number == EIO and told else f"{rdma.name(number)}\n{log.text()}"
host.promise("steps", all(one == "as promised" for one in found.values()), repr(found))
number = rdma.refusal(driver.bind)
active = driver.wait_active()
reached = "not reached" not in found.values()
host.promise("next", reached and not number and active, f"{rdma.name(number)}, active: {active}")

found = []
for opcode, line in (("ENABLE_HCA", "enable hca failed"), ("INIT_HCA", "init hca failed")):
    driver.release()
    with card.rule("command", "lose", opcode=opcode):
        number, seconds, log = bind()
    again = rdma.refusal(driver.bind)
    told = log.find(rf"{opcode}.* timeout. Will cause a leak") and log.find(line)
    found.append((rdma.name(number), seconds >= TIMEOUT, bool(told), rdma.name(again)))
host.promise("unanswered", found == [("ETIMEDOUT", True, True, "success")] * 2, repr(found))

driver.release()
with card.rule("command", INT_ERR, opcode="SET_DRIVER_VERSION"):
    number, _, log = bind()
    active = driver.wait_active()
host.promise("optional", not number and active, f"{rdma.name(number)}, active: {active}")

driver.release()
with card.rule("command", INT_ERR, opcode="QUERY_ISSI"):
    number, _, log = bind()
    active = driver.wait_active()
line = log.find("Query ISSI is not supported by FW, ISSI is 0")
host.promise("issi", not number and active and line, f"{rdma.name(number)}, active: {active}\n{log.text()}")

driver.release()
with card.rule("command", INT_ERR, opcode="ALLOC_XRCD"):
    number, _, log = bind()
    line = log.wait(rf"mlx5_core.rdma.0.* failed with error -{EIO if NEW else ENOMEM}")
kept = not number and driver.bound() and line and not driver.device()
active = driver.rebind()
host.promise("verbs", kept and active, f"{rdma.name(number)}, {line}, active: {active}")

driver.release()
with card.rule("command", INT_ERR, opcode="CREATE_QP", **{"qpc.st": QP0}):
    number, _, log = bind()
    line = log.wait("Couldn't open port 1")
usable = driver.wait_active() and not rdma.refusal(rdma.pair)
host.promise("mad", not number and line and usable, f"{rdma.name(number)}, {line}, usable: {usable}")
driver.rebind()

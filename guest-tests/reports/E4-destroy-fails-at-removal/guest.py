"""Unbinds while one command fails."""

import os
import time

import card
import driver
import host
import kernel
import rdma

REFUSED = [
    "DESTROY_QP",
    "DESTROY_CQ",
    "DESTROY_MKEY",
    "DESTROY_EQ",
    "DEALLOC_PD",
    "DEALLOC_XRCD",
    "DEALLOC_UAR",
    "TEARDOWN_HCA",
    "DISABLE_HCA",
]
# The driver gives a command up after 8 s, and may have thousands of keys to destroy.
PATIENCE = 60


def again(kind):
    number = rdma.refusal(driver.renew)
    if number or not driver.active():
        not_again.append(f"{kind}: {rdma.name(number)}")


not_again, took, failed = [], [], []
for kind in REFUSED:
    card.arm(kind)
    begin = time.monotonic()
    number = rdma.refusal(driver.unbind)
    took.append(f"{kind} {time.monotonic() - begin:.0f} s")
    if number or not card.fired(kind):
        failed.append(f"{kind}: {rdma.name(number)}")
    card.disarm()
    again(kind)
host.promise("refused", not failed, ", ".join(failed or took))

card.arm("no answer")
begin = time.monotonic()
child = os.fork()
if child == 0:
    os._exit(rdma.refusal(driver.unbind))
ended = card.wait(lambda: os.waitpid(child, os.WNOHANG)[0], PATIENCE)
host.promise("lost", ended, f"{time.monotonic() - begin:.0f} s" if ended else "\n".join(kernel.stuck()))
card.disarm()
if not ended:
    os.waitpid(child, 0)
again("no answer")
host.promise("rebind", not not_again, ", ".join(not_again))

"""A queue pair that the card does not let go of."""

import card
import driver
import host
import kernel
import process
import rdma

log = kernel.Log()


def user():
    half = rdma.Half()
    qpn, had = half.qp.qp_num, card.quiet()["objects"]["qp"]
    with card.armed("refused"):
        number = rdma.refusal(half.qp.close)
    line = log.wait(f"failed to destroy QP 0x{qpn:x}", 5)
    host.promise("told", not number and line, f"{rdma.name(number)}\n{line}")
    left = card.quiet()["objects"]["qp"]
    number = rdma.refusal(half.cq.close)
    host.promise("stays", left == had and number == 16, f"{had}, {left}, {rdma.name(number)}")


process.run(user)
number = rdma.refusal(driver.renew)
host.promise("back", not number and driver.active(), rdma.name(number))

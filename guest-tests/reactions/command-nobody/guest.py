"""The completion of a command that nobody has given."""

import card
import host
import rdma

context = rdma.open_device()
with card.armed("nobody"):
    card.wait_fired("nobody")
    number = rdma.refusal(lambda: rdma.PD(context))
host.promise("nothing", not number, rdma.name(number))

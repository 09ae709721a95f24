"""Fatal errors at each step of a probe."""

import time

import card
import driver
import host
import rdma

STEPS = [
    "ENABLE_HCA",
    "SET_ISSI",
    "QUERY_HCA_CAP",
    "SET_HCA_CAP",
    "INIT_HCA",
    "ALLOC_UAR",
    "CREATE_EQ",
    "CREATE_CQ",
    "CREATE_MKEY",
]

seen, again = [], []
for step in STEPS:
    driver.unbind()
    card.arm(step)
    begin = time.monotonic()
    refused = rdma.refusal(driver.bind)
    took = time.monotonic() - begin
    # The health poll comes every half second; what it begins ends in the background.
    time.sleep(1.5)
    card.disarm()
    seen.append((step, rdma.name(refused), round(took)))
    number = rdma.refusal(driver.renew)
    again.append((step, rdma.name(number), driver.active()))
host.promise("clean", len(seen) == len(STEPS), repr(seen))
host.promise("rebind", all(active for _, _, active in again), repr(again))

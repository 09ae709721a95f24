"""The guest's part of the verbs tests: does what the plan beside this file says, and tells the host."""

import json
import os
import platform
import subprocess
from pathlib import Path

from say import say

import suite
import tools

# For tools and tests that use them; 2 MiB each.
HUGE_PAGES = 64

SOFT_ROCE = """
modprobe -a crc32_generic rdma_rxe veth || modprobe -a rdma_rxe veth
ip link add veth0 type veth peer veth1
ip link set veth0 up
ip link set veth1 up
ip address add 10.1.1.1/24 dev veth0
rdma link add rxe0 type rxe netdev veth0
while ip -6 address show tentative | grep -q inet6; do sleep 0.1; done
"""


def main():
    plan = json.loads(Path(__file__).with_name("plan.json").read_text())
    Path("/proc/sys/vm/nr_hugepages").write_text(str(HUGE_PAGES))
    if plan["soft_roce"]:
        subprocess.run(["sh", "-ec", SOFT_ROCE], check=True)
    devices = sorted(os.listdir("/sys/class/infiniband"))
    say("hello", kernel=platform.release(), devices=devices)
    tools.run(plan["tools"])
    if plan["suite"]:
        suite.run(plan["suite"])
    say("end")


main()

"""A query of the port that the card answers too late."""

import card
import commands
import host
import kernel
import rdma

log = kernel.Log()
context = rdma.open_device()
card.arm("late")
refused = rdma.refusal(lambda: context.query_port(1))
host.promise("timed-out", refused == 110, rdma.name(refused))
timeout = log.wait(r"ACCESS_REG\(0x805\) timeout. Will cause a leak", 10)
card.release("late")
late = log.wait("Command completion arrived after timeout", 20)
host.promise("told", timeout and late, f"{timeout}\n{late}")
good, seen = commands.at_once(commands.SLOTS + 8)
host.promise("slots", good, seen)

"""Registers one page after the other while the card makes no key."""

import card
import host
import kernel
import process
import rdma

MOST = 20000

log = kernel.Log()
before = card.quiet()["objects"]["mkey_live"]


def register_until_refused():
    pd = rdma.PD(rdma.open_device())
    memory = rdma.Memory(4096)
    kept = []
    card.arm("no more keys")
    refused = 0
    while not refused and len(kept) < MOST:
        refused = rdma.refusal(lambda: kept.append(memory.register(pd)))
    host.promise("enomem", refused == 12, f"{rdma.name(refused)} after {len(kept)} registrations")
    # The failure again and again, as an application that tries.
    for _ in range(50):
        rdma.refusal(lambda: kept.append(memory.register(pd)))
    found = log.find(r"CREATE_MKEY\(0x200\).*limits exceeded\(0x8\), syndrome \(0x18af6\), err\(-12\)")
    host.promise("named", found, found[0] if found else log.text())
    lines = len(log.find("CREATE_MKEY|async reg mr"))
    failures = card.fired("no more keys")
    host.promise("limited", lines <= 30 < failures, f"{lines} lines of {failures} failures")
    card.clear("no more keys")
    again = card.wait(lambda: not rdma.refusal(lambda: kept.append(memory.register(pd))))
    host.promise("again", again, f"{len(kept)} registrations in the end")


process.run(register_until_refused)
after = card.quiet()["objects"]["mkey_live"]
host.promise("baseline", after == before, f"{before} live keys before, {after} after")

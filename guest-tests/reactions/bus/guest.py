"""A card that is off the bus, in reset, out of its slot."""

import card
import driver
import host
import kernel
import rdma

e = rdma.e
END = r"health recovery (succeeded|failed|flow aborted)"
ADDRESS = driver.function()


# QEMU has its own bit in the header type behind it.
GONE = b"\xff" * 14


def configuration():
    """The start of the card's configuration space."""
    return (driver.PCI / "devices" / ADDRESS / "config").read_bytes()[:14]


def there():
    return (driver.PCI / "devices" / ADDRESS).exists()


def lost(events):
    """Whether an application has been told that the device is gone, what, and the errno of its next call."""
    kinds = events.take(2)
    number = rdma.name(rdma.refusal(lambda: rdma.PD(events.context)))
    return e.IBV_EVENT_DEVICE_FATAL in kinds and number == "EIO", f"events {kinds}, then {number}"


def strike(*rules):
    """These rules hold; the kernel's log from now on."""
    card.disarm()
    log = kernel.Log()
    card.arm(*rules)
    return log


def renewed():
    """Whether a reset and a new probe bring the device back, and their errno."""
    number = rdma.refusal(driver.renew)
    return not number and driver.active() and rdma.moves(), rdma.name(number)


def long_reset():
    driver.unbind()
    log = strike("long reset")
    number = rdma.refusal(driver.reset)
    waited = log.find(r"not ready \d+ms after FLR; waiting"), log.find(r"\bready \d+ms after FLR")
    driver.bind()
    good = not number and all(waited) and driver.wait_active() and rdma.moves()
    host.promise("long-reset", good, f"{rdma.name(number)}; {waited}")


def unplugged():
    events = rdma.Events()
    strike("out", "in")
    gone = card.wait(lambda: not there(), 20)
    told, said = lost(events)
    host.promise("unplugged", gone and told, f"gone {gone}; {said}")
    back = card.wait(there, 20) and driver.wait_active()
    host.promise("replugged", back and rdma.moves(), f"back {back}")


def off():
    events = rdma.Events()
    log = strike("away for 8 s")
    card.wait_fired("away for 8 s")
    start = configuration()
    host.promise("off-configuration", start == GONE, start.hex())
    end = log.wait(END, 30)
    found = log.find("Fatal error 1 detected") and log.find("PCI slot is unavailable")
    told, said = lost(events)
    host.promise("off-noticed", found and told, f"{found}; {said}")
    host.promise("off-given-up", "PCI reads still not working" in (end or ""), repr(end))
    card.wait(lambda: configuration() != GONE, 20)
    host.promise("off-and-back", *renewed())


def moment():
    log = strike("away for 2 s")
    end = log.wait(END, 30)
    begun = log.find("starting health recovery flow")
    refused = log.find(r"ENABLE_HCA.*bad system state")
    card.disarm()
    good, said = renewed()
    good = good and "failed" in (end or "") and begun and refused
    host.promise("off-for-a-moment", good, f"{begun}; {refused}; {end}; new probe {said}")


def pulled():
    context = rdma.open_device()
    strike("pulled", "out after that", "in after that")
    card.wait_fired("pulled")
    number = rdma.name(rdma.refusal(lambda: rdma.CQ(context, 16)))
    gone = card.wait(lambda: not there(), 30)
    host.promise("pulled-out", number in ("ETIMEDOUT", "ENOLINK", "EIO") and gone, f"{number}; gone {gone}")
    back = card.wait(there, 40) and driver.wait_active()
    host.promise("pulled-out-and-in", back and rdma.moves(), f"back {back}")


long_reset()
unplugged()
off()
moment()
pulled()

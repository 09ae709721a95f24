"""What the driver watches of the card's health."""

import card
import devlink
import driver
import host
import kernel
import rdma

e = rdma.e
SYNDROMES = {
    0x01: "firmware internal error",
    0x07: "irisc not responding",
    0x08: "unrecoverable hardware error",
    0x09: "firmware CRC error",
    0x0A: "ICM fetch PCI error",
    0x0B: "HW fatal error",
    0x0C: "async EQ buffer overrun",
    0x0D: "EQ error",
    0x0E: "Invalid EQ referenced",
    0x0F: "FFSER error",
    0x10: "High temperature",
    0x7F: "unrecognized error",
}
# What the driver says when it has recovered, or not.
END = r"health recovery (succeeded|failed|flow aborted)"


def strike(*rules):
    """These rules hold; the kernel's log from now on."""
    card.disarm()
    log = kernel.Log()
    card.arm(*rules)
    card.wait_fired(rules[0])
    return log


def lines(log, *patterns):
    """The first line that each matches, None where none does."""
    return [next(iter(log.find(pattern)), None) for pattern in patterns]


def short(found):
    return repr([line and line.split(": ", 1)[-1] for line in found])


def errors(reporter):
    return devlink.show(reporter)["error"]


def well():
    card.disarm()
    card.arm("well")
    card.wait_fired("well")
    card.disarm()


def counter_stops():
    before = errors("fw")
    log = strike("counter stops")
    line = log.wait("device's health compromised - reached miss count", 15)
    counted = card.wait(lambda: errors("fw") == before + 1, 5)
    moves = rdma.moves()
    host.promise("counter-stops", line and counted and moves, f"{line}; counted {counted}, data moves {moves}")
    card.disarm()
    driver.renew()
    log = strike("syndrome 0x7", "counter stops")
    log.wait("device's health compromised - reached miss count", 15)
    found = lines(
        log,
        r"Health issue observed, irisc not responding, severity\(4\) WARNING",
        r"severity 4 \(WARNING\)",
        r"synd 0x7: irisc not responding",
    )
    host.promise("counter-stops-syndrome", all(found), short(found))
    card.disarm()
    driver.renew()


def syndromes():
    before, seen = errors("fw"), {}
    for number, words in SYNDROMES.items():
        strike(f"syndrome {number:#x}")
        said = devlink.diagnose("fw")
        if said != f"Syndrome: {number} Description: {words}":
            seen[number] = said
    host.promise("syndromes", not seen, repr(seen or f"{len(SYNDROMES)} syndromes, the last: {said}"))
    counted = card.wait(lambda: errors("fw") > before, 5)
    host.promise("syndrome-reported", counted and rdma.moves(), f"{errors('fw') - before} errors")
    well()


def fatal():
    events = rdma.Events()
    before = devlink.show("fw_fatal")
    log = strike("fatal")
    end = log.wait(END, 30)
    found = lines(
        log,
        "Fatal error 5 detected",
        r"Health issue observed, unrecoverable hardware error, severity\(2\) CRITICAL",
        "rfr 1",
        r"severity 2 \(CRITICAL\)",
        "synd 0x8: unrecoverable hardware error",
    )
    kinds = events.take()
    number = rdma.name(rdma.refusal(lambda: rdma.PD(events.context)))
    good = all(found) and e.IBV_EVENT_DEVICE_FATAL in kinds and number == "EIO"
    host.promise("fatal", good, f"{short(found)}; events {kinds}; then {number}")
    back = driver.wait_active()
    issued = lines(log, "Issuing FW Reset")
    after = devlink.show("fw_fatal")
    good = "succeeded" in (end or "") and issued[0] and back and rdma.moves()
    good = good and after == {"state": "healthy", "error": before["error"] + 1, "recover": before["recover"] + 1}
    host.promise("recovers", good, f"{end}; {issued}; back {back}; {after}")


def by_hand(log):
    """The device after `devlink health recover`, and what was said."""
    code, output = devlink.recover("fw_fatal")
    back = driver.wait_active(10)
    said = f"recover ends with {code} {output}; back {back}; {log.find(END)[-1:]}"
    return code == 0 and back and rdma.moves(), said


def grace():
    log = strike("fatal again")
    line = log.wait("Driver is in error state. Unloading", 15)
    gone = card.wait(lambda: not driver.device(), 10)
    card.disarm()
    good, said = by_hand(log)
    host.promise("grace", line and gone and good, f"{line}; gone {gone}; {said}")
    devlink.without_grace()


def still_ill():
    log = strike("fatal", "still ill")
    line = log.wait("health recovery failed", 30)
    # Its own poll sees the illness again.
    log.wait("Driver is in error state. Unloading", 15)
    gone = card.wait(lambda: not driver.device(), 10)
    host.promise("still-ill", line and gone, f"{line}; gone {gone}")
    card.disarm()
    good, said = by_hand(log)
    host.promise("still-ill-by-hand", good, said)


def lie(rule, *patterns):
    """A sensor that lies until the driver has given up."""
    log = strike(rule)
    end = log.wait(END, 30)
    found = lines(log, *patterns)
    card.disarm()
    number = rdma.refusal(driver.renew)
    back = not number and driver.active() and rdma.moves()
    host.promise(rule.replace(" ", "-"), all(found) and back, f"{short(found)}; {end}; new probe {rdma.name(number)}")


def firmware_reset():
    code, output = devlink.ask("dev", "reload", f"pci/{driver.function()}", "action", "fw_activate")
    refused = any(why in output for why in ("Operation not supported", "Invalid argument"))
    good = code and refused and rdma.moves()
    host.promise("firmware-reset", good, f"{code}: {output}")


firmware_reset()
counter_stops()
syndromes()
fatal()
grace()
still_ill()
lie("interface disabled", "Fatal error 3 detected", "starting teardown")
lie("interface in reset", "Fatal error 4 detected", "NIC SW reset in progress")
lie("version all ones", "Fatal error 1 detected", "PCI reads still not working")

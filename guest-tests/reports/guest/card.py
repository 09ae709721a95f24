"""Questions and orders to the card, over its control socket (docs/control.md)."""

import contextlib
import time

import host

Refused = host.Refused


def ask(do, **more):
    return host.tell("ask", request={"do": do, **more})


def arm(*rules, **where):
    """These rules of plan.toml hold from now on; `where` is what only the guest knows."""
    host.tell("arm", rules=list(rules), where=where)


def disarm():
    """No rule holds any more. One that must have fired and did not fails the report."""
    host.tell("disarm")


class NeverFired(Exception):
    """A rule that was to fire did not."""


@contextlib.contextmanager
def armed(*rules, **where):
    """These rules of plan.toml hold in this block, and each has fired when it ends."""
    arm(*rules, **where)
    yield
    for rule in rules:
        _over(rule)


@contextlib.contextmanager
def rule(at, do, count=1, after_ms=0, **where):
    """A rule that the script makes up holds in this block, and has fired when it ends. Yields its name."""
    name = f"{at} {where}: {do}"
    ask("fault_add", rule={"name": name, "at": at, "where": where, "count": count, "after_ms": after_ms, "do": do})
    yield name
    _over(name)


def _over(name):
    missed = not wait_fired(name, seconds=5)
    clear(name)
    if missed:
        raise NeverFired(name)


def release(rule):
    """What the rule holds goes on; how much that is."""
    return ask("fault_release", name=rule)["released"]


def clear(rule):
    ask("fault_clear", name=rule)


def fired(rule):
    """How often the rule has fired."""
    return next(one["fired"] for one in ask("fault_list")["rules"] if one["name"] == rule)


def wait_fired(rule, times=1, seconds=20):
    """Waits until the rule has fired so often; whether it has."""
    return wait(lambda: fired(rule) >= times, seconds)


def wait(done, seconds=20):
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def status():
    return ask("status")


def objects(kind):
    """How many there are: `mkey`, `mkey_live`, `qp`, …"""
    return status()["objects"].get(kind, 0)


def numbers(node):
    """Those of all objects of a node: `qps`, `cqs`, `srqs`, …"""
    return {int(child["name"], 16) for child in ask("inspect", node=node, limit=2048)["children"]}


def values(node):
    """What a node says, such as `qps/0x45`."""
    return ask("inspect", node=node)["values"]


def events_queue():
    """The number of the queue of the port's, queue pairs' and other events: the one with most entries."""
    return max(numbers("eqs"), key=lambda number: values(f"eqs/{number:#x}")["eqc.log_eq_size"])


def vector(eqn):
    """The vector of an event queue."""
    return values(f"eqs/{eqn:#x}").get("eqc.intr", 0)


def counter(name):
    return status()["counters"].get(name, 0)


def counters(*names):
    now = status()["counters"]
    return {name: now.get(name, 0) for name in names}


def key(key):
    """A key's context, or None."""
    try:
        return ask("mkey", key=hex(key))
    except Refused:
        return None


def own_queue_pairs():
    """Numbers of the queue pairs with which the driver changes keys."""
    found = ask("inspect", node="qps")["children"]
    users = ("RC", "UD", "UC", "XRC")
    return [int(qp["name"], 16) for qp in found if qp["values"].get("service") not in users]


def quiet(still=0.3, seconds=30):
    """Waits until no command has come for a while; the card's status then."""
    end = time.monotonic() + seconds
    before = status()
    while time.monotonic() < end:
        time.sleep(still)
        now = status()
        if now["counters"] == before["counters"]:
            break
        before = now
    return status()

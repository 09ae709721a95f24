"""Doorbells and work requests that go wrong."""

import os
import time

import card
import host
import kernel
import rdma

e = rdma.e
# More than a command may take, in seconds.
LONG = 4
# Syndromes and their statuses, in the order of plan.toml.
STATUSES = {
    "LOCAL_LENGTH_ERR": e.IBV_WC_LOC_LEN_ERR,
    "LOCAL_QP_OP_ERR": e.IBV_WC_LOC_QP_OP_ERR,
    "LOCAL_PROT_ERR": e.IBV_WC_LOC_PROT_ERR,
    "MW_BIND_ERR": e.IBV_WC_MW_BIND_ERR,
    "BAD_RESP_ERR": e.IBV_WC_BAD_RESP_ERR,
    "LOCAL_ACCESS_ERR": e.IBV_WC_LOC_ACCESS_ERR,
    "REMOTE_INVAL_REQ_ERR": e.IBV_WC_REM_INV_REQ_ERR,
    "REMOTE_ACCESS_ERR": e.IBV_WC_REM_ACCESS_ERR,
    "REMOTE_OP_ERR": e.IBV_WC_REM_OP_ERR,
    "TRANSPORT_RETRY_EXC_ERR": e.IBV_WC_RETRY_EXC_ERR,
    "RNR_RETRY_EXC_ERR": e.IBV_WC_RNR_RETRY_EXC_ERR,
    "REMOTE_ABORTED_ERR": e.IBV_WC_REM_ABORT_ERR,
}


def armed(rule, **more):
    """A pair; the rule holds for the first's queue."""
    one, other = rdma.pair(**more)
    card.arm(rule, qpn=one.qp.qp_num)
    return one, other


def doorbell_lost():
    one, other = armed("doorbell lost")
    one.rdma_write(other, 1)
    card.wait_fired("doorbell lost")
    none = one.take(1, seconds=0.5)
    one.rdma_write(other, 2)
    came = one.take(2)
    good = not none and rdma.outcomes(came) == [(1, 0), (2, 0)]
    host.promise("doorbell-lost", good, f"at first {rdma.words(none)}; then {rdma.words(came)}")


def late(rule, promise):
    one, other = armed(rule)
    begin = time.monotonic()
    one.rdma_write(other, 1)
    came = one.take(1)
    took = time.monotonic() - begin
    good = took > 0.35 and rdma.outcomes(came) == [(1, 0)]
    host.promise(promise, good, f"{rdma.words(came)} after {took:.2f} s")


def request_late():
    one, other = armed("second late")
    free, peer = rdma.pair()
    begin = time.monotonic()
    for number in (1, 2, 3):
        one.rdma_write(other, number)
    first = one.take(1)
    free.rdma_write(peer, 9)
    meanwhile = free.take(1)
    none = one.take(1, seconds=0) if time.monotonic() - begin < 0.3 else []
    rest = one.take(2)
    took = time.monotonic() - begin
    order = [rdma.outcomes(found) for found in (first, meanwhile, none, rest)]
    good = order == [[(1, 0)], [(9, 0)], [], [(2, 0), (3, 0)]] and took > 0.35
    host.promise("request-late", good, f"{order} after {took:.2f} s")


def partly():
    one, other = armed("partly")
    one.memory.write(0, b"n" * 16384)
    other.memory.write(0, b"o" * 16384)
    one.rdma_write(other, 1, length=16384)
    one.rdma_write(other, 2)
    came = one.take(2)
    there = other.memory.read(0, 16384)
    moved = len(there) - len(there.lstrip(b"n"))
    told = [(c.wr_id, *rdma.told(c)) for c in came]
    good = told == [(1, e.IBV_WC_REM_OP_ERR, 0x77), (2, e.IBV_WC_WR_FLUSH_ERR, 0xF9)]
    good = good and there == b"n" * 8192 + b"o" * 8192 and one.state() == e.IBV_QPS_ERR
    host.promise("partly", good, f"{rdma.words(came)}; {moved} bytes moved, state {one.state()}")


def failed(rule):
    one, other = armed(rule)
    one.rdma_write(other, 1)
    came = one.take(1)
    return [rdma.told(c) for c in came], one.state()


def statuses():
    seen = {name: failed(name) for name in STATUSES}
    vendors = {name: 0x41 + at for at, name in enumerate(STATUSES)}
    wrong = {
        name: found
        for name, found in seen.items()
        if found != ([(STATUSES[name], vendors[name])], e.IBV_QPS_ERR)
    }
    host.promise("statuses", not wrong, repr(wrong or f"{len(seen)} statuses"))
    told, state = failed("unknown")
    host.promise("unknown-syndrome", told == [(e.IBV_WC_GENERAL_ERR, 0x60)], f"{told}, state {state}")


def passed_over():
    one, other = armed("second passed over", depth=8)
    depth = 8
    for number in (1, 2, 3):
        one.memory.write(64 * number, bytes([number]) * 64)
        one.rdma_write(other, number, offset=64 * number, at=64 * number)
    came = one.take(3, seconds=1)
    there = [other.memory.read(64 * number, 1)[0] for number in (1, 2, 3)]
    for number in range(10, 10 + depth):
        one.rdma_write(other, number)
    more = one.take(depth)
    good = rdma.outcomes(came) == [(1, 0), (3, 0)] and there == [1, 0, 3]
    good = good and rdma.outcomes(more) == [(number, 0) for number in range(10, 10 + depth)]
    host.promise("passed-over", good, f"{rdma.words(came)}; memory {there}; then {len(more)}")


class Registrar:
    """A process that registers memory; `number` is its errno in the end, None while it waits."""

    def __init__(self):
        self.number = None
        self.pid = os.fork()
        if self.pid == 0:
            pd = rdma.PD(rdma.open_device())
            # Nothing is destroyed by Python: the kernel does it.
            os._exit(rdma.refusal(lambda: rdma.Memory(1 << 16).register(pd)))

    def ended(self, seconds=20):
        """Waits for it; whether it has ended."""

        def over():
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.number = os.waitstatus_to_exitcode(status)
            return pid != 0

        return self.number is not None or card.wait(over, seconds)

    def waits(self):
        """Whether it waits for the driver's work request."""
        return "mlx5r_umr_post_send_wait" in kernel.stack(self.pid)


def driver_late(own):
    card.arm("held", qpn=own)
    one = Registrar()
    card.wait_fired("held")
    over = one.ended(LONG)
    waits = one.waits()
    card.clear("held")
    one.ended()
    good = not over and waits and one.number == 0
    host.promise("driver-late", good, f"waits {LONG} s: {waits}; then {rdma.name(one.number)}")


def driver_doorbell(own):
    card.arm("doorbell lost", qpn=own)
    first = Registrar()
    card.wait_fired("doorbell lost")
    over = first.ended(1)
    second = Registrar()
    ended = [one.ended() and rdma.name(one.number) for one in (first, second)]
    host.promise("driver-doorbell", not over and ended == ["success"] * 2, f"alone {over}; then {ended}")


def driver_fails(own, log):
    card.arm("fails", qpn=own)
    bad = Registrar()
    bad.ended()
    card.clear("fails")
    line = log.wait(r"reg umr failed \(6\)\. Trying to recover")
    good = Registrar()
    good.ended()
    kept = bad.number == 14 and line and good.number == 0
    host.promise("driver-fails", kept, f"{rdma.name(bad.number)}, then {rdma.name(good.number)}: {line}")


def driver_flush_late(own):
    card.arm("fails", "flush held", qpn=own)
    bad = Registrar()
    card.wait(lambda: card.fired("flush held") or bad.ended(0))
    if bad.number is not None:
        host.without("driver-flush-late", "this kernel posts no barrier")
        return
    other = Registrar()
    early = bad.ended(1) or other.ended(0.1)
    card.clear("flush held")
    ended = [one.ended() and rdma.name(one.number) for one in (bad, other)]
    host.promise("driver-flush-late", not early and ended == ["EFAULT", "success"], f"{early}; then {ended}")


doorbell_lost()
late("doorbell late", "doorbell-late")
request_late()
partly()
statuses()
passed_over()
card.disarm()
own = card.own_queue_pairs()
driver_late(own)
driver_doorbell(own)
card.disarm()
driver_fails(own, kernel.Log())
card.disarm()
driver_flush_late(own)

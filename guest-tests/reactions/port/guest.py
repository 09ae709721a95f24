"""The port's state and speed, and packets that are lost, doubled and late."""

import time

import card
import driver
import host
import rdma
from pyverbs.addr import AH

e = rdma.e
PORT = driver.RDMA / driver.device() / "ports/1"
ERR, ACTIVE = e.IBV_EVENT_PORT_ERR, e.IBV_EVENT_PORT_ACTIVE
LENGTH = 65536


def port(events, *rules):
    """What becomes of the port: what sysfs says, what the library says, which events come."""
    for rule in rules:
        card.arm(rule)
        card.wait_fired(rule)
    # Newer kernels tell of the speed as well.
    kinds = [kind for kind in events.take() if kind in (ERR, ACTIVE)]
    said = [(PORT / file).read_text().strip() for file in ("state", "phys_state", "rate")]
    now = events.context.query_port(1)
    card.disarm()
    return said, (now.state, now.phys_state, now.active_width, now.active_speed), kinds


def state():
    events = rdma.Events()
    said, asked, kinds = port(events, "down")
    good = said[:2] == ["1: DOWN", "2: Polling"] and asked[:2] == (1, 2) and kinds == [ERR]
    host.promise("down", good, f"{said} {asked} {kinds}")
    one, other = rdma.pair(timeout=8, retry=3)
    one.rdma_write(other, 1)
    came = one.take(1)
    host.promise("down-traffic", [rdma.told(c) for c in came] == [(12, 0x81)], rdma.words(came))
    one, other = rdma.pair(timeout=16, retry=7)
    one.rdma_write(other, 1)
    none = one.take(1, seconds=0.5)
    said, asked, kinds = port(events, "up")
    good = said[:2] == ["4: ACTIVE", "5: LinkUp"] and asked[:2] == (4, 5) and kinds == [ACTIVE]
    host.promise("up", good, f"{said} {asked} {kinds}")
    came = one.take(1)
    good = not none and rdma.outcomes(came) == [(1, 0)]
    host.promise("up-traffic", good, f"down {rdma.words(none)}, up {rdma.words(came)}")


def flapping():
    events = rdma.Events()
    card.arm("flaps down", "flaps up")
    card.wait_fired("flaps up", 3)
    kinds = [kind for kind in events.take() if kind in (ERR, ACTIVE)]
    card.disarm()
    host.promise("flapping", kinds == [ERR, ACTIVE] * 3, repr(kinds))


def speed():
    events = rdma.Events()
    seen = [port(events, "slow"), port(events, "fast")]
    rates = [(said[2], asked[2:], sorted(kinds, reverse=True)) for said, asked, kinds in seen]
    wanted = [("25 Gb/sec (1X EDR)", (1, 32)), ("200 Gb/sec (4X HDR)", (2, 64))]
    good = rates == [(*want, [ERR, ACTIVE]) for want in wanted]
    host.promise("speed", good, repr(rates))


def counters():
    # The driver asks the card at most every 10 ms.
    time.sleep(0.02)
    names = ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "duplicate_request")
    names += ("req_transport_retries_exceeded",)
    files = {name: PORT / "hw_counters" / name for name in names}
    # Older kernels do not have the last one.
    return {name: int(file.read_text()) for name, file in files.items() if file.exists()}


def write(rule, answers=False, **more):
    """A long write: what came of it, whether all data is there, and what the card has counted."""
    one, other = rdma.pair(length=LENGTH, **more)
    one.memory.write(0, bytes(range(256)) * (LENGTH // 256))
    before = counters()
    card.arm(rule, dest_qpn=(one if answers else other).qp.qp_num)
    one.rdma_write(other, 1, length=LENGTH)
    came = one.take(1)
    card.wait_fired(rule)
    card.disarm()
    same = other.memory.read(0, LENGTH) == one.memory.read(0, LENGTH)
    counted = {name: now - before[name] for name, now in counters().items() if now != before[name]}
    return one, came, same, counted


def retransmitted(promise, rule, wanted, **more):
    _, came, same, counted = write(rule, timeout=10, **more)
    good = rdma.outcomes(came) == [(1, 0)] and same and wanted(counted)
    host.promise(promise, good, f"{rdma.words(came)}, right {same}, {counted}")


def packets():
    counts = lambda *names: lambda counted: all(counted.get(name, 0) > 0 for name in names)
    once = lambda counted: (counted.get("out_of_sequence"), counted.get("packet_seq_err")) == (1, 1)
    retransmitted("packet-lost", "fifth lost", once)
    retransmitted("last-packet-lost", "last lost", counts("local_ack_timeout_err"))
    retried = counts("local_ack_timeout_err", "duplicate_request")
    retransmitted("answer-lost", "answer lost", retried, answers=True)
    retransmitted("packet-twice", "fifth twice", counts("duplicate_request"))
    retransmitted("packet-late", "fifth late", counts("out_of_sequence"))
    one, came, _, counted = write("all lost", timeout=8, retry=3)
    good = [rdma.told(c) for c in came] == [(12, 0x81)] and one.state() == e.IBV_QPS_ERR
    exceeded = {"req_transport_retries_exceeded": 1}
    good = good and counted in ({"local_ack_timeout_err": 4}, {"local_ack_timeout_err": 4, **exceeded})
    host.promise("all-lost", good, f"{rdma.words(came)}, {counted}")


class Datagrams:
    """A queue pair for datagrams that sends to itself."""

    KEY, HEAD = 0x1234, 40

    def __init__(self):
        context = rdma.open_device()
        self.pd = rdma.PD(context)
        self.memory = rdma.Memory(8192)
        self.mr = self.memory.register(self.pd)
        self.sent, self.received = rdma.CQ(context, 16), rdma.CQ(context, 16)
        cap = rdma.QPCap(max_send_wr=8, max_recv_wr=8, max_send_sge=1, max_recv_sge=1)
        start = rdma.QPInitAttr(qp_type=e.IBV_QPT_UD, scq=self.sent, rcq=self.received, cap=cap)
        attributes = rdma.QPAttr(port_num=1)
        attributes.qkey = self.KEY
        self.qp = rdma.QP(self.pd, start, attributes)
        lid = context.query_port(1).lid
        self.path = AH(self.pd, attr=rdma.AHAttr(port_num=1, is_global=0, dlid=lid, sl=0))

    def send(self, letter):
        """Sends a datagram of this letter."""
        at = 4096 + ord(letter)
        self.memory.write(at, letter.encode())
        sge = rdma.SGE(self.memory.address + at, 1, self.mr.lkey)
        flags = e.IBV_SEND_SIGNALED
        request = rdma.SendWR(ord(letter), opcode=e.IBV_WR_SEND, num_sge=1, sg=[sge], send_flags=flags)
        request.set_wr_ud(self.path, self.qp.qp_num, self.KEY)
        self.qp.post_send(request)

    def receive(self, number):
        sge = rdma.SGE(self.memory.address + 64 * number, 64, self.mr.lkey)
        self.qp.post_recv(rdma.RecvWR(number, num_sge=1, sg=[sge]))

    def exchange(self, letters, arrive):
        """Which of them come, in which order, until so many have."""
        for number in range(len(letters) + 1):
            self.receive(number)
        for letter in letters:
            self.send(letter)
        sent = rdma.taken(self.sent, len(letters), 5)
        received = rdma.taken(self.received, arrive, 1)
        came = [self.memory.read(64 * c.wr_id + self.HEAD, 1).decode() for c in received]
        return "".join(chr(c.wr_id) for c in sent if not c.status), "".join(came)


def datagrams():
    for what, arrive in (("lost", "ac"), ("twice", "abbc"), ("late", "acb")):
        one = Datagrams()
        card.arm(f"second datagram {what}", dest_qpn=one.qp.qp_num)
        seen = one.exchange("abc", 4 if what != "late" else 3)
        card.disarm()
        host.promise(f"datagram-{what}", seen == ("abc", arrive), repr(seen))


state()
flapping()
speed()
packets()
datagrams()

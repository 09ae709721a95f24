"""Verbs: what several reports need of Debian's pyverbs."""

import ctypes
import errno
import mmap
import os
import random
import select
import struct

import pyverbs.enums as e
from pyverbs.addr import AHAttr
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

import card
import driver

ALL = (
    e.IBV_ACCESS_LOCAL_WRITE
    | e.IBV_ACCESS_REMOTE_READ
    | e.IBV_ACCESS_REMOTE_WRITE
    | e.IBV_ACCESS_REMOTE_ATOMIC
)


# Seconds in which all that comes has come, on a slow machine too.
LONG = 20


def name(number):
    """ENOMEM for 12."""
    return errno.errorcode.get(number, str(number)) if number else "success"


def refusal(action):
    """Does it; its errno, or 0."""
    try:
        action()
    except PyverbsRDMAError as error:
        return error.error_code
    except OSError as error:
        return error.errno
    return 0


def open_device():
    return Context(name=driver.device())


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.memmem.restype = ctypes.c_void_p
_libc.memmem.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]


def frame(address):
    """The page frame of an address of this process; None if nothing is there."""
    with open("/proc/self/pagemap", "rb", buffering=0) as file:
        entry = os.pread(file.fileno(), 8, address // 4096 * 8)
    (value,) = struct.unpack("<Q", entry)
    return value & ((1 << 55) - 1) if value >> 63 else None


def page(address):
    """The page of an address, as rules have it."""
    begin = frame(address) << 12
    return f"{begin:#x}..{begin + 4096:#x}"


class Mapping:
    """A mapping of this process."""

    def __init__(self, file, length, flags, protection):
        address = _libc.mmap(None, length, protection, flags, file, 0)
        if address == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "mmap")
        self.address, self.length = address, length

    def register(self, pd, length=None, access=ALL, offset=0):
        return MR(pd, self.length if length is None else length, access, address=self.address + offset)

    def read(self, offset, length):
        return ctypes.string_at(self.address + offset, length)

    def write(self, offset, data):
        ctypes.memmove(self.address + offset, data, len(data))

    def frame(self, offset):
        """The page frame of an address; None if nothing is there."""
        return frame(self.address + offset)

    def page(self, offset=0):
        """The page of an address, as rules have it."""
        return page(self.address + offset)


class Memory(Mapping):
    """Pages of this process."""

    def __init__(self, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
        super().__init__(-1, length, flags, mmap.PROT_READ | mmap.PROT_WRITE)


class Scattered(Memory):
    """Pages that are not next to each other, so that each needs a translation of its own."""

    def __init__(self, length):
        super().__init__(length)
        advise(self, mmap.MADV_NOHUGEPAGE)
        pages = list(range(0, length, 4096))
        random.Random(1).shuffle(pages)
        for page in pages:
            self.write(page, b"s")


def advise(memory, advice):
    """madvise() of all of it."""
    if _libc.madvise(ctypes.c_void_p(memory.address), ctypes.c_size_t(memory.length), advice):
        raise OSError(ctypes.get_errno(), "madvise")


def translated(key, address, length, access="remote_read"):
    """The DMA address that an access begins at; None if the card refuses it."""
    answer = card.ask(
        "translate", key=hex(key), address=hex(address), length=hex(length), access=access, limit=1
    )
    return int(answer["pieces"]["pieces"][0]["address"], 16) if "pieces" in answer else None


def reached(mr, memory):
    """Whether a key of all of a mapping reaches its pages."""
    for offset in range(0, memory.length, 4096):
        frame, address = memory.frame(offset), translated(mr.rkey, memory.address + offset, 8)
        if frame is None or address != frame << 12:
            return None
    return f"{memory.length // 4096} pages"


class Half:
    """A domain, memory with a key, a completion queue and an RC queue pair."""

    def __init__(
        self,
        context=None,
        length=65536,
        depth=64,
        srq=None,
        inline=0,
        sq_sig_all=0,
        recv_depth=64,
        notify=False,
    ):
        self.context = context or open_device()
        self.pd = PD(self.context)
        self.memory = Memory(length)
        self.mr = self.memory.register(self.pd)
        self.channel = Channel(self.context) if notify else None
        self.cq = CQ(self.context, 4 * depth, None, self.channel and self.channel.channel, 0)
        cap = QPCap(
            max_send_wr=depth, max_recv_wr=recv_depth, max_send_sge=4, max_recv_sge=4, max_inline_data=inline
        )
        start = QPInitAttr(
            qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap, srq=srq, sq_sig_all=sq_sig_all
        )
        self.qp = QP(self.pd, start)
        self.lid = self.context.query_port(1).lid

    def connect(self, peer, timeout=14, retry=7, rnr_retry=7, read_depth=8, access=ALL):
        path = AHAttr(port_num=1, is_global=0, dlid=peer.lid, sl=0)
        attributes = QPAttr(port_num=1)
        attributes.qp_access_flags = access
        self.qp.to_init(attributes)
        attributes.path_mtu = e.IBV_MTU_4096
        attributes.dest_qp_num = peer.qp.qp_num
        attributes.rq_psn = 0
        attributes.max_dest_rd_atomic = read_depth
        attributes.min_rnr_timer = 1
        attributes.ah_attr = path
        self.qp.to_rtr(attributes)
        attributes.timeout = timeout
        attributes.retry_cnt = retry
        attributes.rnr_retry = rnr_retry
        attributes.sq_psn = 0
        attributes.max_rd_atomic = read_depth
        self.qp.to_rts(attributes)

    def sge(self, offset=0, length=64, key=None):
        return SGE(self.memory.address + offset, length, self.mr.lkey if key is None else key)

    def post(self, opcode, number, sges, remote=None, signalled=True, flags=0):
        """Posts a send queue's work request."""
        flags |= e.IBV_SEND_SIGNALED if signalled else 0
        request = SendWR(number, opcode=opcode, num_sge=len(sges), sg=sges, send_flags=flags)
        if remote is not None:
            request.set_wr_rdma(*remote)
        self.qp.post_send(request)

    def rdma_write(self, peer, number, length=64, offset=0, at=0, **more):
        """Posts a write of what is at `offset` here to `at` there."""
        remote = (peer.mr.rkey, peer.memory.address + at)
        self.post(e.IBV_WR_RDMA_WRITE, number, [self.sge(offset, length)], remote, **more)

    def receive(self, number, sges):
        self.qp.post_recv(RecvWR(number, num_sge=len(sges), sg=sges))

    def send(self, number, length=64, offset=0, **more):
        self.post(e.IBV_WR_SEND, number, [self.sge(offset, length)], **more)

    def reset(self):
        self.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)

    def fail(self):
        """Its queue pair goes to the state error."""
        self.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR, cur_qp_state=e.IBV_QPS_RTS), e.IBV_QP_STATE)

    def state(self):
        return self.qp.query(e.IBV_QP_STATE)[0].qp_state

    def take(self, count=1, seconds=20):
        """So many completions, or those that come in time."""
        return taken(self.cq, count, seconds)


def taken(cq, count, seconds):
    """So many completions of a queue, or those that come in time."""
    found = []

    def enough():
        found.extend(cq.poll(count - len(found))[1])
        return len(found) >= count

    card.wait(enough, seconds)
    return found


def pair(**more):
    """Two halves that are connected with each other."""
    connect = {key: more.pop(key) for key in ("timeout", "retry", "rnr_retry") if key in more}
    one, other = Half(**more), Half(**more)
    one.connect(other, **connect)
    other.connect(one, **connect)
    return one, other


def moves():
    """Whether data moves between two new queue pairs."""
    # A new device is seen before it can be opened.
    card.wait(lambda: refusal(open_device) != errno.EAGAIN, 5)
    one, other = pair()
    one.memory.write(0, b"moves")
    one.rdma_write(other, 1, length=5)
    return outcomes(one.take(1)) == [(1, 0)] and other.memory.read(0, 5) == b"moves"


def told(completion):
    """Status and vendor byte."""
    return completion.status, completion.vendor_err


def outcomes(completions):
    """What is told of each: its number and its status."""
    return [(one.wr_id, int(one.status)) for one in completions]


def words(completions):
    """For people: what each came to."""

    def word(c):
        # libmlx5 leaves the vendor byte of what succeeded as it was.
        return f"{c.wr_id}: status {c.status}" + (f" vendor 0x{c.vendor_err:02x}" if c.status else "")

    return ", ".join(word(c) for c in completions)


def user(uid=65534):
    """This process is an ordinary user from now on."""
    os.setgid(uid)
    os.setuid(uid)


def _event_files():
    """Descriptors from which asynchronous events are read."""
    found = set()
    for file in os.listdir("/proc/self/fd"):
        try:
            if "infinibandevent" in os.readlink(f"/proc/self/fd/{file}"):
                found.add(int(file))
        except OSError:
            continue
    return found


class Channel:
    """A completion channel, without waiting for ever."""

    def __init__(self, context):
        before = _event_files()
        self.channel = CompChannel(context)
        (self.file,) = _event_files() - before
        self.ready = select.poll()
        self.ready.register(self.file, select.POLLIN)

    def take(self, cq, seconds=0.5, count=0):
        """How often it is woken for this completion queue until nothing has come for so long; waits longer for the
        first of them."""
        found = 0
        while self.ready.poll((seconds if found >= count else LONG) * 1000):
            self.channel.get_cq_event(cq)
            cq.ack_events(1)
            found += 1
        return found


class Events:
    """A context, and its asynchronous events without waiting for ever."""

    def __init__(self):
        before = _event_files()
        self.context = open_device()
        (self.file,) = _event_files() - before
        self.ready = select.poll()
        self.ready.register(self.file, select.POLLIN)

    def take(self, seconds=0.5, count=0):
        """The events that come until none has come for so long; waits longer for the first of them."""
        found = []
        while self.ready.poll((seconds if len(found) >= count else LONG) * 1000):
            event = self.context.get_async_event()
            found.append(event.event_type)
            event.ack()
        return found


def find(needle, right):
    """Where in this process's memory something stands that libmlx5 has written: 16 bytes, aligned so, if `right`
    agrees. Others may be copies of the needle. Memory is looked at where it is: what is read becomes a copy."""
    places = []
    with open("/proc/self/maps") as maps:
        lines = [line for line in maps if line.split()[1].startswith("rw") and "/" not in line]
    for line in lines:
        at, end = (int(bound, 16) for bound in line.split()[0].split("-"))
        while at := _libc.memmem(at, end - at, needle, len(needle)):
            places.append(at)
            at += 1
    return [place for place in places if place % 16 == 0 and right(place)]


def data_segment(sge_address, length, key):
    """As it stands in a work request."""
    return struct.pack(">IIQ", length, key, sge_address)

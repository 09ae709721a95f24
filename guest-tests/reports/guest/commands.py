"""Many commands at the same time."""

import os
import select
import time

import rdma

# Those that the driver may have in flight, without the one for pages.
SLOTS = 31
# With which a busy process ends when a command has failed.
FAILED = 7


class Caller:
    """A process that allocates a domain, which is one command."""

    def __init__(self, context):
        self.read, write = os.pipe()
        self.begin = time.monotonic()
        self.child = os.fork()
        if self.child == 0:
            try:
                os.write(write, bytes([rdma.refusal(lambda: rdma.PD(context)) or 0]))
            finally:
                # Nothing is destroyed by Python: the kernel does it.
                os._exit(0)
        os.close(write)

    def over(self):
        """Whether it has its answer."""
        return bool(select.select([self.read], [], [], 0)[0])

    def result(self):
        """Waits for its errno: that, and the seconds that it took."""
        number = os.read(self.read, 1)[0]
        seconds = time.monotonic() - self.begin
        os.waitpid(self.child, 0)
        os.close(self.read)
        return number, seconds


class Crowd:
    """So many processes, each of which creates a completion queue once it is told to."""

    def __init__(self, count):
        self.read, self.write = os.pipe()
        self.gate, self.open = os.pipe()
        self.count, self.children = count, []
        self.contexts = [rdma.open_device() for _ in range(count)]
        for context in self.contexts:
            child = os.fork()
            if child == 0:
                try:
                    self._create(context)
                finally:
                    # Nothing is destroyed by Python: the kernel does it.
                    os._exit(0)
            self.children.append(child)
        os.close(self.write)

    def _create(self, context):
        os.close(self.open)
        os.read(self.gate, 1)
        made = []
        number = rdma.refusal(lambda: made.append(rdma.CQ(context, 16)))
        os.write(self.write, bytes([number or 0]))

    def go(self):
        os.write(self.open, b"g" * self.count)

    def results(self):
        """Their errnos."""
        for child in self.children:
            os.waitpid(child, 0)
        found = b""
        while more := os.read(self.read, 4096):
            found += more
        return list(found)

    def close(self):
        for context in self.contexts:
            rdma.refusal(context.close)
        for file in (self.read, self.gate, self.open):
            os.close(file)


def at_once(count):
    """Whether so many processes succeed, and what was seen."""
    crowd = Crowd(count)
    crowd.go()
    results = crowd.results()
    crowd.close()
    bad = [rdma.name(number) for number in results if number]
    return len(results) == count and not bad, f"{len(results)} of {count} ended, {len(bad)} failed: {bad[:8]}"


def busy():
    """A process that creates and destroys completion queues until one fails."""
    child = os.fork()
    if child == 0:
        try:
            context = rdma.open_device()
            while not rdma.refusal(lambda: rdma.CQ(context, 16).close()):
                pass
        finally:
            os._exit(FAILED)
    return child

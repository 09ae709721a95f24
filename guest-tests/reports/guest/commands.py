"""Many commands at the same time."""

import os

import rdma

# Those that the driver may have in flight, without the one for pages.
SLOTS = 31
# With which a busy process ends when a command has failed.
FAILED = 7


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

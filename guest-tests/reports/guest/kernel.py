"""The kernel's log."""

import errno
import os
import re
import time

LEAST = 0.02


class Log:
    """What the kernel says from now on."""

    def __init__(self):
        self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.file, 0, os.SEEK_END)
        self.kept = []

    def lines(self):
        while True:
            try:
                record = os.read(self.file, 8192)
            except BlockingIOError:
                return self.kept
            except OSError as error:
                if error.errno == errno.EPIPE:  # some were overwritten before they were read
                    continue
                raise
            head, _, text = record.decode(errors="replace").partition(";")
            stamp = int(head.split(",")[2])
            text = text.split("\n")[0]
            self.kept.append(f"[{stamp // 1_000_000:5}.{stamp % 1_000_000:06}] {text}")

    def text(self):
        return "\n".join(self.lines())

    def find(self, pattern):
        """The lines that match."""
        return [line for line in self.lines() if re.search(pattern, line)]

    def wait(self, pattern, seconds=20):
        """The first line that matches; None when none comes."""
        end = time.monotonic() + seconds
        while not (found := self.find(pattern)):
            if time.monotonic() > end:
                return None
            time.sleep(LEAST)
        return found[0]


def stack(task):
    try:
        with open(f"/proc/{task}/stack") as file:
            return file.read()
    except OSError:
        return ""


def stuck():
    """Tasks that sleep without a way to wake them, with where they are."""
    found = []
    for task in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{task}/stat") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if rest.split()[0] == "D":
            found.append(f"{name} ({task}):\n{stack(task)}")
    return found

"""Runs command-line tools: one alone, or a server and a client on this one machine."""

import os
import shlex
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from say import say, tail

# Each pair gets a port of its own, so that no connection that is still closing is in the way.
FIRST_PORT = 18600
STEP = 0.02


class Program:
    """A running program whose output goes to a file."""

    def __init__(self, command):
        self.command = command
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            # Line by line: what it said before it hung counts.
            ["stdbuf", "-oL", *shlex.split(command)],
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.stopped = False

    def ended(self):
        return self.process.poll() is not None

    def text(self):
        # Not through seek: the program's own writes go on from the same place.
        size = os.fstat(self.output.fileno()).st_size
        return os.pread(self.output.fileno(), size, 0).decode(errors="replace")

    def stop(self):
        if not self.ended():
            self.stopped = True
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def result(self):
        status = None if self.stopped else self.process.returncode
        return {"command": self.command, "status": status, "output": tail(self.text())}


def listening(port):
    """Whether somebody listens on this TCP port."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            if local.endswith(wanted) and state == "0A":
                return True
    return False


def wait(deadline, done):
    """Waits until `done`; False when the time is over."""
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(STEP)
    return True


def pair(command, port, deadline):
    """Runs a server and, once it listens, a client; says what was waited for in vain."""
    server = Program(f"{command} -p {port}")
    programs, waiting = [server], None
    try:
        if not wait(deadline, lambda: listening(port) or server.ended()):
            waiting = "the server to listen"
        elif not server.ended():
            client = Program(f"{command} -p {port} localhost")
            programs.append(client)
            # When one of them fails the other may wait for it for ever.
            failed = lambda: any(one.ended() and one.process.returncode for one in programs)
            if not wait(deadline, lambda: failed() or (client.ended() and server.ended())):
                ends = [name for name, one in (("server", server), ("client", client)) if not one.ended()]
                waiting = f"the {' and the '.join(ends)} to end"
    finally:
        for one in programs:
            one.stop()
    return programs, waiting


def alone(command, deadline):
    one = Program(command)
    waiting = None if wait(deadline, one.ended) else "it to end"
    one.stop()
    return [one], waiting


def watch(tool, deadline):
    """A program that runs until it is stopped, and what happens meanwhile."""
    one = Program(tool["watch"])
    programs, waiting = [one], None
    says = lambda text: text in one.text() or one.ended()
    if not wait(deadline, lambda: says(tool["until"])):
        waiting = f"it to say {tool['until']!r}"
    else:
        meanwhile = Program(shlex.join(["sh", "-ec", tool["meanwhile"]]))
        programs.append(meanwhile)
        if not wait(deadline, meanwhile.ended):
            waiting = f"{tool['meanwhile']!r} to end"
        elif not wait(deadline, lambda: says(tool["then"])):
            waiting = f"it to say {tool['then']!r}"
    for program in programs:
        program.stop()
    return programs, waiting


def run(tools):
    for number, tool in enumerate(tools):
        begin = time.monotonic()
        deadline = begin + tool["limit"]
        if "watch" in tool:
            programs, waiting = watch(tool, deadline)
        elif "pair" in tool:
            programs, waiting = pair(tool["pair"], FIRST_PORT + number, deadline)
        else:
            programs, waiting = alone(tool["alone"], deadline)
        say(
            "tool",
            name=tool["name"],
            programs=[one.result() for one in programs],
            waiting=waiting,
            seconds=time.monotonic() - begin,
        )

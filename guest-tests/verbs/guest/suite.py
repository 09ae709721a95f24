"""Runs rdma-core's own tests (Debian's python3-pyverbs), each in a process of its own.

Importing them takes long, so it is done once and each test is a fork. What a test leaves open dies with
its process, also when Python would close it in an order that the library does not survive; and a test
that hangs or crashes is one result, not the end of the run.
"""

import contextlib
import gc
import json
import os
import random
import selectors
import signal
import sys
import time
import traceback
import unittest

from say import note, say, tail

TESTS = "/usr/share/doc/rdma-core/tests"


def load(arguments):
    """The tests by their names."""
    sys.path.insert(0, os.path.dirname(TESTS))
    sys.path.insert(0, TESTS)
    # The tests read their options from the command line when they are made.
    sys.argv = ["tests", *arguments]
    from args_parser import parser

    parser.parse_args()
    import tests

    found = {}
    pending = [unittest.defaultTestLoader.loadTestsFromModule(module) for module in tests.__test_modules__]
    while pending:
        one = pending.pop()
        if isinstance(one, unittest.TestSuite):
            pending.extend(one)
        else:
            found[one.id().removeprefix("tests.")] = one
    return dict(sorted(found.items()))


class Judge(unittest.TestResult):
    """The first bad thing about one test, or that it was skipped, or that it is fine."""

    def __init__(self):
        super().__init__()
        self.result, self.reason = "ok", ""

    def worse(self, result, reason):
        if self.result in ("ok", "skip"):
            self.result, self.reason = result, reason

    def text(self, error):
        return tail("".join(traceback.format_exception(*error)))

    def addSkip(self, test, reason):
        self.worse("skip", reason)

    def addFailure(self, test, error):
        self.worse("fail", self.text(error))

    def addError(self, test, error):
        self.worse("error", self.text(error))

    def addSubTest(self, test, subtest, error):
        if error:
            self.addError(subtest, error)

    def addExpectedFailure(self, test, error):
        pass

    def addUnexpectedSuccess(self, test):
        self.worse("fail", "it passed although it should fail")


def child(test, pipe):
    """In the new process: runs the test and never returns."""
    os.setsid()
    gc.disable()
    # Many tests choose something at random: always the same.
    random.seed(1)
    judge = Judge()
    test.run(judge)
    os.write(pipe, json.dumps({"result": judge.result, "reason": judge.reason}).encode())
    os._exit(0)


class Running:
    """A test that runs."""

    def __init__(self, name, test, limit):
        self.name, self.begin, self.limit = name, time.monotonic(), limit
        self.said = b""
        self.pipe, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                child(test, write)
            finally:
                os._exit(1)
        os.close(write)

    def late(self):
        return time.monotonic() - self.begin > self.limit

    def over(self):
        """Nothing more will come: what came of it, and no process is left."""
        late = self.late()
        if late and not self.said:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        # Processes that the test started may hang although it has ended.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.close(self.pipe)
        if self.said:
            result = json.loads(self.said)
        elif late:
            result = {"result": "hung", "reason": f"it had not ended after {self.limit} s"}
        else:
            code = os.waitstatus_to_exitcode(status)
            why = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
            result = {"result": "died", "reason": f"its process ended with {why}"}
        say("pyverbs", name=self.name, seconds=time.monotonic() - self.begin, **result)


def choose(waiting, running):
    """The first of a file of which none runs: tests of one file may want the same TCP port."""
    file = lambda name: name.split(".")[0]
    busy = {file(one.name) for one in running}
    return next((at for at, (name, _) in enumerate(waiting) if file(name) not in busy), None)


def run(plan):
    begin = time.monotonic()
    tests = load(plan["arguments"])
    note(f"{len(tests)} tests of rdma-core, imported in {time.monotonic() - begin:.0f} s")
    only = plan["only"]
    waiting = [(name, test) for name, test in tests.items() if not only or any(o in name for o in only)]
    gc.collect()
    gc.freeze()
    running, ready = set(), selectors.DefaultSelector()
    while waiting or running:
        while len(running) < plan["jobs"] and (following := choose(waiting, running)) is not None:
            one = Running(*waiting.pop(following), plan["limit"])
            running.add(one)
            ready.register(one.pipe, selectors.EVENT_READ, one)
        finished = []
        for key, _ in ready.select(timeout=1):
            text = os.read(key.fd, 65536)
            key.data.said += text
            # The end of the file may be far: the test's own children hold the pipe open too.
            if not text or key.data.said.endswith(b"}"):
                finished.append(key.data)
        for one in {*finished, *(one for one in running if one.late())}:
            ready.unregister(one.pipe)
            running.remove(one)
            one.over()

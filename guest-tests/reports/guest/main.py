"""The guest's part: runs each report's script in a process of its own and tells the host."""

import gc
import json
import os
import platform
import runpy
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import driver
import host
import kernel

HERE = Path(__file__).parent
# Seconds that a killed process may take to go, and that the driver may take to be usable again.
GONE = 10
RESTORE = 60
STEP = 0.02


def ended(pid, seconds):
    """Waits for a process; its exit code, or None."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(STEP)
    return None


def forked(action, output):
    """Does it in a new process, whose group it leads."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        code = 0 if action() in (None, True) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def limited(action, seconds):
    """Does it in a process of its own; what is wrong with that, if anything, and whether it is gone."""
    with tempfile.TemporaryFile() as output:
        pid = forked(action, output)
        code = ended(pid, seconds)
        trouble, gone = None, True
        if code is None:
            trouble = f"it had not ended after {seconds} s\n" + "".join(kernel.stuck())
            if not trouble.strip().count("\n"):
                trouble += kernel.stack(pid)
            kill(pid)
            gone = ended(pid, GONE) is not None
        elif code:
            size = os.fstat(output.fileno()).st_size
            said = os.pread(output.fileno(), size, 0).decode(errors="replace")
            trouble = f"exit code {code}\n{said[-host.KEPT:]}"
        # Processes that it began.
        kill(pid)
        return trouble, gone


def kill(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(report):
    # What warns once warns once in each report.
    Path("/sys/kernel/debug/clear_warn_once").write_text("1")
    log, begin = kernel.Log(), time.monotonic()
    host.tell("begin", report=report["name"])
    trouble, gone = limited(lambda: script(report["name"]), report["limit"])
    seconds = time.monotonic() - begin
    # What it armed must not be in the way of the next.
    host.tell("disarm")
    usable = gone and restored()
    return host.tell("done", trouble=trouble, log=log.text(), seconds=seconds, spoiled=not usable)["go_on"]


def restored():
    trouble, gone = limited(lambda: driver.restore(RESTORE / 2), RESTORE)
    if trouble:
        host.note(f"the driver could not be made usable again: {trouble}")
    return trouble is None and gone


def script(name):
    runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")


def main():
    # Importing it takes long: once for all.
    import rdma  # noqa: F401

    gc.freeze()
    host.tell("hello", kernel=platform.release())
    for report in json.loads((HERE / "reports.json").read_text()):
        if not run(report):
            break
    host.tell("end")


main()

"""Processes of a script's own."""

import os


def start(action):
    """Does it in a new process; that one's number."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
        finally:
            # Nothing is destroyed by Python: the kernel does it.
            os._exit(0)
    return pid


def run(action):
    """Does it in a new process, and waits for its end."""
    os.waitpid(start(action), 0)

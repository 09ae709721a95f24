"""The dialogue with the host: a line of JSON each way (src/talk.rs is the other end)."""

import json
import os
import sys
import threading

# Whatever else prints must not reach the host.
_out = os.fdopen(os.dup(1), "w")
_in = os.fdopen(os.dup(0), "r")
os.dup2(2, 1)
_lock = threading.Lock()

# The end of what was seen that is told.
KEPT = 4000


class Refused(Exception):
    """The host or the card says no."""


def tell(what, **more):
    """Tells the host something; returns its answer."""
    with _lock:
        print(json.dumps({"say": what, **more}), file=_out, flush=True)
        line = _in.readline()
    if not line:
        os._exit(1)
    answer = json.loads(line)
    if "error" in answer:
        raise Refused(answer["error"])
    return answer["ok"]


def promise(name, kept, seen=""):
    """Says whether a promise of about.toml is kept, and by what that was seen."""
    text = seen if isinstance(seen, str) else repr(seen)
    tell("row", promise=name, kept=bool(kept), seen=text[-KEPT:])
    return bool(kept)


def without(name, why):
    """Says why a promise can't be tried here."""
    tell("without", promise=name, why=why)


def note(text):
    """For whoever reads the script's output after a failure."""
    print(text, file=sys.stderr, flush=True)

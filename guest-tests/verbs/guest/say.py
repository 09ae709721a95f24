"""What the guest's scripts tell the host: a line of JSON each on standard output."""

import json
import os
import sys

# The end of what a program printed that is kept.
KEPT = 6000

# What is tested prints too: only what `say` writes may reach the host.
_out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def say(what, **more):
    print(json.dumps({"say": what, **more}), file=_out, flush=True)


def tail(text):
    """The end of a text, and a mark where something is left out."""
    return text if len(text) <= KEPT else "[…]" + text[-KEPT:]


def note(text):
    print(text, file=sys.stderr, flush=True)

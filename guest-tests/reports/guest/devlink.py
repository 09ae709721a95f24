"""devlink: the driver's reporters of the card's health."""

import json
import subprocess

import driver


def ask(*arguments):
    """Exit code and output."""
    done = subprocess.run(["devlink", *arguments], capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def _reporter(what, name, *more):
    return ask("health", what, f"pci/{driver.function()}", "reporter", name, *more)


def show(name):
    """What a reporter says of itself: state, number of errors and of recoveries."""
    _, output = ask("-j", "health", "show", f"pci/{driver.function()}", "reporter", name)
    (found,) = json.loads(output)["health"].values()
    return {key: found[0].get(key) for key in ("state", "error", "recover")}


def diagnose(name):
    return " ".join(_reporter("diagnose", name)[1].split())


def recover(name):
    """Exit code and output."""
    return _reporter("recover", name)


def without_grace():
    """Errors that follow each other quickly are recovered from as well."""
    return _reporter("set", "fw_fatal", "grace_period", "0")

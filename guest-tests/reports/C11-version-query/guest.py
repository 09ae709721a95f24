"""devlink with versions that can't be read."""

import subprocess

import card
import driver
import host


def info():
    command = ["devlink", "dev", "info", f"pci/{driver.function()}"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def rest(output):
    return [line.strip() for line in output.splitlines() if "driver" in line or "psid" in line]


code, output = info()
good = rest(output)
host.promise("good", code == 0 and len(good) == 2, output)
seen = []
for rule in ("bad parameter", "internal error"):
    card.arm(rule)
    seen.append((rule, *info()))
    card.clear(rule)
host.promise("rest", all(code == 0 and rest(output) == good for _, code, output in seen), repr(seen))

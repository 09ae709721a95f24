"""perftest with a capability and without it."""

import subprocess
import time

import card
import driver
import host


def write_bw():
    """Server and client in this guest; exit codes and output."""
    command = ["ib_write_bw", "-s", "4096", "-n", "200"]
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    server = subprocess.Popen(command, **more)
    time.sleep(1)
    client = None
    for _ in range(20):
        client = subprocess.run([*command, "localhost"], **more)
        if client.returncode == 0 or server.poll() is not None:
            break
        time.sleep(0.5)
    server.kill()
    server.wait()
    return client.returncode, client.stdout


code, output = write_bw()
host.promise("with", code == 0, output)
card.arm("no relaxed ordering")
driver.rebind()
told = card.fired("no relaxed ordering")
host.promise("hidden", told, f"{told} answers say so")
code, output = write_bw()
host.promise("without", code == 0, output)
card.disarm()
driver.rebind()

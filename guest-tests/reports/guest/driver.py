"""The card's driver: bound, unbound, loaded, unloaded."""

import os
import subprocess
import time
from pathlib import Path

PCI = Path("/sys/bus/pci")
DRIVER = PCI / "drivers/mlx5_core"
RDMA = Path("/sys/class/infiniband")


def function():
    """The card's PCI address."""
    for device in sorted((PCI / "devices").iterdir()):
        if (device / "vendor").read_text().strip() == "0x15b3":
            return device.name
    raise RuntimeError("there is no card on the bus")


def bound():
    return (DRIVER / function()).exists()


def _write(path, text):
    """Once: Python's files try a write that fails a second time when they are closed."""
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def unbind():
    _write(DRIVER / "unbind", function())


def bind():
    """Errors of the probe come as OSError."""
    _write(DRIVER / "bind", function())


def release():
    """Unbinds it if it is bound."""
    if bound():
        unbind()


def told(name):
    """A number that debugfs tells of the driver, such as `pages/fw_pages_total`."""
    (file,) = Path("/sys/kernel/debug/mlx5").glob(f"*/{name}")
    return int(file.read_text(), 0)


def device():
    """The RDMA device's name, or None."""
    names = [name for name in os.listdir(RDMA) if name.startswith("mlx5_")] if RDMA.exists() else []
    return names[0] if names else None


def active():
    name = device()
    try:
        return name is not None and "ACTIVE" in (RDMA / name / "ports/1/state").read_text()
    except OSError:
        return False


def wait_active(seconds=30):
    """Waits until the port of the RDMA device is active; whether it is."""
    end = time.monotonic() + seconds
    while not active():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def modprobe(*arguments):
    return subprocess.run(["modprobe", *arguments], capture_output=True, text=True)


def reset():
    """A reset of the function, as after a fatal error."""
    _write(PCI / "devices" / function() / "reset", "1")


def renew():
    """Unbinds, resets, binds: as a person would after a fatal error. Whether the device is usable."""
    release()
    reset()
    bind()
    return wait_active()


def restore(seconds=30):
    """Makes the device usable again; whether it is."""
    modprobe("-a", "mlx5_core", "mlx5_ib", "ib_uverbs")
    if bound() and wait_active(2):
        return True
    return renew() or wait_active(seconds)


def rebind():
    """As after power-on."""
    release()
    bind()
    return wait_active()

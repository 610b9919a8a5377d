"""Tell systemd how we are: sd_notify(3), which is one datagram to the socket it names."""

from __future__ import annotations

import contextlib
import os
import socket


def notify(state: str) -> bool:
    """Send `state`, as "READY=1", to the service manager; False where there is none.

    Never raises: a service manager that does not listen is no reason to stop ticking.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract socket
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect(address)
        sock.sendall(state.encode())
        return True
    return False


def watchdog_interval() -> float | None:
    """Return how often, in seconds, the service manager wants WATCHDOG=1; None if it does not.

    It is half of the time after which the manager gives us up.
    """
    usec = os.environ.get("WATCHDOG_USEC", "")
    meant_for = os.environ.get("WATCHDOG_PID", str(os.getpid()))
    if not usec.isdigit() or int(usec) == 0 or meant_for != str(os.getpid()):
        return None
    return int(usec) / 2_000_000

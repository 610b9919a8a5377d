"""Tell systemd how we are: sd_notify(3), which is one datagram to the socket it names."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING

from pgqpy.texts import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgqpy.ticker.health import Health


SEND_TIMEOUT = 1.0  # seconds; a service manager that does not read must not hold us up


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
        sock.settimeout(SEND_TIMEOUT)
        sock.connect(address)
        sock.sendall(state.encode())
        return True
    return False


class ManagerStatus:
    """What the service manager has heard of us: READY once, STATUS whenever it changes."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._ready = False
        self._status = ""

    def tell(self, healths: Sequence[Health]) -> None:
        """Say how each database is, and, as soon as one has answered, that we are ready."""
        status = "; ".join(
            f"{health.database}: {health.role}" + (f", {health.reason}" if health.reason else "")
            for health in healths
        )
        status = printable(status)  # a line more would be another message to the manager
        if not self._ready and any(health.role != "connecting" for health in healths):
            self._ready = notify(f"READY=1\nSTATUS={status}")
            self._status = status
        elif status != self._status:
            self._status = status
            notify(f"STATUS={status}")


def watchdog_interval() -> float | None:
    """Return how often, in seconds, the service manager wants WATCHDOG=1; None if it does not.

    It is half of the time after which the manager gives us up.
    """
    usec = os.environ.get("WATCHDOG_USEC", "")
    meant_for = os.environ.get("WATCHDOG_PID", str(os.getpid()))
    if not usec.isdigit() or int(usec) == 0 or meant_for != str(os.getpid()):
        return None
    return int(usec) / 2_000_000

"""Messages to systemd by sd_notify(3): one datagram to the socket in NOTIFY_SOCKET."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from pgqpy.texts import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgqpy.ticker.health import Health

SEND_TIMEOUT = 1.0  # seconds; a service manager that does not read must not block the daemon


def notify(state: str) -> bool:
    """Send a state such as "READY=1" to the service manager; return False if none listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract socket
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(SEND_TIMEOUT)
        sock.connect(address)
        sock.sendall(state.encode())
        return True
    return False


class ManagerStatus:
    """Sends READY=1 once, and STATUS whenever it changes."""

    def __init__(self) -> None:
        self._ready = False
        self._status = ""

    def tell(self, healths: Sequence[Health]) -> None:
        """Send the state of each database, and READY=1 as soon as one database has answered."""
        status = "; ".join(
            f"{health.database}: {health.role}" + (f", {health.reason}" if health.reason else "")
            for health in healths
        )
        status = printable(status)  # a line break would begin another message
        if not self._ready and any(health.role != "connecting" for health in healths):
            self._ready = notify(f"READY=1\nSTATUS={status}")
        elif status != self._status:
            notify(f"STATUS={status}")
        self._status = status


def watchdog_interval() -> float | None:
    """Return the seconds between two WATCHDOG=1 messages; None if no watchdog is set.

    It is half of the time after which the service manager restarts the daemon.
    """
    usec = os.environ.get("WATCHDOG_USEC", "")
    ours = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(usec) / 2_000_000 if ours and usec.isdigit() and int(usec) else None

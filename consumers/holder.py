"""The token of a run, which the position of its consumer names as its holder."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

from pgqpy.texts import printable

HOST_LENGTH = 100  # characters


def new_holder() -> str:
    """Return a token that no other run has: host:pid:random, printable and short.

    The random part tells runs apart; the host and the process id are for people. The random part
    begins with the place where the process id counts, for `is_gone`.
    """
    return f"{_host()}:{os.getpid()}:{_place()}.{secrets.token_hex(8)}"


def is_gone(holder: str) -> bool:
    """Say whether the process of a token is known to have ended: a process of this place."""
    process, _, random = holder.rpartition(":")
    host, _, pid = process.rpartition(":")
    if (host, random.rpartition(".")[0]) != (_host(), _place()) or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False  # of another user
    return False


def _place() -> str:
    """Return what this boot of the machine and this namespace of process ids are called.

    Containers may share a host's name, but not its process ids. Empty where nothing tells them.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return f"{boot[:8]}.{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _host() -> str:
    host = printable(socket.gethostname()).encode("ascii", "backslashreplace").decode()
    return host[:HOST_LENGTH]

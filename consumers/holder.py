"""The token of a run, which the position of its consumer names as its holder."""

from __future__ import annotations

import os
import secrets
import socket

from pgqpy.texts import printable

HOST_LENGTH = 100  # characters


def new_holder() -> str:
    """Return a token that no other run has: host:pid:random, printable and short.

    The random part tells runs apart; the host and the process id are for people, and for `is_gone`.
    """
    return f"{_host()}:{os.getpid()}:{secrets.token_hex(8)}"


def is_gone(holder: str) -> bool:
    """Say whether the process of a token is known to have ended: a process of this host."""
    host, _, rest = holder.rpartition(":")[0].rpartition(":")
    if host != _host() or not rest.isdigit():
        return False
    try:
        os.kill(int(rest), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False  # of another user
    return False


def _host() -> str:
    host = printable(socket.gethostname()).encode("ascii", "backslashreplace").decode()
    return host[:HOST_LENGTH]

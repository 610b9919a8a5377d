"""The token of a run, which the position of its consumer names as its holder."""

from __future__ import annotations

import os
import secrets
import socket

from pgqpy.texts import printable

HOST_LENGTH = 100  # characters


def new_holder() -> str:
    """Return a token that no other run has: host:pid:random, printable and short.

    The host and the process id are for people; the random part tells runs apart.
    """
    host = printable(socket.gethostname()).encode("ascii", "backslashreplace").decode()
    return f"{host[:HOST_LENGTH]}:{os.getpid()}:{secrets.token_hex(8)}"

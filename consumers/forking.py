"""Protection of a running consumer's connection from forked child processes.

A forked child shares the connection's socket. Whatever it sent (a ROLLBACK while its stack unwinds,
a Terminate message when it exits) would reach the parent's session. So the child's copy of the
socket is replaced by /dev/null before any other code runs there.
"""

from __future__ import annotations

import os
import weakref
from typing import Any, Protocol

_running: weakref.WeakSet[Any] = weakref.WeakSet()


class Forkable(Protocol):
    """Something that holds a connection's socket."""

    def after_fork(self) -> int | None:
        """Note that this is a forked child; return the socket that it must not use."""


def protect(owner: Forkable) -> None:
    """Close the connection of `owner` in forked children, until it is deleted or `unprotect`."""
    _running.add(owner)


def unprotect(owner: Forkable) -> None:
    """End the protection; doing it twice is safe."""
    _running.discard(owner)


def _close_in_child() -> None:
    for owner in list(_running):
        fd = owner.after_fork()
        if fd is not None:
            dead = os.open(os.devnull, os.O_RDWR)
            os.dup2(dead, fd)
            os.close(dead)
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)

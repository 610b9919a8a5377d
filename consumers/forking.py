"""Protection of a running consumer's connection from forked child processes.

A fork shares the connection's socket. Whatever the child sent on it (a ROLLBACK while its stack
unwinds, a goodbye when it exits) would reach the parent's session. So the child's copy of the
socket is replaced by a dead one before any other code runs there.
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


def watch(owner: Forkable) -> None:
    """Cut `owner` off its connection in forked children, as long as it lives or until `unwatch`."""
    _running.add(owner)


def unwatch(owner: Forkable) -> None:
    """Forget `owner`; doing it twice is safe."""
    _running.discard(owner)


def _cut_off() -> None:
    for owner in list(_running):
        fd = owner.after_fork()
        if fd is not None:
            dead = os.open(os.devnull, os.O_RDWR)
            os.dup2(dead, fd)
            os.close(dead)
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_cut_off)

"""Protection of a running consumer's connection from forked child processes.

A forked child shares the connection's socket. Whatever it sent (a ROLLBACK while its stack unwinds,
a Terminate message when it exits) would reach the parent's session. So the child's copy of the
socket is replaced by /dev/null before any other code runs there.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgqpy.consumers.settings import BaseConsumer

FORKED = (
    "this process was forked from a running consumer, whose connection it must not use: "
    "end the child in the handler, or make a consumer of its own in it"
)

_running: weakref.WeakSet[Any] = weakref.WeakSet()


def protect(consumer: BaseConsumer) -> None:
    """Close the connection of a consumer in forked children, until `unprotect`."""
    _running.add(consumer)


def unprotect(consumer: BaseConsumer) -> None:
    """End the protection; doing it twice is safe."""
    _running.discard(consumer)


def is_protected(consumer: BaseConsumer) -> bool:
    """Whether the consumer runs, in this process."""
    return consumer in _running


def _close_in_child() -> None:
    for consumer in list(_running):
        fd = consumer.after_fork()
        if fd is not None:
            dead = os.open(os.devnull, os.O_RDWR)
            os.dup2(dead, fd)
            os.close(dead)
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)

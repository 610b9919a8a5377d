"""Protection of a running consumer's connection and event loop from forked child processes.

A forked child shares the connection's socket. Whatever it sent (a ROLLBACK while its stack unwinds,
a Terminate message when it exits) would reach the parent's session. So the child's copy of the
socket is replaced by /dev/null before any other code runs there.

It shares the epoll instance of a running asyncio loop, too. A child that closes its loop removes
the parent's files from that instance, and the parent's loop hears of nothing any more. So the child
gets an instance of its own.
"""

from __future__ import annotations

import asyncio
import os
import select
import selectors
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgqpy.consumers.settings import BaseConsumer

FORKED = (
    "this process was forked from a running consumer, whose connection it must not use: "
    "end the child in the handler, or make a consumer of its own in it"
)

# By its id each running consumer, which may be equal to another one, and its loop's selector.
_running: dict[int, tuple[Any, Any]] = {}


def protect(consumer: BaseConsumer) -> None:
    """Keep forked children from the connection and the loop of a consumer, until `unprotect`."""
    selector = None
    with suppress(RuntimeError):  # no loop runs
        selector = getattr(asyncio.get_running_loop(), "_selector", None)  # it has no public name
    _running[id(consumer)] = consumer, selector


def unprotect(consumer: BaseConsumer) -> None:
    """End the protection; doing it twice is safe."""
    _running.pop(id(consumer), None)


def _close_in_child() -> None:
    for consumer, selector in list(_running.values()):
        fd = consumer.after_fork()
        if fd is not None:
            dead = os.open(os.devnull, os.O_RDWR)
            os.dup2(dead, fd)
            os.close(dead)
        if hasattr(selectors, "EpollSelector") and isinstance(selector, selectors.EpollSelector):
            with select.epoll() as own:
                os.dup2(own.fileno(), selector.fileno(), inheritable=False)
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)

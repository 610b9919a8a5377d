"""Early ends of a demo or simulation: signals, and the error that says why it failed.

Ctrl-C, SIGTERM and SIGHUP interrupt it once, and never while it starts a process.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pgqpy.errors import PgqError

if TYPE_CHECKING:
    from collections.abc import Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RunFailed(PgqError):
    """The demo or simulation could not be run to its end."""


class _State:
    """The signal handler's state; one for the process, as signal handlers are."""

    held = 0  # blocks that postpone an interruption, one inside the other
    waiting = False  # a signal has come during them


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn the first signal into KeyboardInterrupt, and ignore further ones."""
    before = {number: signal.signal(number, _interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def postponed() -> Iterator[None]:
    """Postpone an interruption to the end of the block, so that what it started can be stopped.

    The interruption replaces an error of the block: Ctrl-C reaches children too and may be its
    cause.
    """
    _State.held += 1
    try:
        yield
    finally:
        _State.held -= 1
        if _State.waiting and not _State.held:
            _State.waiting = False
            raise KeyboardInterrupt


def ignore_signals() -> None:
    """Ignore the signals from now on: stopping and removing everything takes seconds."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _interrupt(_number: int, _frame: Any) -> None:
    ignore_signals()
    if _State.held:
        _State.waiting = True
    else:
        raise KeyboardInterrupt

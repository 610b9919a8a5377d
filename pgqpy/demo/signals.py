"""Ctrl-C, SIGTERM and SIGHUP end the demo once, and never in the middle of starting something."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _State:
    """What the handler knows. One for the process, as signal handlers are."""

    held = 0
    waiting = False


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn the first signal into KeyboardInterrupt and be deaf to further ones."""
    before = {number: signal.signal(number, _interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def held() -> Iterator[None]:
    """Keep an interruption until the end of the block: it then has something to clean up.

    It wins over an error in the block, which it may have caused: Ctrl-C reaches children too.
    """
    _State.held += 1
    try:
        yield
    finally:
        _State.held -= 1
        if _State.waiting and not _State.held:
            _State.waiting = False
            raise KeyboardInterrupt


def be_deaf() -> None:
    """Ignore the signals from here on: what remains to be done takes seconds and must be done."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _interrupt(_number: int, _frame: Any) -> None:
    be_deaf()
    if _State.held:
        _State.waiting = True
    else:
        raise KeyboardInterrupt

"""Ctrl-C and SIGTERM end the demo once; what is cleaned up then is not interrupted again."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn the first signal into KeyboardInterrupt and be deaf to further ones."""
    before = {number: signal.signal(number, _interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def be_deaf() -> None:
    """Ignore the signals from here on: what remains to be done takes seconds and must be done."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _interrupt(_number: int, _frame: Any) -> None:
    be_deaf()
    raise KeyboardInterrupt

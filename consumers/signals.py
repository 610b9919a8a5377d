"""SIGTERM, SIGINT and SIGHUP ask a running consumer to stop; a second is not held up."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# SIGHUP reloads nothing, as settings do not change; not every system has it.
DRAIN_SIGNALS = [each for each in signal.Signals if each.name in {"SIGTERM", "SIGINT", "SIGHUP"}]


@contextmanager
def drain_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first of DRAIN_SIGNALS; put back what was there before at the end.

    Only the main thread can have signal handlers: elsewhere this does nothing. The second
    signal of a kind does what it would do without us, for somebody who won't wait.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in DRAIN_SIGNALS}
    before = {  # nohup: SIGHUP stays ignored
        number: handler
        for number, handler in handlers.items()
        if number.name != "SIGHUP" or handler is not signal.SIG_IGN
    }

    def drain(number: int, _frame: Any) -> None:
        _restore(number, before[signal.Signals(number)])
        stop()

    for number in before:
        signal.signal(number, drain)
    try:
        yield
    finally:
        for number, handler in before.items():
            _restore(number, handler)


def _restore(number: int, handler: Any) -> None:
    # None is a handler that was not installed from Python: it can't be put back from here.
    signal.signal(number, signal.SIG_DFL if handler is None else handler)

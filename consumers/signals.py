"""Handlers of SIGTERM, SIGINT and SIGHUP: the first signal stops, the second ends at once."""

from __future__ import annotations

import _thread
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Windows has no SIGHUP.
STOP_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
)
LOG_TIMEOUT = 1.0  # seconds


@contextmanager
def stop_on_signals(stop: Callable[[], Callable[[], None] | None]) -> Iterator[None]:
    """Call `stop` at the first of the signals; restore the handlers before it, and at the end.

    So a second signal does not wait. An ignored SIGHUP (nohup) stays ignored. `stop` may return a
    function that logs. Only the main thread can have signal handlers: elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    if before.get(getattr(signal, "SIGHUP", None)) is signal.SIG_IGN:
        del before[signal.SIGHUP]
    log_lock = _thread.allocate_lock()

    def handle(_number: int, _frame: Any) -> None:
        _restore(before)
        log = stop()
        # In a thread of its own: the code that the signal interrupts may be inside of a log
        # handler and hold its lock, or be in the middle of writing to the same stream.
        if log is not None and log_lock.acquire(blocking=False):
            _thread.start_new_thread(_log, (log, log_lock))

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        _restore(before)
        # A thread that is writing to stderr when the interpreter ends makes it abort.
        log_lock.acquire(timeout=LOG_TIMEOUT)


def _log(log: Callable[[], None], log_lock: _thread.LockType) -> None:
    try:
        log()
    finally:
        log_lock.release()


def _restore(before: dict[Any, Any]) -> None:
    for number, handler in before.items():
        # None is a handler that was not installed from Python: it cannot be restored from here.
        signal.signal(number, signal.SIG_DFL if handler is None else handler)

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
DRAIN_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
)
SAY_TIMEOUT = 1.0  # seconds


@contextmanager
def drain_on_signals(drain: Callable[[], Callable[[], None] | None]) -> Iterator[None]:
    """Call `drain` at the first of the signals; put back what was there before at the end.

    Only the main thread can have signal handlers: elsewhere this does nothing. The second signal
    does what it would do without us, so a user in a hurry does not wait. An ignored SIGHUP (nohup)
    stays ignored. `drain` may return what is to be logged.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in DRAIN_SIGNALS}
    if before.get(getattr(signal, "SIGHUP", None)) is signal.SIG_IGN:
        del before[signal.SIGHUP]
    said = _thread.allocate_lock()

    def handle(_number: int, _frame: Any) -> None:
        _restore(before)
        say = drain()
        # In a thread of its own: the code that the signal interrupts may be inside of a log
        # handler and hold its lock, or be in the middle of writing to the same stream.
        if say is not None and said.acquire(blocking=False):
            _thread.start_new_thread(_say, (say, said))

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        _restore(before)
        # A thread that is writing to stderr when the interpreter ends makes it abort.
        said.acquire(timeout=SAY_TIMEOUT)


def _say(say: Callable[[], None], said: _thread.LockType) -> None:
    try:
        say()
    finally:
        said.release()


def _restore(before: dict[Any, Any]) -> None:
    for number, handler in before.items():
        # None is a handler that was not installed from Python: it can't be put back from here.
        signal.signal(number, signal.SIG_DFL if handler is None else handler)

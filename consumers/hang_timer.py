"""The timer that ends a process without the interpreter's lock, and tracebacks of its threads."""

from __future__ import annotations

import faulthandler
import os
import threading
import time
from contextlib import suppress

STDERR = 2  # the file descriptor: sys.stderr may be anything


class HangTimer:
    """The one timer of `faulthandler`, which all watches of the process share.

    It ends the process at the earliest time that a watch has set.
    """

    def __init__(self) -> None:
        """Set no time yet."""
        self._ends: dict[object, float] = {}  # monotonic seconds, by watch
        self._lock = threading.Lock()

    def set(self, watch: object, seconds: float) -> None:
        """End the process in `seconds`, unless the watch calls `set` or `clear` before."""
        with self._lock:
            self._ends[watch] = time.monotonic() + seconds
            self._apply()

    def clear(self, watch: object) -> None:
        """Forget what a watch has set."""
        with self._lock:
            if self._ends.pop(watch, None) is not None:
                self._apply()

    def before_fork(self) -> None:
        """Stop the timer: the child has no such thread, and would wait for its end for ever."""
        self._lock.acquire()
        if self._ends:
            faulthandler.cancel_dump_traceback_later()

    def after_fork(self) -> None:
        """Start the timer again."""
        if self._ends:
            self._apply()
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Forget the watches of the parent."""
        self._ends.clear()
        self._lock.release()

    def _apply(self) -> None:
        if self._ends:
            left = max(min(self._ends.values()) - time.monotonic(), 0.001)
            with suppress(RuntimeError):  # no thread can be started
                faulthandler.dump_traceback_later(left, exit=True, file=STDERR)
        else:
            faulthandler.cancel_dump_traceback_later()


def write_tracebacks() -> None:
    """Write the tracebacks of all threads to standard error, the first 64 kB of them.

    faulthandler writes to descriptors only, and with the interpreter's lock held: a pipe that
    nobody reads would stop the whole process.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    faulthandler.dump_traceback(writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        os.write(STDERR, pipe.read())


timer = HangTimer()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=timer.before_fork,
        after_in_parent=timer.after_fork,
        after_in_child=timer.after_fork_in_child,
    )

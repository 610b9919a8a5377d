"""The timer that ends a process without the interpreter's lock, and tracebacks of its threads."""

from __future__ import annotations

import faulthandler
import os
import threading
import time
from contextlib import suppress

from pgqpy.log_stream import open_anew

STDERR = 2  # the file descriptor: sys.stderr may be anything


class HangTimer:
    """Python's `faulthandler` has one timer, which all watches of the process share.

    It ends the process at the first of the times that they set. It prints the tracebacks to a
    descriptor of its own, which is non-blocking where that can be had: nobody may read standard
    error.
    """

    def __init__(self) -> None:
        """Set no time yet."""
        self._ends: dict[object, float] = {}  # monotonic seconds, by watch
        self._lock = threading.Lock()
        self._descriptor: int | None = None

    def set(self, watch: object, seconds: float) -> None:
        """End the process so many seconds from now, unless this is called again before."""
        with self._lock:
            self._ends[watch] = time.monotonic() + seconds
            self._start()

    def clear(self, watch: object) -> None:
        """Forget what a watch has set."""
        with self._lock:
            if self._ends.pop(watch, None) is not None:
                self._start()

    def before_fork(self) -> None:
        """Stop the timer: a child would wait for ever for the end of its thread."""
        self._lock.acquire()
        if self._ends:
            faulthandler.cancel_dump_traceback_later()

    def after_fork(self) -> None:
        """Start the timer again."""
        if self._ends:
            self._start()
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Forget the watches of the parent."""
        self._ends.clear()
        self._lock.release()

    def _start(self) -> None:
        before, self._descriptor = self._descriptor, open_anew(STDERR) if self._ends else None
        if self._ends:
            left = max(min(self._ends.values()) - time.monotonic(), 0.001)
            file = STDERR if self._descriptor is None else self._descriptor
            with suppress(RuntimeError):  # no thread can be started
                faulthandler.dump_traceback_later(left, exit=True, file=file)
        else:
            faulthandler.cancel_dump_traceback_later()
        if before is not None:
            os.close(before)


def tracebacks() -> str:
    """Return the tracebacks of all threads, or 64 kB of them.

    faulthandler writes to descriptors only, and with the interpreter's lock held: a pipe that
    nobody reads would stop the whole process.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    faulthandler.dump_traceback(writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read().decode(errors="backslashreplace")


timer = HangTimer()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=timer.before_fork,
        after_in_parent=timer.after_fork,
        after_in_child=timer.after_fork_in_child,
    )

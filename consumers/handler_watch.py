"""The watch on handlers that hang: past handler_timeout it ends the process."""

from __future__ import annotations

import faulthandler
import logging
import os
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pgqpy.consumers.retry import CRASHES, CRASHES_ALONE, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.consumers.settings import BaseConsumer


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


logger = logging.getLogger("pgqpy.consumers")

EXIT_CODE = 1  # as of faulthandler's timer
LOG_TIME = 5.0  # seconds; for the log, and for a thread that holds the interpreter's lock
WATCH_INTERVAL = 1.0  # seconds, at most; less than LOG_TIME


class HandlerWatch:
    """A thread that knows which handlers run, and since when.

    A thread cannot be ended from outside, so the process is. Code that holds the interpreter's lock
    (a regular expression, say) stops this thread too. For that there is `timer`, which needs no
    lock. A handler that begins sets it, unless it is set: this thread may get no chance to. This
    thread sets it anew at each poll, and clears it when no handler runs. The timer's clock goes on
    while the process is stopped (SIGSTOP, a container that is paused): it would end an idle
    consumer that goes on afterwards.
    """

    def __init__(self, consumer: BaseConsumer, timeout: float) -> None:
        """Watch nothing yet; `timeout` is in seconds."""
        self._consumer = consumer
        self._timeout = timeout
        self._running: dict[object, tuple[float, str]] = {}  # in the order of their begin
        self._timed = False  # the timer is set
        self._lock = threading.Lock()
        self._closed = threading.Event()

    @contextmanager
    def handling(self, what: str) -> Iterator[None]:
        """Watch the application's code that runs in the block; `what` it is is for the log."""
        key = object()
        try:
            with self._lock:
                self._running[key] = time.monotonic(), what
                if not self._timed and not self._closed.is_set():
                    self._set_timer(self._timeout)
            yield
        finally:
            with self._lock:
                self._running.pop(key, None)

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._watch, name="pgqpy-handler-watch", daemon=True).start()

    def close(self) -> None:
        """End the thread and the timer."""
        with self._lock:
            self._closed.set()
            timer.clear(self)

    def _watch(self) -> None:
        while True:
            with self._lock:
                if self._closed.is_set():
                    return
                began, what = next(iter(self._running.values()), (time.monotonic(), ""))
                left = began + self._timeout - time.monotonic()
                if left <= 0:
                    timer.set(self, 3 * LOG_TIME)  # for the log and the tracebacks
                elif self._running:
                    self._set_timer(left)
                elif self._timed:
                    timer.clear(self)
                    self._timed = False
            if left <= 0:
                self._end(what, self._timeout - left)
            self._closed.wait(min(left, WATCH_INTERVAL))

    def _set_timer(self, left: float) -> None:
        timer.set(self, max(left, 0) + self._timeout + LOG_TIME)
        self._timed = True

    def _end(self, what: str, ran: float) -> None:
        """End the process, whatever becomes of the log: a handler may hold a lock of it."""
        try:
            for write in (lambda: self._log(what, ran), write_tracebacks):
                thread = threading.Thread(target=write, daemon=True)
                with suppress(RuntimeError):  # no thread can be started
                    thread.start()
                    thread.join(LOG_TIME)
        finally:
            os._exit(EXIT_CODE)

    def _log(self, what: str, ran: float) -> None:
        consumer = self._consumer
        text = (
            "consumer %s of queue %s: %s has run for %.1f s, and handler_timeout is "
            "%g s: this process ends. Start it again: the event is delivered again, and is dead "
            "after %s. If it only needs longer, raise handler_timeout"
        )
        names = (consumer.name, consumer.queue, what)
        crashes = f"{CRASHES} crashes"
        if consumer.is_shared:
            crashes = f"{CRASHES_ALONE} crashes with nothing else in hand"
        logger.critical(text, *names, ran, self._timeout, crashes)


@contextmanager
def watch_handlers(consumer: BaseConsumer) -> Iterator[HandlerWatch | None]:
    """Watch the handlers of a consumer in the block, if it has a handler_timeout."""
    if consumer.handler_timeout is None:
        yield None
        return
    watch = HandlerWatch(consumer, seconds(consumer.handler_timeout))
    watch.start()
    try:
        yield watch
    finally:
        watch.close()

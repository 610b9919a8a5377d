"""The watch on handlers that hang: past handler_timeout it ends the process."""

from __future__ import annotations

import faulthandler
import logging
import os
import threading
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from pgqpy.consumers.retry import seconds
from pgqpy.consumers.settings import key_function

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from contextlib import AbstractContextManager

    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.records import Event

logger = logging.getLogger("pgqpy.consumers")

EXIT_CODE = 1  # as of faulthandler's timer
GRACE = 5.0  # seconds; for the log, and for a thread that holds the interpreter's lock
STDERR = 2  # the file descriptor: sys.stderr may be anything


class HandlerWatch:
    """A thread that knows which handlers run, and since when.

    A thread cannot be ended from outside, so the process is. Code that holds the interpreter's lock
    (a regular expression, say) stops this thread too. For that there is faulthandler's timer, which
    needs no lock: whenever this thread wakes up, it sets the timer anew. The process has one such
    timer, so the last consumer that set it decides.
    """

    def __init__(self, consumer: BaseConsumer, timeout: float) -> None:
        """Watch nothing yet; `timeout` is in seconds."""
        self._consumer = consumer
        self._timeout = timeout
        self._running: dict[object, tuple[float, str]] = {}  # in the order of their begin
        self._lock = threading.Lock()
        self._closed = threading.Event()

    @contextmanager
    def handling(self, what: str) -> Iterator[None]:
        """Watch the application's code that runs in the block; `what` it is is for the log."""
        key = object()
        with self._lock:
            self._running[key] = time.monotonic(), what
        try:
            yield
        finally:
            with self._lock:
                del self._running[key]

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._watch, name="pgqpy-handler-watch", daemon=True).start()

    def close(self) -> None:
        """End the thread and the timer."""
        with self._lock:
            self._closed.set()
            faulthandler.cancel_dump_traceback_later()

    def _watch(self) -> None:
        while True:
            with self._lock:
                if self._closed.is_set():
                    return
                began, what = next(iter(self._running.values()), (time.monotonic(), ""))
                left = began + self._timeout - time.monotonic()
                latest = max(left, 0) + self._timeout + GRACE
                faulthandler.dump_traceback_later(latest, exit=True, file=STDERR)
            if left <= 0:
                self._end(what, self._timeout - left)
            self._closed.wait(left)

    def _end(self, what: str, ran: float) -> None:
        # The handler may hold a lock of the log: then the timer ends the process.
        faulthandler.dump_traceback_later(GRACE, exit=True, file=STDERR)
        consumer = self._consumer
        text = (
            "consumer %s of queue %s: %s has run for %.1f s, and handler_timeout is "
            "%g s: this process ends. Start it again: the event is delivered again, and is dead "
            "after max_attempts = %d such ends. If it only needs longer, raise handler_timeout"
        )
        names = (consumer.name, consumer.queue, what)
        logger.critical(text, *names, ran, self._timeout, consumer.max_attempts)
        faulthandler.dump_traceback(STDERR)
        os._exit(EXIT_CODE)


def watching(watch: HandlerWatch | None, what: str) -> AbstractContextManager[None]:
    """Return a block that is watched, if there is a watch."""
    return nullcontext() if watch is None else watch.handling(what)


def watched_key(
    consumer: BaseConsumer, watch: HandlerWatch | None
) -> Callable[[Event], Hashable] | None:
    """Return the consumer's function from an event to its key, watched if it is its own."""
    key = key_function(consumer)
    if key is None or watch is None or not callable(consumer.key):
        return key

    def watched(event: Event) -> Hashable:
        with watch.handling(f"the key of event {event.id}"):
            return key(event)

    return watched


@contextmanager
def watch_handlers(consumer: BaseConsumer) -> Iterator[HandlerWatch | None]:
    """Watch the handlers of a consumer in the block, if it has a handler_timeout."""
    if consumer.handler_timeout is None or consumer.queues:  # each queue has a watch of its own
        yield None
        return
    watch = HandlerWatch(consumer, seconds(consumer.handler_timeout))
    watch.start()
    try:
        yield watch
    finally:
        watch.close()

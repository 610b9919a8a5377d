"""The watch on handlers that hang: past handler_timeout it ends the process."""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from pgqpy.consumers import unclean_ends
from pgqpy.consumers.hang_timer import timer, write_tracebacks
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
LOOK = 1.0  # seconds between two looks at the handlers, at most; less than GRACE


class HandlerWatch:
    """A thread that knows which handlers run, and since when.

    A thread cannot be ended from outside, so the process is. Code that holds the interpreter's lock
    (a regular expression, say) stops this thread too. For that there is `timer`, which needs no
    lock. A handler that begins sets it, unless it is set: this thread may get no chance to. This
    thread sets it anew at each look, and clears it when no handler runs. The timer's clock goes on
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
                    timer.set(self, 3 * GRACE)  # for the log and the tracebacks
                elif self._running:
                    self._set_timer(left)
                elif self._timed:
                    timer.clear(self)
                    self._timed = False
            if left <= 0:
                self._end(what, self._timeout - left)
            self._closed.wait(min(left, LOOK))

    def _set_timer(self, left: float) -> None:
        timer.set(self, max(left, 0) + self._timeout + GRACE)
        self._timed = True

    def _end(self, what: str, ran: float) -> None:
        """End the process, whatever becomes of the log: a handler may hold a lock of it."""
        try:
            for write in (lambda: self._log(what, ran), write_tracebacks):
                thread = threading.Thread(target=write, daemon=True)
                with suppress(RuntimeError):  # no thread can be started
                    thread.start()
                    thread.join(GRACE)
        finally:
            os._exit(EXIT_CODE)

    def _log(self, what: str, ran: float) -> None:
        consumer = self._consumer
        text = (
            "consumer %s of queue %s: %s has run for %.1f s, and handler_timeout is "
            "%g s: this process ends. Start it again: the event is delivered again, and is dead "
            "after %d such ends. If it only needs longer, raise handler_timeout"
        )
        names = (consumer.name, consumer.queue, what)
        logger.critical(text, *names, ran, self._timeout, unclean_ends.MAX_ATTEMPTS)


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
    if consumer.handler_timeout is None:
        yield None
        return
    watch = HandlerWatch(consumer, seconds(consumer.handler_timeout))
    watch.start()
    try:
        yield watch
    finally:
        watch.close()

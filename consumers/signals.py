"""Signals and forks of the process of a running consumer.

The first of SIGTERM, SIGINT and SIGHUP stops, the second ends at once.

A forked child shares the connection's socket. Whatever it sent (a ROLLBACK while its stack unwinds,
a Terminate message when it exits) would reach the parent's session. So the child's copy of the
socket is replaced by /dev/null before any other code runs there.

It shares the epoll instance of a running asyncio loop, too. A child that closes its loop removes
the parent's files from that instance, and the parent's loop hears of nothing any more. So the child
gets an instance of its own.
"""

from __future__ import annotations

import _thread
import asyncio
import os
import select
import selectors
import signal
import threading
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pgqpy.consumers.settings import BaseConsumer

    Stop = Callable[[], Callable[[], None] | None]


FORKED = (
    "this process was forked from a running consumer, whose connection it must not use: "
    "end the child in the handler, or make a consumer of its own in it"
)

# By its id each running consumer, which may be equal to another one, and its loop's selector.
_running: dict[int, tuple[Any, Any]] = {}


def protect(consumer: BaseConsumer) -> None:
    """Keep forked children from the connection and the loop of a consumer, until `unprotect`."""
    selector = None
    with suppress(RuntimeError):  # no loop runs
        selector = getattr(asyncio.get_running_loop(), "_selector", None)  # it has no public name
    _running[id(consumer)] = consumer, selector


def unprotect(consumer: BaseConsumer) -> None:
    """End the protection; doing it twice is safe."""
    _running.pop(id(consumer), None)


def _close_in_child() -> None:
    for consumer, selector in list(_running.values()):
        for fd in consumer.after_fork():
            dead = os.open(os.devnull, os.O_RDWR)
            os.dup2(dead, fd)
            os.close(dead)
        if hasattr(selectors, "EpollSelector") and isinstance(selector, selectors.EpollSelector):
            with select.epoll() as own:
                os.dup2(own.fileno(), selector.fileno(), inheritable=False)
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


# Windows has no SIGHUP.
STOP_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
)
LOG_TIMEOUT = 1.0  # seconds


class _SignalHandlers:
    """The signal handlers that all running consumers of this process share."""

    def __init__(self) -> None:
        self._stops: list[Stop] = []
        self._in_main_thread = 0  # of them; other threads can install no handlers
        self._before: dict[Any, Any] = {}  # the application's handlers, while ours are installed
        self._owed: Callable[[], object] | None = None  # the application's, when all have ended
        self._logging = _thread.allocate_lock()
        self._forking = threading.local()

    def add(self, stop: Stop) -> None:
        """Let the first signal call `stop`."""
        self._stops.append(stop)
        if not _is_main_thread():
            return
        self._in_main_thread += 1
        if not self._before:
            self._before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
            if self._before.get(getattr(signal, "SIGHUP", None)) is signal.SIG_IGN:
                del self._before[signal.SIGHUP]
            for number in self._before:
                signal.signal(number, self._handle)

    def remove(self, stop: Stop) -> None:
        """Forget `stop`; restore the handlers after the last consumer of the main thread."""
        if stop not in self._stops:
            return  # a forked child that returns from the parent's run()
        self._stops.remove(stop)
        if not _is_main_thread():
            return
        self._in_main_thread -= 1
        if not self._in_main_thread:
            self._restore()
            # A thread that is writing to stderr when the interpreter ends makes it abort.
            if self._logging.acquire(timeout=LOG_TIMEOUT):
                self._logging.release()
            owed, self._owed = self._owed, None
            if owed is not None:
                owed()

    def before_fork(self) -> None:
        """Hold signals back: Python forgets those that reach a child before it is set up."""
        if self._before:
            self._forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)

    def after_fork(self) -> None:
        """Let the signals through that `before_fork` held back."""
        mask = self._forking.__dict__.pop("mask", None)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def after_fork_in_child(self) -> None:
        """Restore the handlers before: no consumer runs in the child, and signals must end it.

        A pool of processes ends its children by SIGTERM, and waits for them.
        """
        self._restore()
        self._stops = []
        self._in_main_thread = 0
        self._owed = None
        self._logging = _thread.allocate_lock()
        self.after_fork()

    def _handle(self, number: int, frame: Any) -> None:
        handler = self._before.get(number)
        if callable(handler) and not _raises(handler):
            self._owed = partial(handler, number, frame)
        self._restore()
        texts = [text for stop in self._stops if (text := stop()) is not None]
        # In a thread of its own: the code that the signal interrupts may be inside of a log
        # handler and hold its lock, or be in the middle of writing to the same stream.
        if texts and self._logging.acquire(blocking=False):
            _thread.start_new_thread(self._log, (texts,))

    def _log(self, texts: list[Callable[[], None]]) -> None:
        try:
            for text in texts:
                text()
        finally:
            self._logging.release()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            # None is a handler that was not installed from Python: it can't be put back from here.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}


def _raises(handler: Any) -> bool:
    """Say whether it raises KeyboardInterrupt, in place of a clean end, as Ctrl-C does by default.

    Such are those of Python, of asyncio (a partial) and of Spark.
    """
    module = getattr(getattr(handler, "func", handler), "__module__", None) or ""
    return module.partition(".")[0] in ("_signal", "signal", "asyncio", "pyspark")


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


_handlers = _SignalHandlers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_handlers.before_fork,
        after_in_parent=_handlers.after_fork,
        after_in_child=_handlers.after_fork_in_child,
    )


@contextmanager
def stop_on_signals(stop: Stop) -> Iterator[None]:
    """Call `stop` at the first of the signals, as every running consumer of the process does.

    The handlers before it are restored first, so a second signal does not wait. One of the program
    is called when the last consumer of the main thread has ended, so that a web server around it
    ends too. An ignored SIGHUP (nohup) stays ignored. `stop` may return a function that
    logs. Only the main thread can install handlers: a consumer in another thread is stopped by a
    signal while one runs in the main thread.
    """
    _handlers.add(stop)
    try:
        yield
    finally:
        _handlers.remove(stop)

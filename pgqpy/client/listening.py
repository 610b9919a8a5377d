"""Notifications of ticks, for every receiver that waits in this process.

All that wait in one database share a connection, whichever client they use. A thread holds it: it
connects with the first one that waits, listens to their queues, and disconnects some seconds after
the last one has gone. While it cannot listen (a pooler shares sessions, the server has no room, the
connection is lost) nobody is woken: receivers also poll by themselves, once a second.
"""

from __future__ import annotations

import atexit
import logging
import os
import selectors
import socket
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo

from pgqpy.client.opening import PINNED
from pgqpy.client.waiting import Selector
from pgqpy.texts import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg import Notify

logger = logging.getLogger("pgqpy.client")

LINGER = 5.0  # seconds that the connection outlives the last wait: the next one often follows soon
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds between two attempts to connect
EXIT_WAIT = 1.0  # seconds that the end of the process waits for the connections to be closed

# A session whose client is dead must end: the server keeps notifications until all have read them.
SETTINGS = {
    "idle_session_timeout": "0",
    "tcp_keepalives_idle": "30",  # seconds
    "tcp_keepalives_interval": "10",  # seconds
    "tcp_keepalives_count": "3",
    **PINNED,
}

_lock = threading.Lock()  # for _listeners, and for what they hold of waits
_listeners: dict[str, _Listener] = {}


class _Listener:
    """A thread with a connection, and those that wait for its notifications."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._waits: dict[Callable[[], None], str] = {}  # what ends each, and its channel
        self._idle_since = 0.0
        self._channels: set[str] = set()  # that the connection listens to
        self._connection: Connection[Any] | None = None
        self._over = False
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)  # noqa: FBT003  # the standard library's signature
        self._thread = threading.Thread(target=self._run, name="pgqpy-listen", daemon=True)

    def start(self) -> None:
        """Start the thread; RuntimeError if there is no room for one, or the interpreter ends."""
        try:
            self._thread.start()
        except RuntimeError:
            self._close()
            raise

    def add(self, wake: Callable[[], None], channel: str) -> None:
        """Begin a wait, under the lock: it is woken when the connection listens, and by ticks."""
        self._waits[wake] = channel
        if channel in self._channels:
            wake()
        else:
            self._poke()

    def remove(self, wake: Callable[[], None]) -> None:
        """End a wait, under the lock."""
        del self._waits[wake]
        self._idle_since = time.monotonic()

    def stop(self) -> None:
        """Disconnect soon."""
        self._over = True
        self._poke()

    def join(self, seconds: float) -> None:
        """Wait until it has disconnected."""
        self._thread.join(seconds)

    def abandon(self) -> None:
        """Let go of the connection in a forked child, without a word to the server.

        The child's copy of the socket would keep the session open when the parent is dead.
        """
        if self._connection is not None and not self._connection.closed:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, self._connection.fileno())
            os.close(nowhere)
        self._close()

    def _close(self) -> None:
        self._receiver.close()
        self._sender.close()

    def _poke(self) -> None:
        with suppress(OSError):  # full: the thread is awake anyway; or closed
            self._sender.send(b"x")

    def _run(self) -> None:
        pause = 0.0
        while self._is_needed():
            try:
                self._connection = self._connect()
                with closing(self._connection):
                    self._listen(self._connection)
            except Exception as error:  # noqa: BLE001  # whatever it is, receivers do without
                text = "receive polls for messages once a second, because it cannot listen: %s"
                logger.info(text, describe(error))
                worked = self._forget_channels()
                pause = FIRST_PAUSE if worked else min(2 * pause + FIRST_PAUSE, LONGEST_PAUSE)
                self._pause(pause)
        self._close()

    def _forget_channels(self) -> bool:
        with _lock:
            known, self._channels = self._channels, set()
        return bool(known)

    def _is_needed(self) -> bool:
        """Return whether anybody waits, or did a moment ago; if not, the next wait starts anew."""
        with _lock:
            lingers = time.monotonic() < self._idle_since + LINGER
            if (self._waits or lingers) and not self._over:
                return True
            if _listeners.get(self._dsn) is self:
                del _listeners[self._dsn]
            return False

    def _connect(self) -> Connection[Any]:
        from pgqpy.client import open_session  # noqa: PLC0415  # the client imports this module

        connection = open_session(self._dsn, SETTINGS, kind=Connection, any_owner=True)
        connection.add_notify_handler(self._notice)
        return connection

    def _notice(self, notification: Notify) -> None:
        """Take what comes while a statement runs."""
        with _lock:
            self._wake(notification.channel.encode())

    def _listen(self, connection: Connection[Any]) -> None:
        while self._is_needed():
            with _lock:
                new = set(self._waits.values()) - self._channels
            for channel in new:
                connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
                with _lock:
                    self._channels.add(channel)
                    self._wake(channel.encode())
            connection.pgconn.consume_input()
            while notification := connection.pgconn.notifies():
                with _lock:
                    self._wake(notification.relname)
            self._sleep(LINGER, connection.fileno())

    def _wake(self, channel: bytes) -> None:
        for wake, wanted in self._waits.items():
            if wanted.encode() == channel:
                wake()

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self._is_needed():
            self._sleep(min(left, LINGER))

    def _sleep(self, seconds: float, *files: int) -> None:
        """Wait for the connection, for a poke, or at most some seconds."""
        with Selector() as selector:
            for file in (self._receiver.fileno(), *files):
                selector.register(file, selectors.EVENT_READ)
            ready = [key.fd for key, _ in selector.select(seconds)]
        if self._receiver.fileno() in ready:
            self._receiver.recv(4096)


def channel(queue: str) -> str:
    """Return the channel of a queue's notifications. The name may be a member of a (str, Enum)."""
    return "pgq_" + queue  # not an f-string: format() of such a member is its name


@contextmanager
def woken_by_ticks(
    connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any],
    queue: str,
    wake: Callable[[], None],
) -> Iterator[None]:
    """Call `wake` at every tick of the queue, in the database of this connection, in the block.

    It is also called once when ticks begin to be noticed: poll again then.
    """
    dsn = _dsn_of(connection)
    with _lock:
        listener = _listeners.get(dsn)
        if listener is None:
            listener = _started(dsn)
        if listener is not None:
            listener.add(wake, channel(queue))
    try:
        yield
    finally:
        if listener is not None:
            with _lock:
                listener.remove(wake)


def _started(dsn: str) -> _Listener | None:
    listener = _Listener(dsn)
    with suppress(RuntimeError):
        listener.start()
        _listeners[dsn] = listener
        return listener
    return None


def _dsn_of(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> str:
    """Return how this connection was made: also that of an application, which gave us no DSN."""
    known = connection.info.get_parameters()
    known.pop("fallback_application_name", None)
    return make_conninfo(**known, password=connection.info.password or None)


def _stop_all() -> None:
    """Disconnect in order before the interpreter ends."""
    with _lock:
        running = list(_listeners.values())
    for listener in running:
        listener.stop()
    for listener in running:
        listener.join(EXIT_WAIT)


def _abandon_all() -> None:
    """Begin anew in a forked child: the threads are the parent's, and so are the connections."""
    global _lock  # noqa: PLW0603  # another thread of the parent may have held it
    _lock = threading.Lock()
    for listener in _listeners.values():
        listener.abandon()
    _listeners.clear()


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)

"""Crashes: the token of a run, its end, and when an event that kills its process is given up.

A run whose session was lost tells its end over a new connection. Otherwise the next run would find
its token, and take that for a crash. A worker whose session was cut reconnects within RECONNECT_MAX
of the consumer, and shows by its next poll for a batch that it lives.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from pgqpy.client import connect_as_tool
from pgqpy.client.opening import PINNED
from pgqpy.consumers.connections import is_collision, is_loss
from pgqpy.consumers.waiting import start_thread
from pgqpy.errors import ConnectionFailed, ConsumerNotFound, PgqError
from pgqpy.texts import printable

if TYPE_CHECKING:
    from pgqpy.calls import Call
    from pgqpy.consumers.waiting import Wakeup


MAX_ATTEMPTS = 5  # crashes, of which three find the event
GRACE = 15.0  # seconds; longer than RECONNECT_MAX
POLL_INTERVAL = 1.0  # seconds between two polls, meanwhile


HOST_LENGTH = 100  # characters


def new_holder() -> str:
    """Return a token that no other run has: host:pid:random, printable and short.

    The random part tells runs apart; the host and the process id are for people. The random part
    begins with the place where the process id counts, for `is_gone`.
    """
    return f"{_host()}:{os.getpid()}:{_place()}.{secrets.token_hex(8)}"


def is_gone(holder: str) -> bool:
    """Say whether the process of a token is known to have ended: a process of this place."""
    process, _, random = holder.rpartition(":")
    host, _, pid = process.rpartition(":")
    if (host, random.rpartition(".")[0]) != (_host(), _place()) or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False  # of another user
    return False


def _place() -> str:
    """Return what this boot of the machine and this namespace of process ids are called.

    Containers may share a host's name, but not its process ids. Empty where nothing tells them.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return f"{boot[:8]}.{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _host() -> str:
    host = printable(socket.gethostname()).encode("ascii", "backslashreplace").decode()
    return host[:HOST_LENGTH]


PAUSE = 0.2  # seconds between two attempts
SETTINGS = {"lock_timeout": "1s", **PINNED}


class RunEnd:
    """A thread that connects and calls end_run, again and again until it works or time is up.

    In a thread, because connecting may take longer than the time that there is: a name that is
    looked up, several hosts that do not answer.
    """

    timeout = 5.0  # seconds; Docker kills a container 10 seconds after SIGTERM

    def __init__(
        self, dsn: str, application: str, call: Call[bool], done: Wakeup, *, any_session: bool
    ) -> None:
        """Take where to connect, the name of the session, the call, and what to set at the end.

        `any_session` is that of connect_as_tool.
        """
        self._dsn = dsn
        self._any_session = any_session
        self._application = application
        self._call = call
        self._done = done
        self.error: Exception | None = TimeoutError("no answer")  # why the server does not know

    def start(self) -> None:
        """Start the thread. Nobody waits for its end: it is a daemon."""
        try:
            start_thread(threading.Thread(target=self._run, name="pgqpy-run-end", daemon=True))
        except ConnectionFailed as error:
            self.error = error
            self._done.set()

    def _run(self) -> None:
        deadline = time.monotonic() + self.timeout
        try:
            while not self._end() and time.monotonic() + PAUSE < deadline:
                time.sleep(PAUSE)
        finally:
            self._done.set()

    def _end(self) -> bool:
        """Connect and call; say whether that is all that can be done."""
        try:
            self._connect_and_call()
        except ConsumerNotFound:
            self.error = None  # nothing is left that another run could find
        except (psycopg.Error, PgqError) as error:
            self.error = error
            return not (is_loss(error) or is_collision(error))
        else:
            self.error = None
        return True

    def _connect_and_call(self) -> None:
        name, any_session = self._application, self._any_session
        with connect_as_tool(
            self._dsn, SETTINGS, any_session=any_session, fallback_application_name=name
        ) as client:
            client.call(self._call)

"""The end of a run whose session was lost, told to the server over a new connection.

Otherwise the next run would find the token of this one, and take its end for an unclean one.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import psycopg

from pgqpy.client import connect_as_tool
from pgqpy.client.session_settings import PINNED
from pgqpy.consumers.connection_errors import is_collision, is_loss
from pgqpy.consumers.threads import start_thread
from pgqpy.errors import ConnectionFailed, ConsumerNotFound, PgqError

if TYPE_CHECKING:
    from pgqpy.calls import Call
    from pgqpy.consumers.waiting import Wakeup

PAUSE = 0.2  # seconds between two attempts
SETTINGS = {"lock_timeout": "1s", **PINNED}


class LateEnd:
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
            start_thread(threading.Thread(target=self._run, name="pgqpy-late-end", daemon=True))
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

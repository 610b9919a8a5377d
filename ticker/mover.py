"""The thread that moves delayed and retried events into their queues when they are due."""

from __future__ import annotations

import math
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import psycopg

from pgqpy import calls
from pgqpy.errors import PgqError
from pgqpy.ticker.duties import FULL, Moved, retry, warnings_by_queue
from pgqpy.ticker.periodic import Duty
from pgqpy.ticker.statements import Statements
from pgqpy.ticker.tick import Backoff

if TYPE_CHECKING:
    from pgqpy import Client
    from pgqpy.records import DelayedMoves
    from pgqpy.ticker.session import Database

PACE = 0.01  # seconds between two rounds, at least: a round costs a millisecond or two
NEWS_PACE = 0.025  # seconds from a round or a question for news to the next question
SLACK = 0.001  # seconds after a due time, as a timer may be early
NOW = timedelta()  # more events are due than the call could move
NEWS = "select pgq.delayed_events_are_new()"
# lock_timeout: a session that locks one queue does not delay the events of the others for long.
# synchronous_commit: a crash of the server may undo a move, and every position after it, because
# positions commit later. The same events are moved again then.
MOVER_SETTINGS = {"lock_timeout": "100ms", "synchronous_commit": "off"}


class Mover:
    """Moves what is due in one database: `run`, until the daemon stops."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._timing = database.timing
        self._period = database.settings.retry_period
        self._failing = Backoff()
        self._statements: Statements | None = None
        self._poll_at = 0.0  # monotonic seconds
        self._retry_at = 0.0  # monotonic seconds
        self._retries_fail = False
        self.duty = Duty(
            *("retry", self._round, self._period, database),
            settings=MOVER_SETTINGS,
            keeps_session=True,
        )

    def run(self) -> None:
        """Move what is due, whenever something may be, until `stopping` and `ticked` are set."""
        stopping, ticked = self._database.stopping, self._timing.ticked
        while not stopping.is_set():
            began = time.monotonic()
            if began >= self._poll_at or self._has_news():
                self._poll_at = began + self._period
                self.duty()
            rest_until = began + PACE
            if ticked.wait(max(0.0, self._poll_at - time.monotonic())):
                ticked.clear()
                rest_until = max(rest_until, min(began + NEWS_PACE, self._poll_at))
            stopping.wait(max(0.0, rest_until - time.monotonic()))

    def _has_news(self) -> bool:
        """Say whether delayed events were committed since the last move, or this is the first.

        A busy loop ticks 200 times a second: a round for each would cost as much as the loop.
        """
        if self._statements is None or self._database.health.role != "active":
            return self._database.health.role == "active"
        try:
            return self._statements.run(NEWS) != [[b"f"]]
        except psycopg.Error:
            self._statements = None
            return True  # the round reports it

    def _round(self, client: Client) -> bool:
        """Move all due events, and find out when the next one is due.

        Retried and delayed events take turns, one call each: so a queue with a million retried
        events that are due at once does not hold up the delayed events of all queues. An error of
        the retries does not hold them up either: it is raised at the end. Until they work again,
        each round counts as failed.
        """
        if self._statements is None or self._statements.connection is not client.connection:
            self._statements = Statements(client)
        now = time.monotonic()
        left_out = {queue for queue in self._failing if self._failing.pausing(queue, now)}
        recovered = self._failing.keys() - left_out
        error: Exception | None = None
        more = True
        while more and not self._database.stopping.is_set():
            full = False
            try:
                full = self._retry(client, now)
            except (psycopg.Error, PgqError) as exc:
                if client.connection.closed:
                    raise
                error = exc
            more = self._move_delayed(client, now, left_out) or full
        for queue in recovered - left_out:
            self._failing.succeeded(queue)
        if error is not None:
            raise error
        return not self._retries_fail

    def _retry(self, client: Client, now: float) -> bool:
        """Move retried events, if some may be due; say whether more may be."""
        if time.monotonic() < self._retry_at:
            return False
        self._retry_at, self._retries_fail = now + self._period, True  # unless they work
        done = retry(client)
        self._retries_fail = False
        self._count("retry", done)
        if done.moved < FULL:
            return False
        self._retry_at = now
        return True

    def _move_delayed(self, client: Client, now: float, left_out: set[str]) -> bool:
        """Move delayed events; say whether more are due. Failed queues are added to `left_out`."""
        with warnings_by_queue(client) as failures:
            done = client.call(calls.produce.move_delayed_events(left_out))
        self._count("delayed", Moved(done.moved, tuple(failures.items())))
        for queue in failures:
            self._failing.failed(queue, now)
        left_out |= failures.keys()
        self._plan(done)
        return done.next_delayed == NOW

    def _count(self, duty: Literal["retry", "delayed"], done: Moved) -> None:
        self._database.report.moved(duty, done)
        if done.moved:
            self._timing.moved_at = time.monotonic()

    def _plan(self, done: DelayedMoves) -> None:
        """Note when the next event is due, for the next round and for the loop."""
        now = time.monotonic()
        retry_at = now + seconds_until(done.next_retry)
        self._retry_at = min(self._retry_at, retry_at)
        self._timing.due_at = min(retry_at, now + seconds_until(done.next_delayed))
        self._poll_at = min(now + self._period, self._timing.due_at)


def seconds_until(due: timedelta | None) -> float:
    """Return how long to wait for an event that is due in this time; None: there is none."""
    return math.inf if due is None else due.total_seconds() + SLACK

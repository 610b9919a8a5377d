"""The thread of one database: connect, stand by, tick, and connect again after a failure."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_not_exception_type,
    sleep_using_event,
    stop_when_event_set,
    wait_random,
    wait_random_exponential,
)

from pgqpy.errors import PgqError
from pgqpy.ticker.idle_ticks import IdleTicks
from pgqpy.ticker.last_ticks import LastTicks
from pgqpy.ticker.lock_holders import LOCK_AS_DAEMON, SkippedQueues, Standby
from pgqpy.ticker.report import brief, remedy
from pgqpy.ticker.session import REFUSED, check_database
from pgqpy.ticker.statements import QUEUES, Statements
from pgqpy.ticker.tick import NOTHING, Ticked, TickState, tick

if TYPE_CHECKING:
    from threading import Event

    from psycopg import Connection

    from pgqpy.ticker.health import Health
    from pgqpy.ticker.report import Report
    from pgqpy.ticker.session import Sessions
    from pgqpy.ticker.settings import TickerSettings

REFUSED_PAUSE = 5.0  # seconds, about: somebody has to install or upgrade something first
RECONNECT = wait_random(0.02, 0.1) + wait_random_exponential(multiplier=0.1, max=5)  # seconds
SLOW_REMEDY = "see what its session waits for: select * from pg_stat_activity"
SHORT = 0.1  # seconds by which stopping may be delayed
SILENCE_SHARE = 0.01  # of a silence: the longest wait of the first event after it

# synchronous_commit off: a tick that is lost in a crash of the server was in no batch, because
# the next_batch that opens a batch commits after the tick, and flushes both.
# lock_timeout: a queue whose row is locked by another session does not delay the others for long.
TICK_SETTINGS = {"synchronous_commit": "off", "lock_timeout": "100ms"}


class SessionLost(Exception):
    """A session that had worked has ended."""


class PollIntervals(NamedTuple):
    """Seconds between polls: after a tick, while events come in, and in a long silence."""

    tick: float
    busy: float
    idle: float


class TickLoop:
    """The thread of one database."""

    def __init__(
        self,
        dsn: str,
        settings: TickerSettings,
        *,
        health: Health,
        report: Report,
        sessions: Sessions,
        stopping: Event,
    ) -> None:
        self._dsn = dsn
        self._due_period = settings.due_period
        self._health_limit = settings.health_limit
        self._intervals = PollIntervals(
            tick=settings.tick_interval,
            busy=settings.poll_interval,
            idle=settings.idle_poll_interval,
        )
        self._health = health
        self._report = report
        self._sessions = sessions
        self._stopping = stopping

    def run(self) -> None:
        """Serve the database until `stopping` is set, whatever happens to it."""
        while not self._stopping.is_set():
            retrying = Retrying(
                wait=pause,
                sleep=sleep_using_event(self._stopping),
                stop=stop_when_event_set(self._stopping),
                retry=retry_if_not_exception_type(SessionLost),
                before_sleep=self._not_connected,
                reraise=True,
            )
            try:
                retrying(self._session)
            except SessionLost as exc:
                self._disconnected(str(exc), exc.__cause__ or exc)
                self._stopping.wait(random.uniform(0.0, 0.1))
            except Exception as exc:  # noqa: BLE001  # only when stopping: anything else is tried again
                self._report.log.debug("error while stopping", error=brief(exc))

    def _session(self) -> None:
        """Open a session and work on it until the daemon stops.

        Raises SessionLost if the session ends after it had worked, and other errors before.
        """
        self._health.change("connecting", self._health.reason)
        with self._sessions.open(self._dsn, **TICK_SETTINGS) as connection:
            installed = check_database(connection)
            connection.execute(LOCK_AS_DAEMON)
            try:
                self._stand_by(connection)
                self._serve(connection, installed.state)
            except Exception as exc:
                if self._health.role == "connecting":  # nothing worked yet: the pauses get longer
                    raise
                # Before the readings are removed: a duty that is reading now removes its own.
                self._health.change("connecting", brief(exc))
                what = "connection lost" if connection.closed else "session failed"
                raise SessionLost(what) from exc
            finally:
                self._report.metrics.active.labels(self._report.database).set(0)
                self._report.metrics.readings.forget(self._report.database)

    def _stand_by(self, connection: Connection[Any]) -> None:
        Standby(
            connection,
            health=self._health,
            report=self._report,
            health_limit=self._health_limit,
            stopping=self._stopping,
        ).wait()

    def _become_active(self, installed: str) -> None:
        self._report.metrics.active.labels(self._report.database).set(1)
        self._report.forget("connection")
        self._health.change("active")
        if installed == "old":
            self._report.log.warning("schema is old", remedy="run pgqpy schema upgrade")
        self._report.log.info("active")

    def _serve(self, connection: Connection[Any], installed: str) -> None:
        """Tick until the daemon stops; the role is `active` after the first poll that succeeds."""
        statements = Statements(connection)
        state = TickState(LastTicks([int(row[0]) for row in statements.run(QUEUES)]))
        idle_ticks, skipped = IdleTicks(self._due_period), SkippedQueues(self._due_period)
        last_tick = time.monotonic()
        while not self._stopping.is_set():
            now = time.monotonic()
            done = tick(statements, state, now=now)
            if self._health.role != "active":
                self._become_active(installed)
            if done.ticks:
                last_tick = now
            if done is not NOTHING:
                self._report.ticked(done)
            self._tick_idle(statements, state, idle_ticks, now)
            self._note_skipped(skipped, connection, now)
            self._health.failing = tuple(
                sorted({*state.failing.names(), *idle_ticks.failing.names(), *skipped.names})
            )
            for duty in self._health.slow_duties(now):
                if self._report.is_news(f"slow {duty}", ""):
                    self._report.log.error("duty does not end", duty=duty, remedy=SLOW_REMEDY)
            polled_at = time.monotonic()
            self._health.polled(polled_at)
            more = bool(state.last_ticks.stale or idle_ticks.working)
            self._rest(quiet=now - last_tick, took=polled_at - now, more=more)

    def _tick_idle(
        self, statements: Statements, state: TickState, idle_ticks: IdleTicks, now: float
    ) -> None:
        try:
            done = idle_ticks.step(statements, state.last_ticks, now=now)
        except psycopg.Error as exc:
            if statements.connection.closed:
                raise
            self._report.failed("due", exc)
            return
        if done is not NOTHING:
            self._report.ticked(done)

    def _note_skipped(
        self, skipped: SkippedQueues, connection: Connection[Any], now: float
    ) -> None:
        before = skipped.names
        found = skipped.check(connection, now)
        for queue, why in (found or {}).items():
            self._report.failed("tick", why, queue=queue)
        if found is not None and before - skipped.names:
            self._report.ticked(Ticked(recovered=sorted(before - skipped.names)))

    def _rest(self, *, quiet: float, took: float, more: bool) -> None:
        rest = next_poll_interval(quiet, took, intervals=self._intervals, more=more) - took
        if rest < SHORT:
            time.sleep(rest)  # waiting for an event with a timeout costs more than a poll
        else:
            self._stopping.wait(rest)

    def _not_connected(self, attempt: RetryCallState) -> None:
        """Report a failed attempt to get a working session; another one follows."""
        exc = _failure(attempt)
        if isinstance(exc, REFUSED):
            self._health.change("refused", brief(exc))
            if self._report.is_news("connection", brief(exc)):
                self._report.log.error("database refused", error=brief(exc))
            return
        self._disconnected("reconnecting", exc)

    def _disconnected(self, what: str, exc: BaseException) -> None:
        if self._stopping.is_set():
            return
        self._health.change("connecting", brief(exc))
        self._report.metrics.reconnects.labels(self._report.database).inc()
        if self._report.is_news("connection", brief(exc)):
            known = isinstance(exc, (psycopg.Error, PgqError, OSError))
            self._report.log.warning(
                what, error=brief(exc), remedy=remedy(exc), exc_info=None if known else exc
            )


def next_poll_interval(
    quiet: float, took: float, *, intervals: PollIntervals, more: bool = False
) -> float:
    """Return the seconds from the start of one poll to the start of the next.

    `quiet` is the time since the last tick, 0 if this poll ticked. A tick makes a batch for every
    consumer, so it has an interval of its own. The first event after a silence waits for at most a
    hundredth of it. `more` says that ranges are left to poll, which the events in them wait for.
    `took` is the duration of this poll: at least half of the time is left to a server that is slow
    or has thousands of queues.
    """
    wanted = min(intervals.idle, quiet * SILENCE_SHARE) if quiet else intervals.tick
    if more and quiet:
        wanted = intervals.busy
    return max(intervals.busy, wanted, 2 * took)


def pause(attempt: RetryCallState) -> float:
    """Return the seconds until the next attempt to get a working session, with jitter."""
    if isinstance(_failure(attempt), REFUSED):
        return REFUSED_PAUSE * random.uniform(0.8, 1.2)
    return RECONNECT(attempt)


def _failure(attempt: RetryCallState) -> BaseException:
    exc = attempt.outcome.exception() if attempt.outcome else None
    return exc or RuntimeError("no failure")

"""The tick loop of one database: connect, stand by, tick, and connect again."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

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

from pgqpy import locks
from pgqpy.errors import PgqError
from pgqpy.ticker import fitness
from pgqpy.ticker.due import Due
from pgqpy.ticker.remedies import brief, remedy
from pgqpy.ticker.skipped import Skipped
from pgqpy.ticker.standby import Standby, describe_holder, holder_of
from pgqpy.ticker.state import Pace, TickState, look_interval
from pgqpy.ticker.statements import ATTEND, LEAD, QUEUES, Statements
from pgqpy.ticker.tick import NOTHING, Ticked, tick
from pgqpy.ticker.watch import Watch

if TYPE_CHECKING:
    from threading import Event

    from psycopg import Connection

    from pgqpy.settings import TickerSettings
    from pgqpy.ticker.health import Health
    from pgqpy.ticker.report import Report
    from pgqpy.ticker.session import Sessions

STANDBY_POLL = 0.25  # seconds between attempts to become the active daemon
STANDBY_LOOK = 2.0  # seconds between looks whether somebody else ticks
UNFIT_PAUSE = 5.0  # seconds, about: somebody has to install or upgrade something first
RECONNECT = wait_random(0.02, 0.1) + wait_random_exponential(multiplier=0.1, max=5)  # seconds
SLOW_REMEDY = "see what its session waits for: select * from pg_stat_activity"
SHORT = 0.1  # seconds that stopping may wait

# synchronous_commit off: a tick that a crash of the server takes back was handed to nobody,
# because the next_batch that hands it out commits after it, and flushes both.
# lock_timeout: one queue whose row somebody holds does not keep the others waiting for long.
TICK_SETTINGS = {"synchronous_commit": "off", "lock_timeout": "100ms"}


class Lost(Exception):
    """A session that had been working is gone."""


class TickLoop:
    """One database's thread."""

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
        """Take everything needed; connect to nothing yet."""
        self._dsn = dsn
        self._due_period = settings.due_period
        self._health_limit = settings.health_limit
        self._pace = Pace(
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
            persist = Retrying(
                wait=pause,
                sleep=sleep_using_event(self._stopping),
                stop=stop_when_event_set(self._stopping),
                retry=retry_if_not_exception_type(Lost),
                before_sleep=self._unsuccessful,
                reraise=True,
            )
            try:
                persist(self._session)
            except Lost as exc:
                self._disconnected(str(exc), exc.__cause__ or exc)
                self._stopping.wait(random.uniform(0.0, 0.1))
            except Exception as exc:  # noqa: BLE001  # only when stopping: anything else is tried again
                self._report.log.debug("stopped in the middle", error=brief(exc))

    def _session(self) -> None:
        """Live one connection's life: returns when stopping, raises Lost once it had worked."""
        self._health.change("connecting", self._health.reason)
        with self._sessions.open(self._dsn, **TICK_SETTINGS) as connection:
            installed = fitness.check(connection)
            connection.execute(ATTEND)
            try:
                self._stand_by(connection)
                self._serve(connection, installed.state)
            except Exception as exc:
                if self._health.role == "connecting":  # nothing worked yet: the pauses get longer
                    raise
                # Before the readings go: a duty that is just reading forgets them too.
                self._health.change("connecting", brief(exc))
                raise Lost("connection lost" if connection.closed else "session failed") from exc
            finally:
                self._report.metrics.active.labels(self._report.database).set(0)
                self._report.metrics.readings.forget(self._report.database)

    def _stand_by(self, connection: Connection[Any]) -> None:
        """Wait until this session holds the ticker's lock, or until stopping.

        It asks again and again rather than waiting for the lock: a statement that waits holds a
        snapshot, and with it the server's whole clean-up.
        """
        standby = Standby(connection)
        next_look, problem = 0.0, None
        while not _leads(connection):
            now = self._health.alive_at = time.monotonic()
            if now >= next_look:
                next_look = now + STANDBY_LOOK
                # What it asks for fails without the ticker's rights: before the role is taken.
                problem = standby.problem()
                self._become_standby(connection)
            self._standing_by(problem, now)
            if self._stopping.wait(STANDBY_POLL):
                return

    def _become_standby(self, connection: Connection[Any]) -> None:
        if self._health.role == "standby":
            return
        holder = holder_of(connection, locks.ENGINE, locks.TICKING)
        self._health.change("standby")
        self._report.forget("connection")
        self._report.log.info("standby", reason=describe_holder(holder) if holder else None)

    def _standing_by(self, problem: str | None, now: float) -> None:
        """Note whether somebody else ticks. What lasts makes this database unhealthy."""
        self._health.reason = problem
        if problem is None:
            self._health.looked(now)
            if self._report.forget("standby"):
                self._report.log.info("another ticker works again")
        elif self._health.age(now) > self._health_limit and self._report.is_news("standby", ""):
            self._report.metrics.errors.labels(self._report.database, "standby").inc()
            self._report.log.error("nobody ticks", error=problem)

    def _become_active(self, installed: str) -> None:
        self._report.metrics.active.labels(self._report.database).set(1)
        self._report.forget("connection")
        self._health.change("active")
        if installed == "old":
            self._report.log.warning("schema is old", remedy="run pgqpy schema upgrade")
        self._report.log.info("active")

    def _serve(self, connection: Connection[Any], installed: str) -> None:
        """Tick until stopping. The role is taken by the first look that goes well."""
        statements = Statements(connection)
        state = TickState(Watch([int(row[0]) for row in statements.run(QUEUES)]))
        due, skipped = Due(self._due_period), Skipped(self._due_period)
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
            self._tick_due(statements, state, due, now)
            self._note_skipped(skipped, connection, now)
            self._health.failing = tuple(
                sorted({*state.failing.names(), *due.failing.names(), *skipped.names})
            )
            for duty in self._health.slow_duties(now):
                if self._report.is_news(f"slow {duty}", ""):
                    self._report.log.error("duty does not end", duty=duty, remedy=SLOW_REMEDY)
            looked = time.monotonic()
            self._health.looked(looked)
            more = bool(state.watch.stale or due.working)
            self._rest(quiet=now - last_tick, took=looked - now, more=more)

    def _tick_due(self, statements: Statements, state: TickState, due: Due, now: float) -> None:
        try:
            done = due.step(statements, state.watch, now=now)
        except psycopg.Error as exc:
            if statements.connection.closed:
                raise
            self._report.failed("due", exc)
            return
        if done is not NOTHING:
            self._report.ticked(done)

    def _note_skipped(self, skipped: Skipped, connection: Connection[Any], now: float) -> None:
        before = skipped.names
        found = skipped.look(connection, now)
        for queue, why in (found or {}).items():
            self._report.failed("tick", why, queue=queue)
        if found is not None and before - skipped.names:
            self._report.ticked(Ticked(recovered=sorted(before - skipped.names)))

    def _rest(self, *, quiet: float, took: float, more: bool) -> None:
        rest = look_interval(quiet, took, pace=self._pace, more=more) - took
        if rest < SHORT:
            time.sleep(rest)  # waiting for an event with a timeout costs more than the look
        else:
            self._stopping.wait(rest)

    def _unsuccessful(self, attempt: RetryCallState) -> None:
        """Note an attempt to get a working session that failed; another follows."""
        exc = _failure(attempt)
        if isinstance(exc, fitness.UNFIT):
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


def pause(attempt: RetryCallState) -> float:
    """Return the seconds until the next attempt to get a working session, with jitter."""
    if isinstance(_failure(attempt), fitness.UNFIT):
        return UNFIT_PAUSE * random.uniform(0.8, 1.2)
    return RECONNECT(attempt)


def _failure(attempt: RetryCallState) -> BaseException:
    exc = attempt.outcome.exception() if attempt.outcome else None
    return exc or RuntimeError("no failure")


def _leads(connection: Connection[Any]) -> bool:
    row = connection.execute(LEAD).fetchone()
    return bool(row and row[0])

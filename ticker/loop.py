"""The thread of one database: connect, stand by, tick, and connect again after a failure."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

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
from pgqpy.ticker.logs import brief, remedy
from pgqpy.ticker.session import REFUSED, check_database
from pgqpy.ticker.statements import QUEUES, Statements
from pgqpy.ticker.tick import NOTHING, DueTicks, LastTicks, Ticked, TickState, tick

if TYPE_CHECKING:
    from pgqpy import Client
    from pgqpy.ticker.session import Database
    from pgqpy.ticker.settings import TickerSettings

STANDBY_POLL = 0.25  # seconds between attempts to become the active daemon
LOCK_AS_TICKER = f"select pg_try_advisory_lock({locks.ENGINE}, {locks.TICKING})"


class Standby:
    """A daemon without the ticker's lock: it waits."""

    def __init__(self, client: Client, database: Database) -> None:
        self._connection = client.connection
        self._health = database.health
        self._report = database.report
        self._stopping = database.stopping

    def wait(self) -> None:
        """Return when this session holds the ticker's lock, or when the daemon stops.

        It tries again and again instead of waiting in the server: a statement that waits holds a
        snapshot, which keeps vacuum from removing rows in the whole database.
        """
        while self._connection.execute(LOCK_AS_TICKER).fetchone() != (True,):
            self._announce()
            self._health.polled(time.monotonic())
            if self._stopping.wait(STANDBY_POLL):
                return

    def _announce(self) -> None:
        if self._health.role == "standby":
            return
        holder = self._holder()
        self._health.change("standby")
        self._report.forget("connection")
        self._report.log.info("standby", reason=describe(holder) if holder else None)

    def _holder(self) -> locks.Holder | None:
        cursor = self._connection.cursor()
        row = cursor.execute(locks.HOLDER, (locks.ENGINE, locks.TICKING)).fetchone()
        return None if row is None else locks.Holder(*row)


def describe(holder: locks.Holder) -> str:
    """Return a clause that names the holder of the ticker's lock."""
    return f"the ticker's lock ({locks.ENGINE}, {locks.TICKING}) is held by {holder}"


REFUSED_PAUSE = 5.0  # seconds, about: somebody has to install or upgrade something first
RECONNECT = wait_random(0.02, 0.1) + wait_random_exponential(multiplier=0.1, max=5)  # seconds
SLOW_REMEDY = "see what its session waits for: select * from pg_stat_activity"
SHORT = 0.1  # seconds by which stopping may be delayed
SILENCE_SHARE = 0.01  # of a silence: the longest wait of the first event after it

# synchronous_commit off: a crash of the server may lose a tick, but then also every position that
# refers to it, because positions commit later. Such a batch's events are delivered again in another
# batch.
# lock_timeout: a queue whose row is locked by another session does not delay the others for long.
TICK_SETTINGS = {"synchronous_commit": "off", "lock_timeout": "100ms"}

# Held by every daemon, so that `pgqpy ticker status` counts the standbys.
LOCK_AS_DAEMON = f"select pg_try_advisory_lock_shared({locks.ENGINE}, {locks.WATCHING})"


class SessionLost(Exception):
    """A session that had worked has ended."""


class TickLoop:
    """The thread of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._settings = database.settings
        self._health = database.health
        self._report = database.report
        self._stopping = database.stopping
        self._timing = database.timing

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
        # Any owner: check_database reads the owners together with the schema's version.
        sessions, dsn = self._database.sessions, self._database.dsn
        with sessions.open(dsn, TICK_SETTINGS, any_owner=True) as client:
            connection = client.connection
            try:
                installed = check_database(client)
                connection.execute(LOCK_AS_DAEMON)
                Standby(client, self._database).wait()
                self._serve(client, installed.state)
            except Exception as exc:
                if self._health.role == "connecting":  # nothing worked yet: the pauses get longer
                    raise
                # Before the readings are removed: a duty that is reading now removes its own.
                self._health.change("connecting", brief(exc))
                what = "connection lost" if connection.closed else "session failed"
                raise SessionLost(what) from exc
            finally:
                self._report.metrics.readings.pop(self._report.database, None)

    def _serve(self, client: Client, installed: str) -> None:
        """Tick until the daemon stops; the role is `active` after the first poll that succeeds."""
        statements = Statements(client)
        state = TickState(LastTicks([int(row[0]) for row in statements.run(QUEUES)]))
        due_ticks = DueTicks(self._settings.due_period)
        last_tick = time.monotonic()
        while not self._stopping.is_set():
            now = time.monotonic()
            done = tick(statements, state, now=now)
            if self._health.role != "active":
                self._become_active(installed)
            if done.ticks:
                last_tick = now
                self._timing.ticked.set()
            self._report.ticked(done)
            self._report.ticked(self._tick_due(statements, state, due_ticks, now))
            self._health.failing = tuple(sorted({*state.failing, *due_ticks.failing}))
            for duty in self._health.slow_duties(now):
                if self._report.is_news(f"slow {duty}", ""):
                    self._report.log.error("duty does not end", duty=duty, remedy=SLOW_REMEDY)
            polled_at = time.monotonic()
            self._health.polled(polled_at)
            more = bool(state.last_ticks.stale or due_ticks.working)
            quiet = self._timing.quiet(last_tick, now)
            self._rest(quiet=quiet, took=polled_at - now, more=more)

    def _become_active(self, installed: str) -> None:
        self._report.forget("connection")
        self._health.change("active")
        if installed == "old":
            self._report.log.warning("schema is old", remedy="run pgqpy schema install")
        self._report.log.info("active")

    def _tick_due(
        self, statements: Statements, state: TickState, due_ticks: DueTicks, now: float
    ) -> Ticked:
        if not due_ticks.is_due(now):
            return NOTHING  # what asks nothing is no run of the duty
        try:
            done = due_ticks.step(statements, state.last_ticks, now=now)
        except psycopg.Error as exc:
            if statements.connection.closed:
                raise
            self._report.failed("due", exc)
            self._health.duty_ran("due", failed=True)
            return NOTHING
        if not due_ticks.working:  # the whole round went well
            self._health.duty_ran("due", failed=False)
        return done

    def _rest(self, *, quiet: float, took: float, more: bool) -> None:
        rest = next_poll_interval(quiet, took, settings=self._settings, more=more) - took
        if 0 < (due := self._timing.due_at - time.monotonic()) < rest:
            rest = due
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
    quiet: float, took: float, *, settings: TickerSettings, more: bool = False
) -> float:
    """Return the seconds from the start of one poll to the start of the next.

    `quiet` is the time since the last tick, 0 if this poll ticked. A tick makes a batch for every
    consumer, so it has an interval of its own. The first event after a silence waits for at most a
    hundredth of it. `more` says that ranges are left to poll, which the events in them wait for.
    `took` is the duration of this poll: at least half of the time is left to a server that is slow
    or has thousands of queues.
    """
    if not quiet:
        wanted = settings.tick_interval
    elif more:
        wanted = settings.poll_interval
    else:
        wanted = min(settings.idle_poll_interval, quiet * SILENCE_SHARE)
    return max(settings.poll_interval, wanted, 2 * took)


def pause(attempt: RetryCallState) -> float:
    """Return the seconds until the next attempt to get a working session, with jitter."""
    if isinstance(_failure(attempt), REFUSED):
        return REFUSED_PAUSE * random.uniform(0.8, 1.2)
    return RECONNECT(attempt)


def _failure(attempt: RetryCallState) -> BaseException:
    exc = attempt.outcome.exception() if attempt.outcome else None
    return exc or RuntimeError("no failure")

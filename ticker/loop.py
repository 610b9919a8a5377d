"""The two threads of a database: one ticks, one moves delayed and retried events when due."""

from __future__ import annotations

import math
import random
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

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

from pgqpy import calls, locks
from pgqpy.errors import PgqError
from pgqpy.ticker.duties import FULL, Moved, retry, warnings_by_queue
from pgqpy.ticker.logs import brief, remedy
from pgqpy.ticker.periodic import Duty
from pgqpy.ticker.session import REFUSED, check_database
from pgqpy.ticker.statements import QUEUES, Statements
from pgqpy.ticker.tick import NOTHING, Backoff, DueTicks, LastTicks, Ticked, TickState, tick

if TYPE_CHECKING:
    from pgqpy import Client
    from pgqpy.records import DelayedMoves
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

    def wait(self) -> bool:
        """Return True when this session holds the ticker's lock, False when the daemon stops.

        It tries again and again instead of waiting in the server: a statement that waits holds a
        snapshot, which keeps vacuum from removing rows in the whole database.
        """
        while self._connection.execute(LOCK_AS_TICKER).fetchone() != (True,):
            self._announce()
            self._health.polled(time.monotonic())
            if self._stopping.wait(STANDBY_POLL):
                return False
        return True

    def _announce(self) -> None:
        if self._health.role == "standby":
            return
        holder = self._holder()
        self._health.change("standby")
        self._report.forget("connection")
        self._report.log.info("standby", reason=describe(holder) if holder else None)

    def _holder(self) -> locks.LockOwner | None:
        cursor = self._connection.cursor()
        row = cursor.execute(locks.OWNER, (locks.ENGINE, locks.TICKING)).fetchone()
        return None if row is None else locks.LockOwner(*row)


def describe(holder: locks.LockOwner) -> str:
    """Return a clause that names the owner of the ticker's lock."""
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
    """The thread that ticks the queues of one database."""

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
                if Standby(client, self._database).wait():
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
    """The thread that moves due events, retried and delayed ones, in one database.

    Its duty is called retry in logs and metrics, and moves both.
    """

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
        """Move what is due, whenever something may be, until `stopping` is set.

        It may wait for `ticked` then: who stops the daemon sets that too.
        """
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

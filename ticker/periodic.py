"""The periodic duties of each database, and the timers that call them."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING

from apscheduler.executors.debug import DebugExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers import SchedulerNotRunningError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from pgqpy import Client, calls
from pgqpy.ticker.duties import CRON_PERIOD, Cron, VacuumWarning, maint
from pgqpy.ticker.metrics import NOTIFY_QUEUE, TICKER_LAG, SizesReader, read_gauges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pgqpy.ticker.session import Database

HISTORY_PERIOD = 60.0  # seconds
KEEP_SESSION_UP_TO = 10.0  # seconds: a duty with a longer period connects for every run
# A session that holds the lock of one queue does not delay the maintenance of the others.
DUTY_SETTINGS = {"lock_timeout": "5s"}
FIRST_RUN = 0.5  # seconds: the loop is active by then, else the duty waits for another period
CLOCK_CHECK = 1.0  # seconds
CLOCK_STEP = 2.0  # seconds: more than a clock is slewed by between two checks


@dataclass(eq=False)
class Duty:
    """A function of a client, called while this daemon is active: by a timer, or by Mover.

    A duty has a session of its own. A call of it never raises: failures go to the report. `run`
    returns False if a part of it failed; it has reported that part itself.
    """

    name: str
    run: Callable[[Client], object]
    period: float  # seconds
    database: Database
    settings: Mapping[str, str] = field(default_factory=lambda: DUTY_SETTINGS)
    keeps_session: bool = False  # whatever its period: it is called when there is news, too
    _client: Client | None = field(default=None, init=False)
    _session: ExitStack = field(default_factory=ExitStack, init=False)

    def __call__(self) -> None:
        """Run once, if this daemon is active."""
        health, report = self.database.health, self.database.report
        if health.role != "active":
            self._disconnect()
            return
        health.running[self.name] = time.monotonic()
        try:
            client = self._connected()
            complete = self.run(client) is not False
        except Exception as exc:  # noqa: BLE001  # a failing duty never stops the timer
            self._disconnect()
            self.report_failure(exc)
        else:
            report.forget(self.name)
            if health.role == "active":
                health.duty_ran(self.name, failed=not complete)
            if self.period > KEEP_SESSION_UP_TO and not self.keeps_session:
                self._disconnect()
        finally:
            health.running.pop(self.name, None)

    def report_failure(self, exc: Exception) -> None:
        """Report a run that failed; while the loop reconnects, it is the loop that reports."""
        health = self.database.health
        if health.role == "active" and not self.database.sessions.breaking:
            health.duty_ran(self.name, failed=True)
            self.database.report.failed(self.name, exc)

    def _connected(self) -> Client:
        if self._client is None:
            opened = self.database.sessions.open(self.database.dsn, self.settings)
            self._client = self._session.enter_context(opened)
        return self._client

    def _disconnect(self) -> None:
        self._client = None
        self._session.close()


class Every(BaseTrigger):  # type: ignore[misc]  # it has no types
    """Fires every `period` seconds; all missed times are one run.

    APScheduler's IntervalTrigger lists each missed time: 31 million, if the period is a second and
    the clock was set forward by a year.
    """

    def __init__(self, period: float) -> None:
        self._period = timedelta(seconds=period)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """Return a period after the previous time; if that has passed, a period from now."""
        time_after = (previous_fire_time or now) + self._period
        return time_after if time_after > now else now + self._period


class Timers:
    """Calls duties periodically: start, stop, join. Stopping twice or before starting is safe.

    APScheduler decides when to call. Every call runs on a daemon thread. APScheduler's own pools
    join their threads when the interpreter exits, so a server that does not answer would keep the
    process alive.
    """

    def __init__(self, duties: Iterable[Duty]) -> None:
        self._duties = list(duties)
        self._threads: dict[Duty, Thread] = {}
        self._stopped = Event()
        self._scheduler = BackgroundScheduler(
            executors={"default": DebugExecutor()}, timezone=timezone.utc
        )
        logging.getLogger("apscheduler").setLevel(logging.ERROR)

    def start(self) -> None:
        """Begin to call the duties."""
        for duty in self._duties:
            first = datetime.now(timezone.utc) + timedelta(seconds=min(FIRST_RUN, duty.period))
            self._scheduler.add_job(
                self._begin,
                Every(duty.period),
                args=[duty],
                next_run_time=first,
                misfire_grace_time=None,
            )
        self._scheduler.start()
        Thread(target=self._check_clock, args=(wall_clock_offset(),), daemon=True).start()

    def stop(self) -> None:
        """Call no more duties; does not wait for a running one."""
        self._stopped.set()
        with suppress(SchedulerNotRunningError):
            self._scheduler.shutdown(wait=False)

    def join(self, deadline: float) -> bool:
        """Wait until `deadline` (monotonic) for running duties; say whether all have ended."""
        threads = list(self._threads.values())
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _begin(self, duty: Duty) -> None:
        """Run a duty on a thread, unless its last run has not ended."""
        running = self._threads.get(duty)
        if running is None or not running.is_alive():
            thread = Thread(target=duty, name=duty.name, daemon=True)
            thread.start()
            self._threads[duty] = thread

    def _check_clock(self, offset: float) -> None:
        """Run every duty when somebody has set the wall clock, which APScheduler goes by.

        Otherwise every duty would wait for an hour after the clock was set back by an hour.
        """
        while not self._stopped.wait(CLOCK_CHECK):
            before, offset = offset, wall_clock_offset()
            if abs(offset - before) > CLOCK_STEP:
                with suppress(JobLookupError):  # the scheduler was stopped meanwhile
                    for job in self._scheduler.get_jobs():
                        job.modify(next_run_time=datetime.now(timezone.utc))


def wall_clock_offset() -> float:
    """Return the seconds from the monotonic clock to the wall clock."""
    return time.time() - time.monotonic()


def duties_of(database: Database) -> list[Duty]:
    """Return the periodic duties of one database."""
    settings, report, stopping = database.settings, database.report, database.stopping.is_set

    def maintain(client: Client) -> bool:
        done = maint(client, stopping=stopping)
        report.maintained(done)
        report.stalled(client.call(calls.admin.get_stalled_info()))
        # VACUUM's warnings do not count: where autovacuum does the work, they come at each run.
        return all(isinstance(exc, VacuumWarning) for _, exc in done.failures)

    entries = Cron()

    def fire(client: Client) -> None:
        report.fired(entries.fire(client, stopping=stopping))

    cron = [Duty("cron", fire, CRON_PERIOD, database)] if settings.cron else []

    def write_history(client: Client) -> None:
        client.call(calls.maintain.maint_history())

    history = [Duty("history", write_history, HISTORY_PERIOD, database)]
    gauges = partial(_read_gauges, database, SizesReader())
    return [
        *cron,
        *(history if settings.history else []),
        Duty("maint", maintain, settings.maint_period, database),
        Duty("gauges", gauges, settings.gauge_period, database),
    ]


def _read_gauges(database: Database, sizes: SizesReader, client: Client) -> None:
    report = database.report
    counted = report.counted  # first: a queue created meanwhile is not in the reading
    reading = read_gauges(client, sizes)
    report.metrics.readings[report.database] = reading
    report.drop(counted - {queue for (queue,) in reading[TICKER_LAG]})
    report.notify_queue(reading[NOTIFY_QUEUE][()])
    # The loop may have lost its session, and removed the reading, a moment before.
    if database.health.role != "active":
        report.metrics.readings.pop(report.database, None)

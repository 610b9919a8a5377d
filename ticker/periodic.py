"""Run a periodic duty on a session of its own, and only while this daemon is the active one."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from pgqpy import Client
from pgqpy.ticker.maintenance import maint, retry
from pgqpy.ticker.metrics import read_gauges

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from pgqpy.ticker.health import Health
    from pgqpy.ticker.report import Report
    from pgqpy.ticker.session import Sessions
    from pgqpy.ticker.settings import TickerSettings

KEEP_SESSION_UP_TO = 10.0  # seconds: a duty that runs less often connects every time


class Duty:
    """A named function of a client, called by a timer. Never raises: it reports."""

    def __init__(
        self,
        name: str,
        run: Callable[[Client], object],
        *,
        period: float,
        dsn: str,
        health: Health,
        report: Report,
        sessions: Sessions,
        settings: dict[str, str] | None = None,
    ) -> None:
        """Take the function and what to run it on; `period` is in seconds."""
        self.name = name
        self.period = period
        self._run = run
        self._dsn = dsn
        self._health = health
        self._report = report
        self._sessions = sessions
        self._settings = settings or {}
        self._client: Client | None = None
        self._session = ExitStack()

    def __call__(self) -> None:
        """Run once, if this daemon is active."""
        if self._health.role != "active":
            self._disconnect()
            return
        self._health.running[self.name] = time.monotonic()
        try:
            self._run(self._connected())
        except Exception as exc:  # noqa: BLE001  # a failing duty never stops the timer
            self._disconnect()
            # While the loop reconnects, it says so; a second line about the same helps nobody.
            if self._health.role == "active" and not self._sessions.breaking:
                self._report.failed(self.name, exc)
        else:
            self._report.forget(self.name)
            if self.period > KEEP_SESSION_UP_TO:
                self._disconnect()
        finally:
            self._health.running.pop(self.name, None)

    def _connected(self) -> Client:
        if self._client is None:
            opened: Any = self._sessions.open(self._dsn, **self._settings)
            self._client = Client(self._session.enter_context(opened))
        return self._client

    def _disconnect(self) -> None:
        self._client = None
        self._session.close()


def duties_of(
    dsn: str,
    settings: TickerSettings,
    *,
    health: Health,
    report: Report,
    sessions: Sessions,
    stopping: Event,
) -> list[Duty]:
    """Return one database's periodic duties."""
    # Whoever holds one queue's row or table does not keep the others from being maintained.
    locks = {"lock_timeout": "5s"}
    make = partial(Duty, dsn=dsn, health=health, report=report, sessions=sessions, settings=locks)
    return [
        make("retry", partial(_retry, report, stopping), period=settings.retry_period),
        make("maint", partial(_maint, report, stopping), period=settings.maint_period),
        make("gauges", partial(_gauges, report, health), period=settings.gauge_period),
    ]


def _retry(report: Report, stopping: Event, client: Client) -> None:
    report.retried(retry(client, stopping=stopping.is_set))


def _maint(report: Report, stopping: Event, client: Client) -> None:
    report.maintained(maint(client, stopping=stopping.is_set))


def _gauges(report: Report, health: Health, client: Client) -> None:
    counted = report.counted  # before: a queue made meanwhile is not in the reading
    reading = read_gauges(client)
    report.metrics.readings.put(report.database, reading)
    report.drop(counted - {queue.queue for queue in reading.queues})
    report.notify_queue(reading.notify_queue)
    # The loop may have lost its session, and forgotten the readings, just before.
    if health.role != "active":
        report.metrics.readings.forget(report.database)

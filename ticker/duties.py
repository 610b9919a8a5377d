"""Which duties the timers run on each database."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pgqpy.ticker.duty import Duty
from pgqpy.ticker.gauges import gauges
from pgqpy.ticker.maint import maint
from pgqpy.ticker.retry import retry

if TYPE_CHECKING:
    from threading import Event

    from pgqpy import Client
    from pgqpy.settings import TickerSettings
    from pgqpy.ticker.health import Health
    from pgqpy.ticker.report import Report
    from pgqpy.ticker.session import Sessions


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
    reading = gauges(client)
    report.metrics.readings.put(report.database, reading)
    report.drop(counted - {queue.queue for queue in reading.queues})
    report.notify_queue(reading.notify_queue)
    # The loop may have lost its session, and forgotten the readings, just before.
    if health.role != "active":
        report.metrics.readings.forget(report.database)

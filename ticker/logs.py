"""The daemon's log on standard error, and the log lines and counters of each database."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, cast

import psycopg
import structlog

from pgqpy.log_format import LEVELS, renderers
from pgqpy.texts import printable
from pgqpy.ticker.duties import sqlstate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping

    from prometheus_client import Counter
    from structlog.typing import FilteringBoundLogger

    from pgqpy.records import StalledInfo
    from pgqpy.ticker.duties import Fired, Maintained, Moved
    from pgqpy.ticker.metrics import TickerMetrics
    from pgqpy.ticker.settings import TickerSettings
    from pgqpy.ticker.tick import Ticked

LOCKED = "55P03"  # lock_not_available
LOCKED_TIMES = 4  # in a row before it is logged: a rotation locks the queue's row for a moment
NOTIFY_LIMIT = 0.9  # of the NOTIFY queue; above, pgq.insert_tick sends no notification
REPEAT_AFTER = 60.0  # seconds until the same text is logged again

REMEDIES: Mapping[str, str] = {
    "42P01": "a table or sequence of the queue is gone: "
    "restore it, or drop the queue with pgqpy queue drop --force",
    "42883": "run pgqpy schema install",
    "42501": "grant pgq_ticker to the role the ticker connects as; in an event trigger of yours, "
    "grant the owner of the schema pgq what it uses",
    "55P03": "another session holds the queue's row or table: pgqpy doctor names one that "
    "all wait for, and transactions that are open for long",
    "53100": "the server's disk is full",
    "25006": "the server is read-only: name the primary in the connection string",
}
NOTIFY_REMEDY = (
    "consumers find ticks by polling meanwhile; the server's log names the session whose open "
    "transaction keeps the notifications: end it"
)

HOLDS_TEXT = "rotation waits for a consumer"
HOLDS_REMEDY = "run it, or unregister it; policy of pgqpy consumer set decides what happens"
GONE_TEXT = "consumer detached"
GONE_REMEDY = "attached=yes of pgqpy consumer set says what is left, and goes on"
REPEAT_STALLED = 3600.0  # seconds


def make_logger(settings: TickerSettings) -> FilteringBoundLogger:
    """Return the daemon's logger.

    Nothing global is configured: the daemon may run inside an application.
    """
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            clean,
            *renderers(settings.log_format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[settings.log_level]),
        cache_logger_on_first_use=True,
    )
    return suppress_errors(logger)


class _Suppressing:
    """A logger without its errors, such as of a pipe without a reader: ticks matter more."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log

    def bind(self, **values: object) -> _Suppressing:
        return _Suppressing(self._log.bind(**values))

    def __getattr__(self, method: str) -> Callable[..., None]:
        def log(event: str, **values: object) -> None:
            with suppress(Exception):
                getattr(self._log, method)(event, **values)

        return log


def suppress_errors(log: FilteringBoundLogger) -> FilteringBoundLogger:
    """Return a logger that logs as `log` does, and never raises."""
    return cast("FilteringBoundLogger", _Suppressing(log))


def clean(_logger: object, _method: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    """Leave out fields that are None, escape characters that are not printable, cut long texts."""
    return {
        name: printable(value) if isinstance(value, str) else value
        for name, value in event.items()
        if value is not None
    }


class Report:
    """The log lines and counters of one database; its loop and duties use it concurrently."""

    def __init__(self, database: str, log: FilteringBoundLogger, metrics: TickerMetrics) -> None:
        self.database = database
        self.log = log.bind(database=database)
        self.metrics = metrics
        self._logged: dict[str, tuple[str, float]] = {}
        self._ticks: dict[str, Counter] = {}  # a lookup by labels costs more than the increment
        self._rotated: set[str] = set()
        self._stalled: dict[tuple[str, str], tuple[str, float]] = {}  # the state, when logged

    def ticked(self, done: Ticked) -> None:
        """Count ticks; log queues that fail, and queues that work again."""
        for queue, _ in done.ticks:
            counter = self._ticks.get(queue)
            if counter is None:
                counter = self._ticks[queue] = self.metrics.ticks.labels(self.database, queue)
            counter.inc()
        for queue, exc, times in done.failures:
            if sqlstate(exc) == LOCKED and times < LOCKED_TIMES:
                self.metrics.errors.labels(self.database, "tick").inc()
            else:
                self.failed("tick", exc, queue=queue)
        if self._logged:
            for queue in (*(name for name, _ in done.ticks), *done.recovered):
                if self.forget(f"tick {queue}"):
                    self.log.info("queue works again", queue=queue)

    def moved(self, duty: Literal["retry", "delayed"], done: Moved) -> None:
        """Count retried or delayed events that were moved into queues; log queues that fail."""
        if duty == "retry":
            self.metrics.retried_events.labels(self.database).inc(done.moved)
        if done.moved:
            self.log.debug("events moved", duty=duty, events=done.moved)
        for queue, exc in done.failures:
            self.failed(duty, exc, queue=queue)

    def fired(self, done: Fired) -> None:
        """Count and log events of cron entries; log entries that fail."""
        for entry, event_time in done.events:
            self.metrics.cron_events.labels(self.database).inc()
            self.log.debug("cron entry fired", entry=entry.name, due=event_time.isoformat())
        for entry, exc, times in done.failures:
            if sqlstate(exc) == LOCKED and times < LOCKED_TIMES:
                self.metrics.errors.labels(self.database, "cron").inc()
            else:
                self.failed("cron", exc, queue=entry.queue, operation=entry.name)

    def notify_queue(self, usage: float) -> None:
        """Log when ticks send no notifications, and when they do again; `usage` is 0 to 1."""
        if usage < NOTIFY_LIMIT:
            if self.forget("notify queue"):
                self.log.info("ticks are announced again", usage=round(usage, 3))
        elif self.is_news("notify queue", "full"):
            text = "NOTIFY queue full, ticks not announced"
            self.log.warning(text, usage=round(usage, 3), remedy=NOTIFY_REMEDY)

    def maintained(self, done: Maintained) -> None:
        """Count and log rotations, and operations that failed."""
        for queue in done.rotated:
            self._rotated.add(queue)
            self.metrics.rotations.labels(self.database, queue).inc()
            self.log.info("rotated", queue=queue)
        for operation, exc in done.failures:
            queue = "" if operation.func_name == "vacuum" else operation.func_arg or ""
            self.failed("maint", exc, queue=queue, operation=operation.func_name)

    def stalled(self, found: list[StalledInfo]) -> None:
        """Log consumers that a rotation waits for, or that are detached; again after an hour."""
        now = time.monotonic()
        for each in found:
            text, remedy = (
                (HOLDS_TEXT, HOLDS_REMEDY) if each.detached is None else (GONE_TEXT, GONE_REMEDY)
            )
            before, when = self._stalled.get(each[:2], ("", 0.0))
            if not each.exceeded or (text == before and now - when < REPEAT_STALLED):
                continue
            self._stalled[each[:2]] = (text, now)
            since = each.detached or each.held_since
            self.log.warning(
                text,
                queue=each.queue,
                consumer=each.consumer,
                since=since and since.isoformat(timespec="seconds"),
                bytes=each.held_bytes,
                remedy=remedy,
            )
        for queue, consumer in self._stalled.keys() - {each[:2] for each in found}:
            del self._stalled[queue, consumer]
            self.log.info("consumer keeps no events any more", queue=queue, consumer=consumer)

    @property
    def counted(self) -> set[str]:
        """The queues that have counters of their own."""
        return self._rotated | self._ticks.keys()

    def drop(self, queues: set[str]) -> None:
        """Remove the counters of dropped queues, so that the metrics stay bounded."""
        for queue in queues:
            if self._ticks.pop(queue, None) is not None:
                self.metrics.ticks.remove(self.database, queue)
            if queue in self._rotated:
                self._rotated.remove(queue)
                self.metrics.rotations.remove(self.database, queue)

    def failed(
        self, duty: str, exc: BaseException, *, queue: str = "", operation: str = ""
    ) -> None:
        """Count a failure, and log it unless the same was logged during the last minute."""
        self.metrics.errors.labels(self.database, duty).inc()
        text = "queue failing" if queue else "duty failing"
        if self.is_news(" ".join(filter(None, (duty, operation, queue))), brief(exc)):
            log = self.log.bind(duty=duty, queue=queue or None, operation=operation or None)
            log.error(text, error=brief(exc), sqlstate=sqlstate(exc), remedy=remedy(exc))

    def is_news(self, subject: str, text: str) -> bool:
        """Say whether `text` was not logged about `subject` during the last minute."""
        now = time.monotonic()
        before, when = self._logged.get(subject, ("", 0.0))
        if text == before and now - when < REPEAT_AFTER:
            return False
        self._logged[subject] = (text, now)
        return True

    def forget(self, subject: str) -> bool:
        """Log the next text about `subject` in any case; say whether one was logged before."""
        return self._logged.pop(subject, None) is not None


def remedy(exc: BaseException) -> str | None:
    """Return what to do about an error: the server's own hint, else one by SQLSTATE."""
    for error in (exc, exc.__cause__):
        if isinstance(error, psycopg.Error) and error.diag.message_hint:
            return error.diag.message_hint
    return REMEDIES.get(sqlstate(exc) or "")


def brief(exc: BaseException) -> str:
    """Return the first line of an error: the lines that the server adds repeat statements."""
    lines = str(exc).strip().splitlines()
    return printable(lines[0]) if lines else type(exc).__name__

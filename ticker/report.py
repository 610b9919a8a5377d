"""Say what happened to a database's queues, once: in the log and in the metrics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg

from pgqpy.texts import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prometheus_client import Counter
    from structlog.typing import FilteringBoundLogger

    from pgqpy.ticker.maintenance import Maintained, Retried
    from pgqpy.ticker.metrics import TickerMetrics
    from pgqpy.ticker.tick import Ticked

LOCKED = "55P03"  # lock_not_available
LOCKED_TIMES = 4  # in a row: a rotation holds the queue's row too, and soon lets go of it
NOTIFY_LIMIT = 0.9  # of the NOTIFY queue; from there on pgq.insert_tick announces no tick
REPEAT_AFTER = 60.0  # seconds until the same complaint is worth another line

REMEDIES: Mapping[str, str] = {
    "42P01": "a table or sequence of the queue is gone: "
    "restore it, or drop the queue with pgqpy queue drop --force",
    "42883": "run pgqpy schema upgrade",
    "42501": "grant pgq_ticker to the role the ticker connects as",
    "55P03": "another session holds the queue's row or table: "
    "look for a transaction that is open for long (pgqpy doctor)",
    "53100": "the server's disk is full",
    "25006": "the server is read-only: name the primary in the connection string",
}


class Report:
    """The log lines and counters of one database. Used by its loop and its duties at once."""

    def __init__(self, database: str, log: FilteringBoundLogger, metrics: TickerMetrics) -> None:
        """Speak of `database` from now on."""
        self.database = database
        self.log = log.bind(database=database)
        self.metrics = metrics
        self._said: dict[str, tuple[str, float]] = {}
        self._ticks: dict[str, Counter] = {}  # finding one by its labels costs more than counting
        self._rotated: set[str] = set()

    def ticked(self, done: Ticked) -> None:
        """Count ticks; complain about queues that fail, and say when they work again."""
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
        if self._said:
            for queue in (*(name for name, _ in done.ticks), *done.recovered):
                if self.forget(f"tick {queue}"):
                    self.log.info("queue works again", queue=queue)

    def retried(self, done: Retried) -> None:
        """Count events that came back from the retry queue; say which queues' could not."""
        self.metrics.retried_events.labels(self.database).inc(done.moved)
        if done.moved:
            self.log.debug("events retried", events=done.moved)
        for queue, exc in done.failures:
            self.failed("retry", exc, queue=queue)

    def notify_queue(self, usage: float) -> None:
        """Say that ticks are not announced, and when they are again; `usage` is 0 to 1."""
        if usage < NOTIFY_LIMIT:
            if self.forget("notify queue"):
                self.log.info("ticks are announced again", usage=round(usage, 3))
        elif self.is_news("notify queue", "full"):
            what_to_do = (
                "consumers find ticks by polling meanwhile; the server's log names the session "
                "whose open transaction keeps the notifications: end it"
            )
            usage = round(usage, 3)
            self.log.warning(
                "NOTIFY queue full, ticks not announced", usage=usage, remedy=what_to_do
            )

    def maintained(self, done: Maintained) -> None:
        """Say which queues were rotated, and which operations failed."""
        for queue in done.rotated:
            self._rotated.add(queue)
            self.metrics.rotations.labels(self.database, queue).inc()
            self.log.info("rotated", queue=queue)
        for operation, exc in done.failures:
            argument = operation.func_arg or ""
            self.failed("maint", exc, queue=argument, operation=operation.func_name)

    @property
    def counted(self) -> set[str]:
        """The queues that have counters of their own."""
        return self._rotated | self._ticks.keys()

    def drop(self, queues: set[str]) -> None:
        """Remove the counters of queues that are gone, so that the metrics do not grow for ever."""
        for queue in queues:
            if self._ticks.pop(queue, None) is not None:
                self.metrics.ticks.remove(self.database, queue)
            if queue in self._rotated:
                self._rotated.remove(queue)
                self.metrics.rotations.remove(self.database, queue)

    def failed(
        self, duty: str, exc: BaseException, *, queue: str = "", operation: str = ""
    ) -> None:
        """Count a failure, and log it unless the same was said a moment ago."""
        self.metrics.errors.labels(self.database, duty).inc()
        about = {"duty": duty, "queue": queue, "operation": operation, "error": brief(exc)}
        about |= {"sqlstate": sqlstate(exc) or "", "remedy": remedy(exc) or ""}
        text = "queue failing" if queue else "duty failing"
        if self.is_news(" ".join(filter(None, (duty, operation, queue))), about["error"]):
            self.log.error(text, **{name: value for name, value in about.items() if value})

    def is_news(self, subject: str, said: str) -> bool:
        """Say whether this was not said of the subject during the last minute."""
        now = time.monotonic()
        before, when = self._said.get(subject, ("", 0.0))
        if said == before and now - when < REPEAT_AFTER:
            return False
        self._said[subject] = (said, now)
        return True

    def forget(self, subject: str) -> bool:
        """Make the next complaint about the subject news; say whether there was one."""
        return self._said.pop(subject, None) is not None


def remedy(exc: BaseException) -> str | None:
    """Return what to do about `exc`: what the server itself hints at, or what we know."""
    for error in (exc, exc.__cause__):
        if isinstance(error, psycopg.Error) and error.diag.message_hint:
            return error.diag.message_hint
    return REMEDIES.get(sqlstate(exc) or "")


def sqlstate(exc: BaseException) -> str | None:
    """Return the error's SQLSTATE; also of an error of ours that came of one of psycopg's."""
    code = getattr(exc, "sqlstate", None)
    return code if isinstance(code, str) else getattr(exc.__cause__, "sqlstate", None)


def brief(exc: BaseException) -> str:
    """Return the error's first line: what the server adds below it repeats statements."""
    lines = str(exc).strip().splitlines()
    return printable(lines[0]) if lines else type(exc).__name__

"""The progress lines of a pipeline: ticks, events, lag."""

from __future__ import annotations

import json
import time
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg.rows import tuple_row

from pgqpy.client import connect_as_tool
from pgqpy.errors import PgqError
from pgqpy.texts import noun
from pgqpy.tick_ranges import Wanted, find_queues, newest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pgqpy import Client, Event
    from pgqpy.pipeline.metrics import PipelineMetrics

LINE_INTERVAL = 1.0  # seconds; the least time between two lines
AGE = """
    select extract(epoch from clock_timestamp() - min(info.tick_time))::float8
      from unnest(%s::text[], %s::bigint[]) at (queue, tick)
     cross join lateral pgq.get_tick_info(at.queue, at.tick, at.tick) info
"""


class QueueMonitor:
    """A connection to the queue's database for what Spark does not report: lag, reachability."""

    def __init__(self, dsn: str, queue: str) -> None:
        self._dsn = dsn
        self._queue = queue
        self._client: Client | None = None

    def check(self) -> None:
        """Raise ConnectionFailed or QueueNotFound unless the queues can be reached."""
        find_queues(self.client(), self._queue)

    def newest_events(self, limit: int, types: tuple[str, ...]) -> list[Event]:
        """Return the newest events of these types before the last ticks, at most `limit`."""
        client = self.client()
        queues = find_queues(client, self._queue)
        share = -(-limit // len(queues))
        return [
            event
            for queue in queues
            for event in newest(client, queue.name, share, Wanted(types))[0]
        ]

    def age(self, ticks: Mapping[str, int]) -> float | None:
        """Return the age of the oldest of the queues' ticks in seconds; None if unknown."""
        try:
            with self.client().connection.cursor(row_factory=tuple_row) as cursor:
                queues, numbers = list(ticks), list(ticks.values())
                row = cursor.execute(AGE, [queues, numbers]).fetchone()
        except (psycopg.Error, PgqError):
            self.close()
            return None
        return row[0] if row else None

    def close(self) -> None:
        """Close the connection. The next call opens another."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def client(self) -> Client:
        """Return the connection; ConnectionFailed if there is none."""
        if self._client is None:
            self._client = connect_as_tool(self._dsn)
        return self._client


class Counts(NamedTuple):
    """The events, bad events and seconds of one or more micro-batches."""

    events: int = 0
    bad: int = 0
    seconds: float = 0.0

    def plus(self, other: Counts) -> Counts:
        """Return the sums."""
        events, bad, seconds = other
        return Counts(self.events + events, self.bad + bad, self.seconds + seconds)


class Progress:
    """Adds up the micro-batches, and passes progress lines to `say`."""

    def __init__(
        self, monitor: QueueMonitor, metrics: PipelineMetrics, say: Callable[[str], None]
    ) -> None:
        self._monitor = monitor
        self._metrics = metrics
        self._say = say
        self._last_line = time.monotonic()
        self._lock = Lock()  # of _since
        self._since = Counts()  # of the micro-batches since the last line
        self._all = Counts()
        self.ticks: dict[str, int] = {}  # by the queues' names

    def add(self, counts: Counts) -> None:
        """Add a micro-batch. Spark calls this in a thread of its own."""
        self._metrics.add(*counts)
        with self._lock:
            self._since = self._since.plus(counts)

    def report(self, last: Any, *, at_once: bool = False) -> None:
        """Say how far the query is if it has advanced, at most once a second unless `at_once`."""
        self._metrics.show(last)
        now = time.monotonic()
        ticks = end_ticks(last)
        soon = now - self._last_line < LINE_INTERVAL and not at_once
        if ticks and ticks != self.ticks and not soon:
            self._write_line(ticks, now)

    def end(self) -> None:
        """Say the totals."""
        at = f" at {_named(self.ticks)}" if self.ticks else ""
        events, bad, _ = self._all
        none = "; none was kept, the bad records say why" if events and events == bad else ""
        said = f"stopped{at}: {events:,} {noun(events, 'event')}, {bad:,} of them bad{none}"
        self._say(said)

    def _write_line(self, ticks: dict[str, int], now: float) -> None:
        with self._lock:
            since, self._since = self._since, Counts()
        self._all = self._all.plus(since)
        self.ticks, self._last_line = ticks, now
        if not since.events:  # an idle queue has ticks too
            return
        age = self._monitor.age(ticks)
        lag = "" if age is None else f"  lag {age:.1f} s"
        rate = since.events / since.seconds if since.seconds else 0.0
        digits = 0 if rate >= 1 else 1
        counted = f"events {since.events:,}  bad {since.bad:,}  events/s {rate:,.{digits}f}"
        self._say(f"{_named(ticks)}  {counted}{lag}")


def end_ticks(progress: Any) -> dict[str, int]:
    """Return the tick of each queue where a query's last micro-batch ended; {} before the first."""
    offsets = json.loads((progress and progress.sources[0].endOffset) or "{}")
    return {queue: offset["tick"] for queue, offset in offsets.items()}


def _named(ticks: Mapping[str, int]) -> str:
    """Return `tick 5` or, of several queues, `orders 5, refunds 7`."""
    if len(ticks) == 1:
        return f"tick {next(iter(ticks.values()))}"
    return ", ".join(f"{queue} {tick}" for queue, tick in ticks.items())

"""The progress lines of a pipeline: ticks, events, lag."""

from __future__ import annotations

import json
import time
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from pgqpy.client import connect_as_tool
from pgqpy.errors import PgqError
from pgqpy.texts import noun
from pgqpy.tick_ranges import Wanted, newest, queue_not_found

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy import Client, Event

LINE_INTERVAL = 1.0  # seconds; the least time between two lines
AGE = """
    select extract(epoch from clock_timestamp() - tick_time)::float8
      from pgq.get_tick_info(%s, %s, %s)
"""


class QueueMonitor:
    """A connection to the queue's database for what Spark does not report: lag, reachability."""

    def __init__(self, dsn: str, queue: str) -> None:
        self._dsn = dsn
        self._queue = queue
        self._client: Client | None = None

    def check(self) -> None:
        """Raise ConnectionFailed or QueueNotFound unless the queue can be reached."""
        client = self.client()
        if not client.get_queue_info(self._queue):
            raise queue_not_found(client, self._queue)

    def newest_events(self, limit: int, types: tuple[str, ...]) -> list[Event]:
        """Return the newest events of these types before the last tick, at most `limit`."""
        return newest(self.client(), self._queue, limit, Wanted(types))[0]

    def age(self, tick: int) -> float | None:
        """Return the age of a tick in seconds, the lag of a consumer there; None if unknown."""
        try:
            row = self.client().connection.execute(AGE, [self._queue, tick, tick]).fetchone()
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

    def __init__(self, monitor: QueueMonitor, say: Callable[[str], None]) -> None:
        self._monitor = monitor
        self._say = say
        self._last_line = time.monotonic()
        self._lock = Lock()  # of _since
        self._since = Counts()  # of the micro-batches since the last line
        self._all = Counts()
        self.tick: int | None = None

    def add(self, counts: Counts) -> None:
        """Add a micro-batch. Spark calls this in a thread of its own."""
        with self._lock:
            self._since = self._since.plus(counts)

    def report(self, last: Any, *, at_once: bool = False) -> None:
        """Say how far the query is if it has advanced, at most once a second unless `at_once`."""
        now = time.monotonic()
        tick = end_tick(last)
        soon = now - self._last_line < LINE_INTERVAL and not at_once
        if tick is not None and tick != self.tick and not soon:
            self._write_line(tick, now)

    def end(self) -> None:
        """Say the totals."""
        at = "" if self.tick is None else f" at tick {self.tick}"
        events, bad, _ = self._all
        none = "; none was kept, the bad records say why" if events and events == bad else ""
        said = f"stopped{at}: {events:,} {noun(events, 'event')}, {bad:,} of them bad{none}"
        self._say(said)

    def _write_line(self, tick: int, now: float) -> None:
        with self._lock:
            since, self._since = self._since, Counts()
        self._all = self._all.plus(since)
        self.tick, self._last_line = tick, now
        if not since.events:  # an idle queue has ticks too
            return
        age = self._monitor.age(tick)
        lag = "" if age is None else f"  lag {age:.1f} s"
        rate = since.events / since.seconds if since.seconds else 0.0
        counted = f"events {since.events:,}  bad {since.bad:,}  events/s {rate:,.0f}"
        self._say(f"tick {tick}  {counted}{lag}")


def end_tick(progress: Any) -> int | None:
    """Return the tick at which a query's last micro-batch ended; None before the first."""
    if progress is None:
        return None
    offset = json.loads(progress.sources[0].endOffset or "null")
    return None if offset is None else int(offset["tick"])

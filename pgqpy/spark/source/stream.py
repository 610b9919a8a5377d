"""The reader of `spark.readStream`: micro-batches of one queue or several."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pgqpy import tick_ranges
from pgqpy.errors import QueueNotFound
from pgqpy.spark.connections import connect
from pgqpy.spark.options import MAX_BIGINT, parse_offsets
from pgqpy.spark.source.bounds import check_names
from pgqpy.spark.source.read_task import Reader
from pgqpy.tick_sizes import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from pgqpy.client import Client
    from pgqpy.spark.options import Offset, ReadOptions
    from pgqpy.spark.source.subscription import Subscription
    from pgqpy.tick_ranges import Queue

logger = logging.getLogger("pgqpy.spark")

POLL_INTERVAL = 1.0  # seconds between queries for a new tick while no notification arrives


class QueueStream:
    """One of the queues of a stream: its subscription, and its newest tick as known."""

    def __init__(self, subscription: Subscription, name: str, stop_at: int | None) -> None:
        """Take the tick where trigger availableNow ends, `stop_at`; None: there is no end."""
        self.subscription = subscription
        self.name = name
        self.newest: Offset | None = None
        self.poll_at = 0.0
        self._stop_at = stop_at

    def last_end(self, at: Offset, *, is_once: bool) -> int:
        """Return where a micro-batch after `at` may end; the tick of `at`: there is none."""
        self.subscription.resume(at)
        if self.subscription.connection.notified() or time.monotonic() >= self.poll_at:
            self.poll_at = time.monotonic() + POLL_INTERVAL
            self.newest = self.subscription.newest(at)
        newest = at.tick if self.newest is None else self.newest.tick
        most = newest if self._stop_at is None else min(newest, self._stop_at)
        known = at.tick if is_once else self.subscription.empty_until(at.tick)
        return most if most > known else at.tick


class StreamReader(Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches. One instance lives in the driver and keeps connections for the query.

    Spark makes further instances only to pickle `read` for the executors. These never connect;
    `partitions` runs on the driver's instance. Spark commits a micro-batch when it plans the next
    one. So a subscription stays one micro-batch behind while events come, and keeps those that
    Spark may read again.

    Each queue has a connection, a subscription and an offset. A queue joins with the tick where it
    begins, so the micro-batch that is the first to name it reads none of its events.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._streams: dict[int, QueueStream] = {}  # by queue id
        self._initial: dict[int, Offset] | None = None
        self._begun = False  # Spark has written an offset to its log
        self._stop_at: dict[int, int] | None = (
            None  # the last ticks that trigger availableNow reads
        )
        self._find_at = 0.0
        self._gone: set[int] = set()  # queues of the checkpoint that were dropped

    def __reduce__(self) -> tuple[Any, ...]:
        return StreamReader, (self.options, self.schema)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return where a new query starts: the same offset for both of Spark's calls."""
        if self._initial is None:
            self._open({})
            self._initial = {
                number: stream.subscription.begin() for number, stream in self._streams.items()
            }
        return self._written(self._initial)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Remember the current last ticks, where this run ends.

        Spark calls this before it passes the query's offset. A subscription must not connect
        before it knows that offset, so this method uses a connection of its own.
        """
        options = self.options
        with connect(options.database, options.queue) as client:
            found = tick_ranges.find_queues(client, options.queue)
        self._stop_at = {queue.id: queue.last_tick for queue in found}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """Return a row limit always, so that ReadAllAvailable can only mean Trigger.Once.

        Spark has one limit only. `_limits` adds maxTicksPerTrigger.
        """
        return ReadMaxRows(self.options.max_events or MAX_BIGINT)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return the end of the next micro-batch, pinned before Spark writes it to its log."""
        at = self._known(start)
        is_once = isinstance(limit, ReadAllAvailable)
        # Trigger.Once has this one micro-batch only, so it cannot be empty: a driver killed here
        # leaves a pin, and the next start asks what to do (ConsumerRunning).
        if self._is_first(at) and not is_once:
            return start
        ends = {
            number: self._streams[number].last_end(at[number], is_once=is_once) for number in at
        }
        waiting = [number for number in at if ends[number] > at[number].tick]
        limits = self._limits(limit, len(waiting))
        for number in waiting:
            subscription = self._streams[number].subscription
            at[number] = subscription.next(at[number], ends[number], limits)
        at |= self._joining(at)
        return self._written(at)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  # Spark's name
        """Return the queues' newest ticks, as known, and how far the query is behind them.

        Spark shows it as `latestOffset` in the progress of a source.
        """
        known = {
            stream.name: {**stream.newest._asdict(), **stream.subscription.behind._asdict()}
            for stream in self._streams.values()
            if stream.newest is not None
        }
        return known or None

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]:
        """Split a micro-batch into partitions."""
        self._begun = True
        if not self._streams:  # a restart plans the micro-batch that was pending
            self._open(parse_offsets(end) | parse_offsets(start))
        first, last = self._known(start), self._known(end)
        moved = [number for number in first if first[number] != last.get(number)]
        for number in last:
            self._streams[number].subscription.resume(first.get(number, last[number]))
        least = self.options.min_partitions
        share = None if least is None else -(-least // max(len(moved), 1))
        return [
            each
            for number in moved
            if number in last
            for each in self._streams[number].subscription.plan(
                first[number], last[number], self.schema, share
            )
        ]

    def commit(self, end: Mapping[str, Any]) -> None:
        """Advance the subscriptions past events that Spark will not read again."""
        for number, done in self._known(end).items():
            subscription = self._streams[number].subscription
            subscription.resume(done)
            subscription.advance(done)

    def stop(self) -> None:
        """Close the connections."""
        for stream in self._streams.values():
            stream.subscription.connection.close()

    def _open(self, at: Mapping[int, Offset]) -> None:
        """Find the queues, once, and compare them with those of a checkpoint."""
        options = self.options
        with connect(options.database, options.queue) as client:
            found = tick_ranges.find_queues(client, options.queue)
            if not at:
                check_names(found, options.start)
            for queue in found:
                self._add(queue)
            self._find_at = time.monotonic() + POLL_INTERVAL
            for number in at.keys() - self._streams:
                self._refuse_or_leave(client, number, goes_on=bool(at.keys() & self._streams))

    def _add(self, queue: Queue) -> None:
        from pgqpy.spark.source.subscription import Subscription  # noqa: PLC0415  # not needed in executors

        stop_at = None if self._stop_at is None else self._stop_at.get(queue.id, queue.last_tick)
        subscription = Subscription(self.options, queue.name)
        self._streams[queue.id] = QueueStream(subscription, queue.name, stop_at)

    def _refuse_or_leave(self, client: Client, number: int, *, goes_on: bool) -> None:
        """Raise QueueNotFound for a queue of the checkpoint, unless others go on without it."""
        option = self.options.queue
        name = tick_ranges.find_queue_name(client, number)
        if name is None and not goes_on:
            raise QueueNotFound(
                f"queue {option!r} (option queue) was dropped and created again since the "
                "checkpoint was written, or this is another database (option dsn, PGQPY_DSN): "
                "start with a new checkpointLocation",
                queue=option,
            )
        if name is not None:
            raise QueueNotFound(
                f"the checkpoint has queue {name!r}, which option queue, {option!r}, lacks: "
                "add it there, or start with a new checkpointLocation",
                queue=option,
            )
        self._gone.add(number)
        logger.warning("a queue of the checkpoint, with the id %d, was dropped", number)

    def _known(self, written: Mapping[str, Any]) -> dict[int, Offset]:
        """Return an offset from the checkpoint, without queues that were dropped."""
        at = parse_offsets(written)
        if not self._streams:
            self._open(at)
        return {number: each for number, each in at.items() if number not in self._gone}

    def _joining(self, at: Mapping[int, Offset]) -> dict[int, Offset]:
        """Return where queues begin that are not part of the query yet."""
        if tick_ranges.has_pattern(self.options.queue) and time.monotonic() >= self._find_at:
            self._find_at = time.monotonic() + POLL_INTERVAL
            connection = next(iter(self._streams.values())).subscription.connection
            option = self.options.queue
            found = connection.call(lambda client: tick_ranges.find_queues(client, option))
            for queue in found:
                if queue.id not in self._streams:
                    self._add(queue)
        return {
            number: stream.subscription.begin(joins=True)
            for number, stream in self._streams.items()
            if number not in at
        }

    def _written(self, at: Mapping[int, Offset]) -> dict[str, Any]:
        """Return an offset as Spark writes it: by the queues' names."""
        return {self._streams[number].name: at[number]._asdict() for number in sorted(at)}

    def _is_first(self, at: Mapping[int, Offset]) -> bool:
        """Return whether this is the first micro-batch of a new query: empty, but for Trigger.Once.

        A pin is evidence of a query with a checkpoint. If a pin were set before Spark wrote its
        first offset, a driver that was killed in between would look like a deleted checkpoint. So
        the first offset is the subscription's own tick, which needs no pin.
        """
        return at == self._initial and not self._begun

    def _limits(self, limit: ReadLimit, queues: int) -> Limits | None:
        """Return the limits of each queue; None for Trigger.Once, which takes all there is."""
        if not isinstance(limit, ReadMaxRows):
            return None
        share = max(1, limit.max_rows // max(queues, 1))
        events = share if limit.max_rows < MAX_BIGINT else None
        return Limits(events, self.options.max_ticks)

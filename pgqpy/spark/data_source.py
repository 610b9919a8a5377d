"""The data source that Spark finds as `format("pgq")`, and its readers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pgqpy import tick_ranges
from pgqpy.errors import InvalidArgument
from pgqpy.spark.connections import connect
from pgqpy.spark.options import (
    MAX_BIGINT,
    Offset,
    batch_options,
    overwrite_refused,
    parse_offset,
    read_options,
    stream_options,
)
from pgqpy.spark.sink.writers import BatchWriter, StreamWriter
from pgqpy.spark.source.partitions import (
    EventPartition,
    checked_schema,
    plan_partitions,
    whole_schema,
)
from pgqpy.spark.source.read_task import read
from pgqpy.spark.source.subscription import resolve_bound
from pgqpy.tick_ranges import find_queue
from pgqpy.tick_sizes import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from pgqpy.spark.options import ReadOptions
    from pgqpy.spark.source.subscription import Subscription


class PgqDataSource(DataSource):
    """Makes the readers and writers of a queue."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "pgq"

    def schema(self) -> StructType:
        """Return the columns of an event.

        `load()` calls this unless the user gave a schema. A wrong option, an unreachable server or
        an unknown queue raises here, so that the error points to the line with `load()`. With a
        schema the same errors come when the query starts, as always for options that only a stream
        checks.
        """
        options = read_options(self.options)
        with connect(options.database, options.queue) as client:
            find_queue(client, options.queue)
        return whole_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of `spark.read`."""
        options = batch_options(self.options)
        return BatchReader(options, checked_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Make the reader of `spark.readStream`."""
        return StreamReader(stream_options(self.options), checked_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001  # as Spark calls it
        """Make the writer of `df.write`."""
        if overwrite:
            raise overwrite_refused('use mode("append")')
        return BatchWriter(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802  # as Spark calls it
        """Make the writer of `df.writeStream`."""
        if overwrite:  # what Spark makes of complete; it refuses update itself
            raise overwrite_refused(
                'instead of outputMode("complete") use outputMode("append"), for an aggregation '
                "after withWatermark, or write each micro-batch in foreachBatch"
            )
        return StreamWriter(self.options, schema)


class _Reader:
    """What both readers share: their options and columns, and the reading of a partition."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition, in an executor."""
        if not isinstance(partition, EventPartition):
            return iter(())  # Spark adds a partition where a batch has none
        loss = self.options.fail_on_data_loss
        return read(self.options.database, partition, self.schema, fail_on_data_loss=loss)


class BatchReader(_Reader, DataSourceReader):
    """Reads a range of ticks.

    Spark plans it once per DataFrame: every action on the DataFrame reads the same ticks.
    """

    def partitions(self) -> Sequence[InputPartition]:
        """Resolve the bounds to ticks, and split the range into partitions."""
        options = self.options
        bounds = [each for each in (options.start, options.end) if each]  # batch_options sets both
        connection = connect(options.database, options.queue)
        with connection as client, tick_ranges.locked_queue(client, options.queue) as queue:
            loss = options.fail_on_data_loss
            start, end = (
                resolve_bound(client, queue, bound, fail_on_data_loss=loss) for bound in bounds
            )
            if start > end:
                names = [bound.option for bound in bounds]
                raise InvalidArgument(
                    f"{' and '.join(filter(None, names))}: the range would end at tick {end}, "
                    f"before it starts at tick {start}: name a later end",
                    parameter=names[-1],
                )
            wanted = (options.min_partitions, options.types)
            return plan_partitions(client, queue, start, end, self.schema, *wanted)


POLL_INTERVAL = 1.0  # seconds between queries for a new tick while no notification arrives


class StreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches. One instance lives in the driver and keeps a connection for the query.

    Spark makes further instances only to pickle `read` for the executors. These never connect;
    `partitions` runs on the driver's instance. Spark commits a micro-batch when it plans the next
    one. So the subscription stays one micro-batch behind while events come, and keeps those that
    Spark may read again.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._subscription: Subscription | None = None
        self._initial: Offset | None = None
        self._begun = False  # Spark has written an offset to its log
        self._stop_at: int | None = None
        self._newest: Offset | None = None  # the queue's newest tick, as known
        self._poll_at = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        return StreamReader, (self.options, self.schema)

    @property
    def subscription(self) -> Subscription:
        """The subscription, which holds the connection."""
        from pgqpy.spark.source.subscription import Subscription  # noqa: PLC0415  # not needed in executors

        if self._subscription is None:
            self._subscription = Subscription(self.options)
        return self._subscription

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return where a new query starts: the same offset for both of Spark's calls."""
        if self._initial is None:
            self._initial = self.subscription.begin()
        return self._initial._asdict()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Remember the current last tick, where this run ends.

        Spark calls this before it passes the query's offset. The subscription must not connect
        before it knows that offset, so this method uses a connection of its own.
        """
        options = self.options
        with connect(options.database, options.queue) as client:
            self._stop_at = find_queue(client, options.queue).last_tick

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """Return a row limit always, so that ReadAllAvailable can only mean Trigger.Once.

        Spark has one limit only. `_limits` adds maxTicksPerTrigger.
        """
        return ReadMaxRows(self.options.max_events or MAX_BIGINT)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return the end of the next micro-batch, pinned before Spark writes it to its log."""
        at = parse_offset(start)
        is_trigger_once = isinstance(limit, ReadAllAvailable)
        # Trigger.Once has this one micro-batch only, so it cannot be empty: a driver killed here
        # leaves a pin, and the next start asks what to do (ConsumerRunning).
        if self._is_first(at) and not is_trigger_once:
            return at._asdict()
        self.subscription.resume(at)
        if self.subscription.connection.notified() or time.monotonic() >= self._poll_at:
            self._poll_at = time.monotonic() + POLL_INTERVAL
            self._newest = self.subscription.newest(at)
        newest = at.tick if self._newest is None else self._newest.tick
        most = newest if self._stop_at is None else min(newest, self._stop_at)
        if most <= (at.tick if is_trigger_once else self.subscription.empty_until(at.tick)):
            return at._asdict()
        return self.subscription.next(at, most, self._limits(limit))._asdict()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  # Spark's name
        """Return the queue's newest tick, as known, and how far the query is behind it.

        Spark shows it as `latestOffset` in the progress of a source.
        """
        if self._newest is None:
            return None
        return {**self._newest._asdict(), **self.subscription.behind._asdict()}

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]:
        """Split a micro-batch into partitions."""
        start_at, end_at = parse_offset(start), parse_offset(end)
        self._begun = True
        self.subscription.resume(start_at)
        if start_at == end_at:
            return []
        return self.subscription.plan(start_at, end_at, self.schema)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Advance the subscription past events that Spark will not read again."""
        done = parse_offset(end)
        self.subscription.resume(done)
        self.subscription.advance(done)

    def stop(self) -> None:
        """Close the connection."""
        if self._subscription is not None:
            self._subscription.connection.close()

    def _is_first(self, at: Offset) -> bool:
        """Return whether this is the first micro-batch of a new query: empty, but for Trigger.Once.

        A pin is evidence of a query with a checkpoint. If a pin were set before Spark wrote its
        first offset, a driver that was killed in between would look like a deleted checkpoint. So
        the first offset is the subscription's own tick, which needs no pin.
        """
        return at == self._initial and not self._begun

    def _limits(self, limit: ReadLimit) -> Limits | None:
        """Return the limits of a micro-batch; None for Trigger.Once, which takes all there is."""
        if not isinstance(limit, ReadMaxRows):
            return None
        events = limit.max_rows if limit.max_rows < MAX_BIGINT else None
        return Limits(events, self.options.max_ticks)

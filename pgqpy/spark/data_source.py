"""The data source that Spark finds as `format("pgq")`, and its readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader

from pgqpy import tick_ranges
from pgqpy.errors import InvalidArgument
from pgqpy.spark.connections import connect
from pgqpy.spark.options import (
    batch_options,
    overwrite_refused,
    read_options,
    stream_options,
)
from pgqpy.spark.sink.writers import BatchWriter, StreamWriter
from pgqpy.spark.source.bounds import check_names, resolve_bound
from pgqpy.spark.source.partitions import (
    checked_schema,
    plan_partitions,
    whole_schema,
)
from pgqpy.spark.source.read_task import Reader
from pgqpy.spark.source.stream import StreamReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import (
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
        InputPartition,
    )
    from pyspark.sql.types import StructType

    from pgqpy.client import Client
    from pgqpy.spark.source.partitions import EventPartition


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
            tick_ranges.find_queues(client, options.queue)
        return whole_schema(several=tick_ranges.has_several(options.queue))

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


class BatchReader(Reader, DataSourceReader):
    """Reads a range of ticks.

    Spark plans it once per DataFrame: every action on the DataFrame reads the same ticks.
    """

    def partitions(self) -> Sequence[InputPartition]:
        """Resolve the bounds to ticks, and split the ranges into partitions."""
        options = self.options
        with connect(options.database, options.queue) as client:
            queues = tick_ranges.find_queues(client, options.queue)
            check_names(queues, options.start, options.end)
            least = options.min_partitions
            share = None if least is None else -(-least // len(queues))
            return [each for queue in queues for each in self._plan(client, queue.name, share)]

    def _plan(self, client: Client, name: str, least: int | None) -> list[EventPartition]:
        options = self.options
        bounds = [each for each in (options.start, options.end) if each]  # batch_options sets both
        with tick_ranges.locked_queue(client, name) as queue:
            loss = options.fail_on_data_loss
            start, end = (
                resolve_bound(client, queue, bound, fail_on_data_loss=loss) for bound in bounds
            )
            if start > end:
                names = [bound.option for bound in bounds]
                raise InvalidArgument(
                    f"{' and '.join(filter(None, names))}: the range of queue {name!r} would end "
                    f"at tick {end}, before it starts at tick {start}: name a later end",
                    parameter=names[-1],
                )
            return plan_partitions(client, queue, start, end, self.schema, least, options.types)

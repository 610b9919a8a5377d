"""Readers of `spark.read`: a range of ticks as a DataFrame."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from pgqpy import tick_ranges
from pgqpy.archive import check_packages
from pgqpy.errors import InvalidArgument
from pgqpy.spark.connections import connect_planner
from pgqpy.spark.source.bounds import resolve_bound
from pgqpy.spark.source.partitions import EventPartition, plan_partitions
from pgqpy.spark.source.read_task import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from pgqpy.client import Client
    from pgqpy.spark.options import Bound, ReadOptions
    from pgqpy.spark.source.archived import ArchivePartition
    from pgqpy.tick_ranges import Queue


class BatchReader(DataSourceReader):
    """Reads a range of ticks.

    Spark plans it once per DataFrame: every action on the DataFrame reads the same ticks.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Resolve the bounds to ticks, and split the range into partitions."""
        options = self.options
        connection = connect_planner(options.database, options.queue)
        with connection as client, tick_ranges.locked_queue(client, options.queue) as queue:
            if options.archive is None:
                loss = options.fail_on_data_loss
                resolve = partial(resolve_bound, client, queue, fail_on_data_loss=loss)
                return self._plan(client, queue, *self._range(resolve))
            return self._plan_joined(client, queue, options.archive)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition, in an executor."""
        if isinstance(partition, EventPartition):
            loss = self.options.fail_on_data_loss
            return read(self.options.database, partition, self.schema, fail_on_data_loss=loss)
        if self.options.archive is None:
            return iter(())  # Spark adds a partition where partitions() returned none
        from pgqpy.spark.source import archived  # noqa: PLC0415  # it needs fsspec

        return archived.read_archive(partition, self.schema)

    def _plan(self, client: Client, queue: Queue, start: int, end: int) -> list[EventPartition]:
        wanted = (self.options.min_partitions, self.options.types)
        return plan_partitions(client, queue, start, end, self.schema, *wanted)

    def _plan_joined(
        self, client: Client, queue: Queue, location: str
    ) -> Sequence[EventPartition | ArchivePartition]:
        """Plan the archive's files up to the seam, and the queue's events after it."""
        check_packages()
        from pgqpy.spark.source import archived  # noqa: PLC0415  # it needs fsspec

        options, loss = self.options, self.options.fail_on_data_loss
        joined = archived.find_joined(client, queue, location, options.types)
        start, end = self._range(
            partial(archived.resolve_bound, client, queue, joined, fail_on_data_loss=loss)
        )
        if start < joined.first:  # expired in the archive, and still in the queue
            return self._plan(client, queue, start, end)
        wanted = (options.min_partitions, options.types)
        files = archived.plan_archive(location, joined, start, min(end, joined.seam), *wanted)
        first = archived.first_of_queue(queue, joined, start, end, fail_on_data_loss=loss)
        return [*files, *(self._plan(client, queue, first, end) if first < end else [])]

    def _range(self, resolve: Callable[[Bound], int]) -> tuple[int, int]:
        bounds = [bound for bound in (self.options.start, self.options.end) if bound]
        start, end = map(resolve, bounds)  # batch_options sets both
        if start <= end:
            return start, end
        names = [bound.option for bound in bounds]
        raise InvalidArgument(
            f"{' and '.join(filter(None, names))}: the range would end at tick {end}, before it "
            f"starts at tick {start}: exchange them",
            parameter=names[-1],
        )

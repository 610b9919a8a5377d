"""Readers of `spark.read`: a range of ticks as a DataFrame."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from pgqpy import tick_ranges
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

    from pgqpy.spark.options import Bound, ReadOptions


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
            loss = options.fail_on_data_loss
            resolve = partial(resolve_bound, client, queue, fail_on_data_loss=loss)
            start, end = self._range(resolve)
            wanted = (options.min_partitions, options.types)
            return plan_partitions(client, queue, start, end, self.schema, *wanted)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition, in an executor."""
        if not isinstance(partition, EventPartition):
            return iter(())  # Spark adds a partition where partitions() returned none
        loss = self.options.fail_on_data_loss
        return read(self.options.database, partition, self.schema, fail_on_data_loss=loss)

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

"""Readers of `spark.read`: a range of ticks as a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    In,
    IsNotNull,
    IsNull,
    StringStartsWith,
)

from pgqpy import tick_ranges
from pgqpy.errors import InvalidArgument
from pgqpy.spark.connections import connect_planner
from pgqpy.spark.source.bounds import resolve_bound
from pgqpy.spark.source.partitions import EventPartition, plan_partitions
from pgqpy.spark.source.read_task import read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from pgqpy.client import Client
    from pgqpy.spark.source.options import Bound, ReadOptions
    from pgqpy.tick_ranges import Queue

TYPE = sql.Identifier("ev_type")
CONDITIONS: dict[type[Filter], sql.SQL] = {
    IsNull: sql.SQL("{0} is null"),
    IsNotNull: sql.SQL("{0} is not null"),
    EqualTo: sql.SQL("{0} = {1}"),
    In: sql.SQL("{0} in ({1})"),
    StringStartsWith: sql.SQL("starts_with({0}, {1})"),
}


class BatchReader(DataSourceReader):
    """Reads a range of ticks.

    Spark plans it once per DataFrame: every action on the DataFrame reads the same ticks.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self.conditions: list[sql.Composable] = []

    def partitions(self) -> Sequence[InputPartition]:
        """Resolve the bounds to ticks, and split the range into partitions."""
        options = self.options
        connection = connect_planner(options.database, options.queue)
        with connection as client, tick_ranges.locked_queue(client, options.queue) as queue:
            start, end = self._range(client, queue)
            wanted = (options.min_partitions, self.conditions, options.types)
            return plan_partitions(client, queue, start, end, self.schema, *wanted)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition, in an executor."""
        if not isinstance(partition, EventPartition):
            return iter(())  # Spark adds a partition where partitions() returned none
        loss = self.options.fail_on_data_loss
        return read(self.options.database, partition, self.schema, fail_on_data_loss=loss)

    def _range(self, client: Client, queue: Queue) -> tuple[int, int]:
        start = self._tick(client, queue, self.options.start)
        end = self._tick(client, queue, self.options.end)
        if start <= end:
            return start, end
        names = [bound.option for bound in (self.options.start, self.options.end) if bound]
        raise InvalidArgument(
            f"{' and '.join(filter(None, names))}: the range would end at tick {end}, before it "
            f"starts at tick {start}: exchange them",
            parameter=names[-1],
        )

    def _tick(self, client: Client, queue: Queue, bound: Bound | None) -> int:
        assert bound is not None  # noqa: S101  # batch_options sets both
        return resolve_bound(client, queue, bound, fail_on_data_loss=self.options.fail_on_data_loss)


class FilteringReader(BatchReader):
    """A batch reader that lets the server evaluate filters on ev_type.

    Spark refuses every reader that overrides pushFilters, unless
    spark.sql.python.filterPushdown.enabled is set. So this is a class of its own, which the option
    pushDownFilters selects.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Keep the filters that SQL evaluates exactly as Spark does; return the others."""
        for each in filters:
            condition = condition_of(each)
            if condition is None:
                yield each
            else:
                self.conditions.append(condition)


def condition_of(wanted: Filter) -> sql.Composable | None:
    """Return a filter on ev_type as SQL; None for other columns and filters without equivalent."""
    template = CONDITIONS.get(type(wanted))
    if template is None or getattr(wanted, "attribute", None) != ("ev_type",):
        return None
    value = getattr(wanted, "value", ())
    values = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(each, str) and "\0" not in each for each in values):
        return None
    if isinstance(wanted, In) and not values:
        return None
    return template.format(TYPE, sql.SQL(", ").join(map(sql.Literal, values)))

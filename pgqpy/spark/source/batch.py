"""Readers of `spark.read`: a range of ticks as a DataFrame."""

from __future__ import annotations

from functools import partial
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
from pgqpy.archive import check_packages
from pgqpy.errors import InvalidArgument
from pgqpy.spark.connections import connect_planner
from pgqpy.spark.source.bounds import resolve_bound
from pgqpy.spark.source.partitions import EventPartition, plan_partitions
from pgqpy.spark.source.read_task import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from pgqpy.client import Client
    from pgqpy.spark.source.archived import ArchivePartition
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
        wanted = (self.options.min_partitions, self.conditions, self.options.types)
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


class FilteringReader(BatchReader):
    """A batch reader that lets the server evaluate filters on ev_type.

    Spark refuses every reader that overrides pushFilters, unless
    spark.sql.python.filterPushdown.enabled is set. So this is a class of its own, which the option
    pushDownFilters selects.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Keep the filters that SQL evaluates exactly as Spark does; return the others.

        No server filters archived events, so with an archive Spark evaluates all filters again.
        """
        for each in filters:
            condition = condition_of(each)
            if condition is None or self.options.archive is not None:
                yield each
            if condition is not None:
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

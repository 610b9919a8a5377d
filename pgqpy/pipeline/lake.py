"""The pipeline into a table: opening it, where a run starts, and the writing of micro-batches."""

from __future__ import annotations

import json
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pgqpy import tick_ranges
from pgqpy.errors import PgqError
from pgqpy.pipeline.folders import find_later, join, read_text, remove
from pgqpy.pipeline.options import refused
from pgqpy.pipeline.progress import Counts
from pgqpy.pipeline.records import (
    BATCH,
    DATE,
    EVENT_SCHEMA,
    QUEUE,
    SEVERAL_SCHEMA,
    good_records,
    parse,
)
from pgqpy.pipeline.tables import Orphans, check_columns, check_partition, clean, storable, total
from pgqpy.pipeline.writer import MicroBatchWriter, dated
from pgqpy.spark.finish import HEADER
from pgqpy.spark.options import parse_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pgqpy import Client
    from pgqpy.pipeline.options import PipelineOptions
    from pgqpy.pipeline.tables import LakeTable
    from pgqpy.spark.options import Offset
    from pgqpy.tick_ranges import Queue


class OffsetRefused(PgqError):
    """The table's offset is not one of this queue."""


def table_module(table_format: str) -> Any:
    """Return the module of a format, which has `find` and `create`."""
    return import_module(f"pgqpy.pipeline.{table_format}")


def check_place(options: PipelineOptions) -> None:
    """Refuse a wrong place, and a table that cannot tell queues apart, before Spark starts.

    Raises:
        InvalidArgument: the place or the table does not fit the options.
    """
    table: LakeTable | None = table_module(options.format).find(options)
    if table is None or options.evolve or not tick_ranges.has_several(options.queue):
        return
    if QUEUE not in table.columns().names:
        why = (
            f"the table has no column {QUEUE}, because it began with one queue: --evolve add adds "
        )
        raise refused("queue", f"{why}it, and it is null in the rows that are there")


def open_table(
    options: PipelineOptions, spark: SparkSession, schema: StructType | None
) -> LakeTable:
    """Return the pipeline's table, with all columns; it is created if there is none.

    Raises:
        InvalidArgument: the place or the table does not fit the options.
    """
    module = table_module(options.format)
    events = spark.createDataFrame(
        [], SEVERAL_SCHEMA if tick_ranges.has_several(options.queue) else EVENT_SCHEMA
    )
    empty = parse(events, schema, capture=options.capture)
    records = good_records(empty, capture=options.capture, rescue=options.rescue)
    wanted = _partition_by(options, records.columns)
    table: LakeTable | None = module.find(options)
    by = wanted if table is None else table.partition_by
    if DATE in by:
        records = dated(records)
    columns = storable(records.schema, options.format, narrow=module.NARROW_INTEGERS)
    check_partition(columns, by)
    if table is None:
        module.create(options, columns, by)
        return open_table(options, spark, schema)  # another pipeline may have created it
    if options.partition_by and by != wanted:
        why = f"the table is partitioned by {', '.join(by) or 'no column'}"
        raise refused("partition-by", why)
    check_columns(table, columns, evolve=options.evolve == "add")
    return table


def _partition_by(options: PipelineOptions, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the column that `--partition-by` means."""
    name = options.partition_by
    if name == "day" and name not in columns:
        return (DATE,)
    return () if name is None else (name,)


def starting_offsets(
    client: Client, options: PipelineOptions, at: Mapping[int, Offset]
) -> str | None:
    """Return the source's option startingOffsets for a run that begins at the table's offsets.

    Without offsets it is the user's. The first micro-batch, which is empty, commits them. So a run
    that was killed before has read nothing.

    Raises:
        OffsetRefused: an offset of the table is not a tick of these queues.
    """
    if not at:
        return options.starting_offsets
    queues = {queue.id: queue for queue in tick_ranges.find_queues(client, options.queue)}
    for offset in at.values():
        queue = queues.get(offset.queue_id)
        if queue is not None:
            _check_tick(client, queue, offset)
        elif name := tick_ranges.find_queue_name(client, offset.queue_id):
            raise _refused(offset, f"of queue {name!r}: add it to --queue. Or {AGAIN}")
        elif not at.keys() & queues:
            raise _refused(offset, f"of a queue that was dropped since: {AGAIN}")
    return json.dumps({queues[each].name: at[each].tick for each in at if each in queues})


AGAIN = "give the pipeline another --consumer, and say with --starting-offsets where it begins"


def _check_tick(client: Client, queue: Queue, at: Offset) -> None:
    time = tick_ranges.find_tick_times(client, queue.id, at.tick).get(at.tick)
    if at.tick > queue.last_tick or time not in (None, at.time):
        position = tick_ranges.find_position(client, queue.name, at.consumer)
        start = "earliest" if position is None else json.dumps({queue.name: position.tick})
        raise _refused(
            at,
            f"and queue {queue.name!r} has lost this tick: the server was restored "
            f"from a backup, or a standby that lagged took over. {AGAIN.capitalize()}: from "
            f"{start!r} no event is missing, and events that the table has come again",
        )
    if at.tick < queue.low_tick or time is None:
        raise _refused(
            at,
            f"and queue {queue.name!r} does not keep its events from there on: the subscription "
            f"was removed or moved. {AGAIN.capitalize()}: the first tick is {queue.first_tick}",
        )


def _refused(at: Offset, why: str) -> OffsetRefused:
    where = f"the table is at tick {at.tick} of {at.time}, as consumer {at.consumer!r} wrote"
    return OffsetRefused(f"{where}, {why}")


class TableWriter(MicroBatchWriter):
    """Writes micro-batches to a table, bad records to files. `at`: the table's offsets."""

    def __init__(
        self,
        options: PipelineOptions,
        schema: StructType | None,
        wrote: Callable[[Counts], None],
        *,
        table: LakeTable,
        checkpoint: str,
    ) -> None:
        """Begin at the table's offsets; `checkpoint` is that of the query."""
        super().__init__(options, schema, wrote)
        self._table = table
        self._checkpoint = checkpoint
        self.at: Mapping[int, Offset] = table.offsets()

    def remove_later_bad(self, spark: SparkSession) -> None:
        """Remove the bad records of micro-batches that were not committed."""
        if not self.at or self._options.bad_path is None:
            return
        for path in find_later(spark, self._options.bad_path, _bad_folder(self.at, -1)):
            remove(spark, path)

    def _write(self, events: DataFrame, batch_id: int) -> Counts:
        spark, at = events.sparkSession, self.at
        end = self._end(spark, batch_id)
        if not at:  # the source's first micro-batch is empty
            self._table.commit(None, at, end)
            self.at = end
        if not at or at == end:
            return Counts()
        folder = self._table.new_folder(at, end)
        try:
            counts = self._save_both(
                events, lambda records: self._save_good(records, folder), _bad_folder(at)
            )
        except BaseException:
            with suppress(Exception):  # else `clean` finds it
                remove(spark, join(self._table.location, folder))
            raise
        if counts.events == counts.bad:
            remove(spark, join(self._table.location, folder))
            self._table.commit(None, at, end)
        else:
            self._table.commit(folder, at, end, rows=counts.events - counts.bad)
        self.at = end
        return counts

    def _save_good(self, records: DataFrame, folder: str) -> None:
        self._table.save(dated(records) if DATE in self._table.partition_by else records, folder)

    def _end(self, spark: SparkSession, batch_id: int) -> dict[int, Offset]:
        """Return the end of a micro-batch, which Spark has written to its log before."""
        written = read_text(spark, join(self._checkpoint, f"offsets/{batch_id}")) or ""
        return parse_offsets(json.loads(written.splitlines()[HEADER]))


def _bad_folder(starts: Mapping[int, Offset], more: int = 0) -> str:
    """Return the name of the folder for the bad records of the micro-batch after the offsets."""
    consumer = quote(next(iter(starts.values())).consumer, safe="")
    return f"{BATCH}={consumer}-{'+'.join(map(str, starts))}-{total(starts) + more:08d}"


def clean_all(options: PipelineOptions, older_than: timedelta, *, dry_run: bool) -> Orphans:
    """Clean the table, or all tables of a folder's catalog: see `clean`."""
    tables: list[LakeTable] = table_module(options.format).find_all(options)
    if not tables:
        raise refused("to", f"there is no table at {options.to}")
    found = [clean(table, older_than, dry_run=dry_run) for table in tables]
    return Orphans(sum(each.files for each in found), sum(each.size for each in found))

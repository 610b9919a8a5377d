"""Archived events as partitions of a batch read: the option `archive`."""

from __future__ import annotations

import logging
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from pgqpy import calls, tick_ranges
from pgqpy.archive.files import read_info
from pgqpy.archive.read import ArchiveSelection, choose_files, read_batches
from pgqpy.archive.seam import join_archive
from pgqpy.archive.store import Store
from pgqpy.errors import RangeExpired
from pgqpy.spark.source import bounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from pyspark.sql.types import StructType

    from pgqpy.archive.files import ArchiveFile
    from pgqpy.archive.seam import JoinedArchive
    from pgqpy.client import Client
    from pgqpy.spark.options import Bound
    from pgqpy.tick_ranges import Queue

logger = logging.getLogger("pgqpy.spark")

FIRST_TICK = 1  # of a queue, made with it
FILE_BYTES = 128 * 1024 * 1024  # of a file in one task, about; a row group is not divided


@dataclass(kw_only=True, repr=False, eq=False)
class ArchivePartition(InputPartition):
    """A share of a file: the events after one tick, up to another, of every n-th row group."""

    location: str
    file: ArchiveFile
    wanted: ArchiveSelection
    share: tuple[int, int]  # number, of how many

    def __repr__(self) -> str:
        return f"ArchivePartition({self.file.path!r}, {self.share})"


def plan_archive(
    location: str,
    joined: JoinedArchive,
    start: int,
    end: int,
    min_partitions: int | None,
    types: tuple[str, ...] | None,
) -> list[ArchivePartition]:
    """Return the partitions of the archived events after one tick, up to another.

    No file is opened: a file is divided by its size, and where there are too few of them.
    """
    files = choose_files(joined.files, start, end)
    least = -(-(min_partitions or 1) // max(1, len(files)))
    wanted = ArchiveSelection(after=start, up_to=end, types=types)
    return [
        ArchivePartition(location=location, file=each, wanted=wanted, share=(number, shares))
        for each in files
        for shares in [max(least, -(-each.size // FILE_BYTES))]
        for number in range(shares)
    ]


def read_archive(partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the events of a partition as batches with Spark's columns and types.

    ArchiveDamaged if the file cannot be read, or has expired since the read was planned.
    """
    if not isinstance(partition, ArchivePartition):
        return  # Spark adds a partition where partitions() returned none
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    for batch in read_batches(
        Store(partition.location),
        [partition.file],
        partition.wanted,
        arrow_schema.names,
        share=partition.share,
    ):
        yield pa.RecordBatch.from_arrays(batch.columns, schema=arrow_schema)


def find_joined(
    client: Client, queue: Queue, location: str, types: Sequence[str] | None
) -> JoinedArchive:
    """Find the place where the archive ends; the server checks the types. See `join_archive`."""
    client.call(
        calls.ticks.tick_event_sql(queue.name, queue.last_tick, queue.last_tick, types=types)
    )
    return join_archive(client, Store(location), queue)


def first_of_queue(
    queue: Queue, joined: JoinedArchive, start: int, end: int, *, fail_on_data_loss: bool
) -> int:
    """Return the tick after which the queue's part of a range begins.

    RangeExpired if neither has events of the range; without `fail_on_data_loss`, log a warning.
    """
    first = max(start, joined.seam)
    if not joined.is_gap or first >= min(end, joined.first_live):
        return first
    if fail_on_data_loss:
        raise joined.lacks(queue.name)
    logger.warning(
        "%s. Passing over the events, as failOnDataLoss is false", joined.lacks(queue.name)
    )
    return joined.first_live


def resolve_bound(
    client: Client, queue: Queue, joined: JoinedArchive, bound: Bound, *, fail_on_data_loss: bool
) -> int:
    """Return the tick for a bound: by the queue, where it has the tick, else by the archive.

    Raises what `bounds.resolve_bound` raises; RangeExpired for what has expired in the archive.
    """
    if bound.kind == "earliest":
        return min(joined.first, queue.first_tick)
    tick: int | None = None
    if bound.kind == "tick" and bound.tick < min(queue.low_tick, joined.seam):
        tick = bound.tick
    elif bound.time is not None and tick_ranges.tick_at(client, queue, bound.time) is None:
        tick = _archived_tick(joined, bound.time)
    else:
        return bounds.resolve_bound(client, queue, bound, fail_on_data_loss=fail_on_data_loss)
    if tick is None or tick < joined.first:
        return _earliest_instead(queue, joined, bound, fail_on_data_loss=fail_on_data_loss)
    return tick


def _archived_tick(joined: JoinedArchive, time: datetime) -> int | None:
    """Return the last tick at or before a time, of those that footers list; None: all are later."""

    def start_time(file: ArchiveFile) -> datetime:
        return read_info(joined.store, file.path).start.time

    number = bisect_right(joined.files, time, key=start_time)
    if number == 0:
        return None
    info = read_info(joined.store, joined.files[number - 1].path)
    tick_times = [info.start, *info.ticks]
    return max(tick_time.tick for tick_time in tick_times if tick_time.time <= time)


def _earliest_instead(
    queue: Queue, joined: JoinedArchive, bound: Bound, *, fail_on_data_loss: bool
) -> int:
    if joined.first == FIRST_TICK:  # nothing has expired
        return joined.first
    problem = f"{bound.option}: the archive of queue {queue.name!r} begins at tick {joined.first}"
    if fail_on_data_loss:
        raise RangeExpired(
            f"{problem}, after this place: start at the earliest tick (startingOffsets "
            '"earliest"), or set failOnDataLoss to false',
            queue=queue.name,
            first_tick=joined.first,
            last_tick=queue.last_tick,
        )
    logger.warning("%s: starting there, as failOnDataLoss is false", problem)
    return joined.first

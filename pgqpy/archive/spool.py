"""The events of a tick range, written to a local spool as a Parquet file."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pgqpy.archive.events import read_range, text_size
from pgqpy.archive.file_format import COLUMNS, FileInfo, TickTime, to_footer
from pgqpy.tick_finder import TickFinder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pgqpy.archive.file_format import Identity
    from pgqpy.client import Client
    from pgqpy.records import Event, TickInfo

ROWS, BYTES = 10_000, 16 * 1024 * 1024  # of a row group, which memory holds: one limit suffices
LISTED = 1000  # ticks in a footer


def write_range(
    client: Client, identity: Identity, from_tick: int, to_tick: int, spool: IO[bytes]
) -> FileInfo:
    """Write the events after one tick, up to another, to a spool; return its footer.

    The transaction that reads them ends with the call: no upload holds back vacuum or rotation.

    Raises NotFound, RangeExpired, DatabaseRestored, InvalidEvent.
    """
    events = 0
    with client.transaction():
        client.connection.execute("set transaction isolation level read committed")
        ticks = client.get_tick_info(identity.queue, from_tick, to_tick)
        lists = read_range(client, identity.queue, from_tick, to_tick)
        with pq.ParquetWriter(
            spool, COLUMNS, compression="zstd", write_page_checksum=True
        ) as writer:
            for group in _groups(lists):
                writer.write_table(_to_table(group, ticks))
                events += len(group)
            info = FileInfo(
                identity, _tick_time(ticks[0]), _tick_time(ticks[-1]), events, _some(ticks)
            )
            writer.add_key_value_metadata(to_footer(info))
    return info


def _groups(lists: Iterable[list[Event]]) -> Iterator[list[Event]]:
    """Join lists of events to row groups, none of them empty."""
    group: list[Event] = []
    size = 0
    for some in lists:
        group += some
        size += sum(map(text_size, some))
        if len(group) >= ROWS or size >= BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _to_table(events: list[Event], ticks: list[TickInfo]) -> pa.Table:
    columns: list[Any] = list(zip(*events, strict=True))
    finder = TickFinder.between([(tick.tick_id, tick.tick_snapshot) for tick in ticks])
    columns.append(finder.find(columns[2]))
    arrays = [
        pa.array(column, pa.int64()).cast(field.type)  # of times: they are microseconds
        if pa.types.is_timestamp(field.type)
        else pa.array(column, field.type)
        for column, field in zip(columns, COLUMNS, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=COLUMNS)


def _tick_time(tick: TickInfo) -> TickTime:
    return TickTime(tick.tick_id, tick.tick_time)


def _some(ticks: list[TickInfo]) -> list[TickTime]:
    """Return some of the ticks, evenly spaced, with the last one."""
    step = -(-len(ticks) // LISTED)
    return [_tick_time(each) for each in ticks[::-1][::step]][::-1]

"""The events of a tick range, read in lists and written to a local spool as a Parquet file."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from psycopg import sql

from pgqpy import calls
from pgqpy.archive.files import COLUMNS, FileInfo, TickTime, to_footer
from pgqpy.calls import read, ticks
from pgqpy.records import Event
from pgqpy.tick_finder import TickFinder

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from pgqpy.archive.files import Identity
    from pgqpy.client import Client
    from pgqpy.records import TickInfo

TYPE = Event._fields.index("type")
LIST_ROWS, LIST_BYTES = 1000, 4 * 1024 * 1024  # one limit suffices; a larger event is alone

# Times as microseconds since 1970: psycopg knows no years before 1 or after 9999. PostgreSQL's
# last years and infinity do not fit 64 bits: the nearest number stands for them.
QUERY = sql.SQL("""
    declare {} no scroll cursor without hold for
    select ev_id,
           least(greatest(extract(epoch from ev_time) * 1000000, -9223372036854775808),
                 9223372036854775807)::bigint as ev_time,
           ev_txid, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
      from ({}) event order by ev_id, ev_txid""")


def read_range(
    client: Client, queue: str, from_tick: int, to_tick: int
) -> Generator[list[Event], None, None]:
    """Yield the events after one tick, up to another, by id; times are microseconds since 1970.

    Call it inside a transaction, and read to the end there. A cursor over get_tick_events would
    make the server store all rows before it sends the first one.

    Raises NotFound, RangeExpired, DatabaseRestored, InvalidEvent.
    """
    client.connection.execute("set local enable_seqscan = off; set local jit = off")
    wanted, name = ticks.events(queue, from_tick, to_tick), read.cursor_name(to_tick)
    query = sql.SQL(client.call(calls.ticks.tick_event_sql(queue, from_tick, to_tick)))
    declare = QUERY.format(sql.Identifier(name), query)
    client.runner.read(wanted, declare, prepare=False)
    size = 1
    while some := client.runner.read(wanted, read.fetch(name, size), prepare=False):
        yield some
        largest = max(map(text_size, some)) + 1
        size = max(1, min(LIST_ROWS, 4 * size, LIST_BYTES // largest))
    client.runner.close_cursor(name)


def text_size(event: Event) -> int:
    """Return the size of an event's texts, in characters."""
    texts: tuple[str | None, ...] = event[TYPE:]  # type: ignore[assignment]  # all from there on
    return sum(len(text) for text in texts if text)


GROUP_ROWS, GROUP_BYTES = 10_000, 16 * 1024 * 1024  # which memory holds: one limit suffices
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
        ticks = client.call(calls.ticks.get_tick_info(identity.queue, from_tick, to_tick))
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
        if len(group) >= GROUP_ROWS or size >= GROUP_BYTES:
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

"""The events of a tick range, read from the queue in lists that memory can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from pgqpy.calls import read, ticks
from pgqpy.records import Event

if TYPE_CHECKING:
    from collections.abc import Generator

    from pgqpy.client import Client

TYPE = Event._fields.index("type")
ROWS, BYTES = 1000, 4 * 1024 * 1024  # of a list: one limit suffices; a larger event is alone

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
    query = sql.SQL(client.tick_event_sql(queue, from_tick, to_tick))
    declare = QUERY.format(sql.Identifier(name), query)
    client.runner.read(wanted, declare, prepare=False)
    size = 1
    while some := client.runner.read(wanted, read.fetch(name, size), prepare=False):
        yield some
        largest = max(map(text_size, some)) + 1
        size = max(1, min(ROWS, 4 * size, BYTES // largest))
    client.runner.close_cursor(name)


def text_size(event: Event) -> int:
    """Return the size of an event's texts, in characters."""
    texts: tuple[str | None, ...] = event[TYPE:]  # type: ignore[assignment]  # all from there on
    return sum(len(text) for text in texts if text)

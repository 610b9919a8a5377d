"""Queries of readers of tick ranges on the tables of the schema pgq: queue, position, ticks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import sql
from psycopg.rows import tuple_row

from pgqpy.errors import QueueNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from typing_extensions import LiteralString

    from pgqpy.client import Client


class Queue(NamedTuple):
    """A queue, and the range of its ticks that can still be read."""

    name: str
    id: int
    table: str  # parent of the event tables, quoted
    low_tick: int  # rotation removed no event after this tick
    first_tick: int  # the first tick from low_tick on
    last_tick: int
    last_time: str  # of the last tick, in UTC


class Limits(NamedTuple):
    """The size limits of a range, which is at least one tick. None means no limit."""

    events: int | None = None
    ticks: int | None = None


class Position(NamedTuple):
    """The last tick, the open batch and the pinned ticks of a subscription."""

    tick: int
    batch: int | None
    pins: list[int] | None


QUEUE: LiteralString = """
    select q.queue_id, pgq.quote_fqname(q.queue_data_pfx), q.queue_low_tick,
           (select min(tick_id) from pgq.tick
             where tick_queue = q.queue_id and tick_id >= q.queue_low_tick),
           t.tick_id, t.time
      from pgq.queue q
      left join lateral (
            select tick_id,
                   to_char(tick_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as time
              from pgq.tick
             where tick_queue = q.queue_id order by tick_id desc limit 1) t on true
     where q.queue_name = %s"""

TICK_TIMES: LiteralString = """
    select tick_id, to_char(tick_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
      from pgq.tick where tick_queue = %s and tick_id = any (%s)"""

POSITION: LiteralString = """
    select pos_last_tick, pos_batch, pos_pins
      from pgq.current_position
      join pgq.queue on queue_id = sub_queue
      join pgq.consumer on co_id = sub_consumer
     where queue_name = %s and co_name = %s"""

# The last tick at or before a time: one range's end time and the next one's start time give the
# same tick.
TICK_AT: LiteralString = """
    select tick_id from pgq.tick
     where tick_queue = %s and tick_id >= %s and tick_time <= %s
     order by tick_id desc limit 1"""

ADJACENT_TICKS: LiteralString = """
    select max(tick_id) filter (where tick_id <= %(tick)s),
           min(tick_id) filter (where tick_id >= %(tick)s)
      from pgq.tick where tick_queue = %(queue)s and tick_id >= %(low)s"""

# Whole ticks, at least one. If compaction has removed the tick `most`, the next one counts.
RANGE_END: LiteralString = """
    select max(tick_id) from (
        select tick_id, tick_event_seq, row_number() over (order by tick_id) as number
          from pgq.tick
         where tick_queue = %(queue)s and tick_id > %(start)s
           and tick_id <= (select min(tick_id) from pgq.tick
                            where tick_queue = %(queue)s and tick_id >= %(most)s)
         order by tick_id
         limit %(ticks)s) t
     where number = 1 or %(events)s::bigint is null
        or tick_event_seq - %(events)s::bigint <= (
            select tick_event_seq from pgq.tick
             where tick_queue = %(queue)s and tick_id = %(start)s)"""

LOCK = sql.SQL("lock table {} in access share mode")


def find_queue(client: Client, name: str) -> Queue:
    """Return a queue.

    Raises:
        QueueNotFound: it does not exist, or has no ticks.
    """
    row = _row(client, QUEUE, (name,))
    if row is None:
        words = QueueNotFound.words.format(queue=name)
        raise QueueNotFound(f"{words}: {QueueNotFound.what_to_do}", queue=name)
    if row[4] is None:
        raise QueueNotFound(f"queue {name!r} has no ticks: start pgqpy ticker run", queue=name)
    return Queue(name, *row)


def find_queue_name(client: Client, queue_id: int) -> str:
    """Return the name of a queue; QueueNotFound if it does not exist."""
    row = _row(client, "select queue_name from pgq.queue where queue_id = %s", (queue_id,))
    if row is None:
        raise QueueNotFound(
            f"no queue has the id {queue_id} that the checkpoint names: it was dropped, "
            "or this is another database (option dsn, PGQPY_DSN)"
        )
    return str(row[0])


def find_position(client: Client, queue: str, consumer: str) -> Position | None:
    """Return the position of a subscription; None if there is none."""
    row = _row(client, POSITION, (queue, consumer))
    return None if row is None else Position(*row)


def find_tick_times(client: Client, queue_id: int, *ticks: int) -> dict[int, str]:
    """Return the times of those of the ticks that are there."""
    with client.connection.cursor(row_factory=tuple_row) as cursor:
        return dict(cursor.execute(TICK_TIMES, (queue_id, list(ticks))).fetchall())


def tick_at(client: Client, queue: Queue, time: datetime) -> int | None:
    """Return the last tick at or before a time; None if all readable ticks are later."""
    row = _row(client, TICK_AT, (queue.id, queue.low_tick, time))
    return None if row is None else int(row[0])


def adjacent_ticks(client: Client, queue: Queue, tick: int) -> tuple[int | None, int | None]:
    """Return the nearest ticks up to and from a number: both are the tick itself if it exists."""
    row = _row(client, ADJACENT_TICKS, {"queue": queue.id, "low": queue.low_tick, "tick": tick})
    return row[0], row[1]


def find_end(client: Client, queue: Queue, start: int, most: int, limits: Limits) -> int | None:
    """Return the last tick of the range after `start`; None if there is no later tick."""
    wanted = {"queue": queue.id, "start": start, "most": most, **limits._asdict()}
    end: int | None = _row(client, RANGE_END, wanted)[0]
    return end


@contextmanager
def locked_queue(client: Client, name: str) -> Iterator[Queue]:
    """Return the queue, and keep its ticks and events until the end of the block.

    A transaction that has read ticks holds back compaction. A lock on the event tables holds back
    rotation. The queue is read again after the lock, because rotation may have run in between.
    """
    with client.transaction():
        client.connection.execute("set transaction isolation level read committed")
        found = find_queue(client, name)
        client.connection.execute(LOCK.format(sql.SQL(found.table)))
        yield find_queue(client, name)


def _row(client: Client, query: LiteralString, params: Any) -> Any:
    with client.connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(query, params).fetchone()

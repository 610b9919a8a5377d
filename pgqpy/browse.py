"""Events of a queue for people: a look at them, and their number between two ticks."""

from __future__ import annotations

from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from psycopg import sql
from psycopg.rows import tuple_row

from pgqpy import calls
from pgqpy.calls import read, ticks
from pgqpy.errors import DatabaseRestored, QueueNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from typing_extensions import LiteralString

    from pgqpy import Client, Event

ALWAYS = ("-infinity", "infinity")

# A queue may have a million ticks: as a join with the queue, each look would sort them all.
TICK: LiteralString = """
    select t.tick_id, t.tick_snapshot::text, t.tick_time
      from pgq.queue q
     cross join lateral (
            select * from pgq.tick
             where tick_queue = q.queue_id and tick_id >= q.queue_low_tick and tick_id <= %s
             order by tick_id desc limit 1) t
     where q.queue_name = %s"""
FIRST_TICK: LiteralString = """
    select t.tick_id, t.tick_snapshot::text, t.tick_time
      from pgq.queue q
     cross join lateral (
            select * from pgq.tick
             where tick_queue = q.queue_id and tick_id >= q.queue_low_tick
             order by tick_id limit 1) t
     where q.queue_name = %s"""
NEWEST = 2**63 - 1  # beyond the id of every tick


class Wanted(NamedTuple):
    """Which events to show: of these types, with these extras, with a time from since to until."""

    types: Sequence[str] = ()
    extras: Mapping[str, list[str]] = MappingProxyType({})
    since: datetime | None = None
    until: datetime | None = None


class Cut(NamedTuple):
    """A tick: its id, its snapshot and its time."""

    tick_id: int
    snapshot: str
    time: datetime


ALL = Wanted()


@contextmanager
def reading(client: Client) -> Iterator[None]:
    """Keep ticks and events until the end of the block, with the settings of get_tick_events."""
    client.runner.require_pgqpy("get_tick_events")
    with client.transaction():
        client.connection.execute("set local enable_seqscan = off; set local jit = off")
        yield


def find_tick(client: Client, queue: str, up_to: int) -> Cut | None:
    """Return the last tick up to a number that can be read from."""
    return _tick(client, TICK, up_to, queue)


def find_first(client: Client, queue: str) -> Cut:
    """Return the first tick to read from; QueueNotFound or DatabaseRestored without one."""
    found = _tick(client, FIRST_TICK, queue)
    if found is None:
        if not client.get_queue_info(queue):
            raise QueueNotFound(queue=queue)
        raise DatabaseRestored(f"queue {queue!r} has no tick: pgqpy doctor says more", queue=queue)
    return found


def find_last(client: Client, queue: str) -> Cut:
    """Return the last tick; QueueNotFound or DatabaseRestored without one."""
    return find_tick(client, queue, NEWEST) or find_first(client, queue)


def _tick(client: Client, query: LiteralString, *params: object) -> Cut | None:
    with client.connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(query, params).fetchone()
    return None if row is None else Cut(*row)


def select_events(
    client: Client, queue: str, first: int, last: int, wanted: Wanted
) -> tuple[read.EventSet, sql.Composed]:
    """Return the query of the wanted events between two ticks, without an order."""
    types, extras = list(wanted.types) or None, wanted.extras or None
    text = client.call(calls.ticks.tick_event_sql(queue, first, last, types=types, extras=extras))
    query = sql.SQL("select {} from ({}) event where ev_time >= {} and ev_time < {}")
    times = (wanted.since or ALWAYS[0], wanted.until or ALWAYS[1])
    parts = (sql.SQL(read.COLUMNS), sql.SQL(text), *map(sql.Literal, times))
    return ticks.events(queue, first, last), query.format(*parts)


def _read(
    client: Client, queue: str, first: int, last: int, wanted: Wanted, order: str, limit: int
) -> list[Event]:
    events, query = select_events(client, queue, first, last, wanted)
    ordered = sql.SQL("{} order by ev_id {order}, ev_txid {order} limit {limit}").format(
        query, order=sql.SQL(order), limit=sql.Literal(limit)
    )
    return client.runner.read(events, ordered, prepare=False)


def oldest(
    client: Client,
    queue: str,
    limit: int,
    wanted: Wanted = ALL,
    after: int | None = None,
    *,
    ticks: int | None = None,
    expired: Callable[[datetime], None] = lambda _since: None,
) -> list[Event]:
    """Return the oldest wanted events, at most `limit`, of those after a tick.

    A queue may have a million ticks, and a tick a million events. So ranges are read that get
    longer until enough events are found, or `ticks` of them were read. If the queue does not keep
    its events from `wanted.since` on, `expired` is called with the time from which it does.
    """
    found: list[Event] = []
    with reading(client):
        start = find_start(client, queue, wanted, expired) if after is None else after
        _read(client, queue, start, start, wanted, "asc", 0)  # it checks the tick and the rights
        last, width = find_last(client, queue).tick_id, 1
        last = last if ticks is None else min(last, start + ticks)
        while len(found) < limit and start < last:
            end = find_tick(client, queue, start + width)
            width *= 2
            if end is not None and end.tick_id > start:
                missing = limit - len(found)
                found += _read(client, queue, start, end.tick_id, wanted, "asc", missing)
                start = end.tick_id
    return found


def newest(
    client: Client,
    queue: str,
    limit: int,
    wanted: Wanted = ALL,
    *,
    ticks: int | None = None,
    after: int | None = None,
) -> tuple[list[Event], Cut]:
    """Return the newest wanted events before the last tick, at most `limit`, and that tick.

    `ticks`: of the last so many only. `after`: only those after this tick.
    """
    found: list[Event] = []
    with reading(client):
        first, last, width = find_first(client, queue).tick_id, find_last(client, queue), 1
        end = last.tick_id
        first = first if ticks is None else max(first, end - ticks)
        first = first if after is None else max(first, after)
        _read(client, queue, end, end, wanted, "desc", 0)  # it checks the rights
        while len(found) < limit and end > first:
            start = find_tick(client, queue, max(first, end - width))
            width *= 2
            if start is not None and start.tick_id < end:
                missing = limit - len(found)
                events = _read(client, queue, start.tick_id, end, wanted, "desc", missing)
                found = [*reversed(events), *found]
                end = start.tick_id
    return found, last


def find_start(
    client: Client, queue: str, wanted: Wanted, expired: Callable[[datetime], None]
) -> int:
    """Return the tick after which all wanted events come that are still there."""
    first = find_first(client, queue)
    if wanted.since is None:
        return first.tick_id
    found = client.call(calls.ticks.get_tick_at(queue, wanted.since))
    if found is None:
        expired(first.time)
    return first.tick_id if found is None else found


MOST_LATE = 1000  # events that are counted where ids do not tell their number

# The first tick may be gone, or events after it, if the consumer was detached for long.
DISTANCE: LiteralString = """
    select first.tick_id, last.tick_id, last.tick_event_seq - first.tick_event_seq,
        case when isfinite(last.tick_time) then last.tick_time end,
        case when isfinite(first.tick_time) then last.tick_time - first.tick_time end
    from pgq.queue q
    cross join lateral (
        select * from pgq.tick
        where tick_queue = q.queue_id and tick_id >= greatest(%s, q.queue_low_tick)
        order by tick_id limit 1) first
    join pgq.tick last on last.tick_queue = q.queue_id and last.tick_id = %s
    where q.queue_name = %s and last.tick_id > first.tick_id
"""


class Distance(NamedTuple):
    """How far two ticks are apart.

    Attributes:
        events: about how many, by the ids that were used in between.
        to_time: of the later tick; None: it has no finite time.
        length: the time between the ticks.
    """

    from_tick: int
    to_tick: int
    events: int
    to_time: datetime | None
    length: timedelta | None


def measure(client: Client, queue: str, from_tick: int | None, to_tick: int) -> Distance | None:
    """Return how far a tick is behind another one; None if no events lie in between.

    `from_tick` None: from the first tick that the queue keeps. Where no ids were used, the events
    of transactions that were open at the first tick are counted, up to MOST_LATE. That needs
    pgq_reader.
    """
    with client.connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(DISTANCE, [from_tick, to_tick, queue]).fetchone()
    if row is None:
        return None
    found = Distance(*row)
    if found.events <= 0:
        found = found._replace(events=_count(client, queue, found.from_tick, found.to_tick))
    return found if found.events else None


def _count(client: Client, queue: str, first: int, last: int) -> int:
    with reading(client), client.connection.cursor(row_factory=tuple_row) as cursor:
        events = sql.SQL(client.call(calls.ticks.tick_event_sql(queue, first, last)))
        query = sql.SQL("select count(*) from (select from ({}) e limit {}) few")
        cursor.execute(query.format(events, sql.Literal(MOST_LATE)))
        ((count,),) = cursor.fetchall()
    return int(count)

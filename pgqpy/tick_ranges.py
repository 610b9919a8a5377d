"""Queries of programs that read a queue by ticks: its ticks, positions, events between ticks."""

from __future__ import annotations

from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import sql
from psycopg.rows import tuple_row

from pgqpy import calls
from pgqpy.calls import read, ticks
from pgqpy.errors import DatabaseRestored, InvalidArgument, QueueNotFound, SchemaMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import LiteralString

    from pgqpy import Client, Event


class Queue(NamedTuple):
    """A queue, and the range of its ticks that can still be read."""

    name: str
    id: int
    table: str  # parent of the event tables, quoted
    low_tick: int  # rotation removed no event after this tick
    first_tick: int  # the first tick from low_tick on
    last_tick: int
    last_time: str  # of the last tick, in UTC


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

BEGINNING: LiteralString = """
    select queue_name from pgq.queue where starts_with(queue_name, %s) order by queue_name"""

TICK_TIMES: LiteralString = """
    select tick_id, to_char(tick_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
      from pgq.tick where tick_queue = %s and tick_id = any (%s)"""

POSITION: LiteralString = """
    select pos_last_tick, pos_batch, pos_pins
      from pgq.current_position
      join pgq.queue on queue_id = sub_queue
      join pgq.consumer on co_id = sub_consumer
     where queue_name = %s and co_name = %s"""

# Infinite times, which an external ticker may give, cannot be subtracted.
ARE_APART: LiteralString = """
    select bool_or(first.tick_time + %(time)s <= last.tick_time)
      from pgq.tick first, pgq.tick last
     where first.tick_queue = %(queue)s and first.tick_id = %(first)s
       and last.tick_queue = %(queue)s and last.tick_id = %(last)s"""

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

# Event tables have no statistics: the planner would guess wrong.
READ_SETTINGS = """
    set transaction isolation level read committed;
    set local enable_seqscan = off; set local enable_bitmapscan = off;
    set local enable_sort = off; set local jit = off"""
LOCK = sql.SQL("lock table {} in access share mode")


def find_queue(client: Client, name: str) -> Queue:
    """Return a queue.

    Raises:
        QueueNotFound: it does not exist, or has no ticks.
        SchemaMissing: the schema pgq is not there, or is that of the extension pgq.
    """
    client.runner.require_pgqpy("tick_event_sql")
    row = _row(client, QUEUE, (name,))
    if row is None:
        raise queue_not_found(client, name)
    if row[4] is None:
        raise QueueNotFound(f"queue {name!r} has no ticks: start pgqpy ticker run", queue=name)
    return Queue(name, *row)


def queue_not_found(client: Client, name: str) -> QueueNotFound:
    """Return the error for a missing queue, from the server: it knows whether it was renamed."""
    try:
        client.call(calls.admin.get_rotation_info(name))
    except QueueNotFound as error:
        return error
    except (SchemaMissing, InvalidArgument):  # by the extension pgq; no name that a queue can have
        pass
    return QueueNotFound(queue=name)


def find_queues(client: Client, wanted: str) -> list[Queue]:
    """Return the queues of a list of names and beginnings: `orders`, `orders,refunds`, `shop.*`.

    A queue whose name is the whole text is the only one.

    Raises:
        What `find_queue` raises; QueueNotFound also if no queue has such a beginning.
    """
    if not has_several(wanted) or _row(client, QUEUE, (wanted,)) is not None:
        return [find_queue(client, wanted)]
    names: list[str] = []
    for each in (part.strip() for part in wanted.split(",")):
        names += _beginning(client, each.removesuffix("*")) if each.endswith("*") else [each]
    return [find_queue(client, name) for name in dict.fromkeys(names)]


def has_several(wanted: str) -> bool:
    """Return whether a text may mean several queues. One queue with just this name counts too."""
    return "," in wanted or has_pattern(wanted)


def has_pattern(wanted: str) -> bool:
    """Return whether a text has the beginning of names, `shop.*`."""
    return any(each.strip().endswith("*") for each in wanted.split(","))


def _beginning(client: Client, text: str) -> list[str]:
    with client.connection.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(BEGINNING, (text,)).fetchall()
    if not rows:
        raise QueueNotFound(f"no queue has a name that begins with {text!r}", queue=f"{text}*")
    return [name for (name,) in rows]


def find_queue_name(client: Client, queue_id: int) -> str | None:
    """Return the name of a queue; None if it does not exist."""
    row = _row(client, "select queue_name from pgq.queue where queue_id = %s", (queue_id,))
    return None if row is None else str(row[0])


def find_position(client: Client, queue: str, consumer: str) -> Position | None:
    """Return the position of a subscription; None if there is none."""
    row = _row(client, POSITION, (queue, consumer))
    return None if row is None else Position(*row)


def find_tick_times(client: Client, queue_id: int, *ticks: int) -> dict[int, str]:
    """Return the times of those of the ticks that are there."""
    with client.connection.cursor(row_factory=tuple_row) as cursor:
        return dict(cursor.execute(TICK_TIMES, (queue_id, list(ticks))).fetchall())


def are_apart(client: Client, queue: Queue, first: int, last: int, time: timedelta) -> bool:
    """Return whether so much time or more lies between two ticks."""
    params = {"queue": queue.id, "first": first, "last": last, "time": time}
    return bool(_row(client, ARE_APART, params)[0])


def tick_at(client: Client, queue: Queue, time: datetime) -> int | None:
    """Return the last tick at or before a time; None if all readable ticks are later."""
    row = _row(client, TICK_AT, (queue.id, queue.low_tick, time))
    return None if row is None else int(row[0])


def adjacent_ticks(client: Client, queue: Queue, tick: int) -> tuple[int | None, int | None]:
    """Return the nearest ticks up to and from a number: both are the tick itself if it exists."""
    row = _row(client, ADJACENT_TICKS, {"queue": queue.id, "low": queue.low_tick, "tick": tick})
    return row[0], row[1]


@contextmanager
def locked_queue(client: Client, name: str) -> Iterator[Queue]:
    """Return the queue, and keep its ticks and events until the end of the block.

    A transaction that has read ticks holds back compaction. A lock on the event tables holds back
    rotation. The queue is read again after the lock, because rotation may have run in between.
    """
    with client.transaction():
        client.connection.execute(READ_SETTINGS)
        found = find_queue(client, name)
        client.connection.execute(LOCK.format(sql.SQL(found.table)))
        yield find_queue(client, name)


def has_events(
    client: Client, queue: Queue, start: int, end: int, types: Sequence[str] | None
) -> bool:
    """Return whether a range holds an event of these types. Call it inside `locked_queue`."""
    text = client.call(calls.ticks.tick_event_sql(queue.name, start, end, types=types))
    query = sql.SQL("select exists (select from ({}) e)").format(sql.SQL(text))
    return bool(_row(client, query, None)[0])


def _row(client: Client, query: LiteralString | sql.Composed, params: Any) -> Any:
    with client.connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(query, params).fetchone()


class Snapshot(NamedTuple):
    """A txid_snapshot: it sees transactions below xmax that were not in progress."""

    xmax: int
    in_progress: frozenset[int]

    def sees(self, txid: int) -> bool:
        """Return whether a transaction had ended."""
        return txid < self.xmax and txid not in self.in_progress


def parse_snapshot(text: str) -> Snapshot:
    """Parse `xmin:xmax:xid,xid,…`."""
    _xmin, xmax, xids = text.split(":")
    return Snapshot(int(xmax), frozenset(int(xid) for xid in xids.split(",") if xid))


class TickFinder(NamedTuple):
    """Finds the first tick of a range that sees a transaction. Small enough to send to executors.

    Nearly every transaction is seen by the first tick whose xmax is above it. Transactions that
    were in progress at that tick are listed in `late`, each with its tick.
    """

    ticks: tuple[int, ...]
    xmaxs: tuple[int, ...]
    late: tuple[tuple[int, int], ...]  # (xid, tick), ordered

    @classmethod
    def between(cls, ticks: Sequence[tuple[int, str]]) -> TickFinder:
        """Make a finder from (tick_id, snapshot as text), in order, from the range's start on."""
        snapshots = [(tick, parse_snapshot(text)) for tick, text in ticks]
        return cls(
            tuple(tick for tick, _ in snapshots[1:]),
            tuple(snapshot.xmax for _, snapshot in snapshots[1:]),
            tuple(sorted(_late(snapshots))),
        )

    def find(self, txids: Any) -> NDArray[np.int64]:
        """Return the tick of each transaction; the last tick for those that no tick sees."""
        import numpy as np  # noqa: PLC0415  # queries need none: only some extras have it

        ticks = np.asarray(self.ticks, dtype=np.int64)
        wanted = np.asarray(txids, dtype=np.int64)
        places = np.searchsorted(np.asarray(self.xmaxs, dtype=np.int64), wanted, side="right")
        found = ticks[np.minimum(places, len(ticks) - 1)]
        if self.late:
            xids, seen = np.asarray(self.late, dtype=np.int64).T
            near = np.minimum(np.searchsorted(xids, wanted), len(xids) - 1)
            found = np.where(xids[near] == wanted, seen[near], found)
        return found


def _late(snapshots: Iterable[tuple[int, Snapshot]]) -> Iterable[tuple[int, int]]:
    waiting: frozenset[int] = frozenset()
    for tick, snapshot in snapshots:
        for xid in waiting - snapshot.in_progress:
            yield xid, tick
        waiting = snapshot.in_progress


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
            raise queue_not_found(client, queue)
        raise DatabaseRestored(f"queue {queue!r} has no tick: pgqpy doctor says more", queue=queue)
    return found


def find_last(client: Client, queue: str) -> Cut:
    """Return the last tick; QueueNotFound or DatabaseRestored without one."""
    return find_tick(client, queue, NEWEST) or find_first(client, queue)


def _tick(client: Client, query: LiteralString, *params: object) -> Cut | None:
    row = _row(client, query, params)
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
) -> tuple[list[Event], Cut]:
    """Return the newest wanted events before the last tick, at most `limit`, and that tick.

    `ticks`: of the last so many only.
    """
    found: list[Event] = []
    with reading(client):
        first, last, width = find_first(client, queue).tick_id, find_last(client, queue), 1
        end = last.tick_id
        first = first if ticks is None else max(first, end - ticks)
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
    row = _row(client, DISTANCE, (from_tick, to_tick, queue))
    if row is None:
        return None
    found = Distance(*row)
    if found.events <= 0:
        found = found._replace(events=_count(client, queue, found.from_tick, found.to_tick))
    return found if found.events else None


def _count(client: Client, queue: str, first: int, last: int) -> int:
    with reading(client):
        events = sql.SQL(client.call(calls.ticks.tick_event_sql(queue, first, last)))
        query = sql.SQL("select count(*) from (select from ({}) e limit {}) few")
        return int(_row(client, query.format(events, sql.Literal(MOST_LATE)), ())[0])

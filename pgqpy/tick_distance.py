"""The events between two ticks of a queue: those that a move of a consumer skips or repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from psycopg import sql
from psycopg.rows import tuple_row

from pgqpy import browse, calls

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from typing_extensions import LiteralString

    from pgqpy import Client

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
    with browse.reading(client), client.connection.cursor(row_factory=tuple_row) as cursor:
        events = sql.SQL(client.call(calls.ticks.tick_event_sql(queue, first, last)))
        query = sql.SQL("select count(*) from (select from ({}) e limit {}) few")
        cursor.execute(query.format(events, sql.Literal(MOST_LATE)))
        ((count,),) = cursor.fetchall()
    return int(count)

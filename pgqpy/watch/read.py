"""The queries of one look, each in a transaction of its own.

One transaction for all of them would hold locks on the event tables for the whole look, and a
rotation waits for such a lock for 50 ms only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from psycopg import errors
from psycopg.rows import dict_row

from pgqpy import calls, locks
from pgqpy.errors import SchemaMissing
from pgqpy.watch.snapshot import COUNTED

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from typing_extensions import LiteralString

    from pgqpy import Client
    from pgqpy.records import (
        ConsumerCounts,
        ConsumerInfo,
        DelayedCount,
        QueueInfo,
        StalledInfo,
        WorkerInfo,
    )
    from pgqpy.watch.rates import Names

    T = TypeVar("T")

# The last event id of each tick that get_queue_info or get_consumer_info returned. A tick that was
# removed since then has no row.
TICKS = """
    select wanted.queue_name, wanted.tick_id, t.tick_event_seq
    from unnest(%s::text[], %s::bigint[]) as wanted (queue_name, tick_id)
        join pgq.queue q on q.queue_name = wanted.queue_name
        cross join lateral (
            select tick_event_seq from pgq.tick
            where tick_queue = q.queue_id and tick_id = wanted.tick_id limit 1) t
"""
ROTATIONS = "select queue_name, clock_timestamp() - queue_switch_time from pgq.queue"
# Daemons hold (ENGINE, WATCHING), the active one also (ENGINE, TICKING).
TICKERS: LiteralString = f"""
    select h.object, h.pid, h.role, h.application, h.address, h.start, h.may_tick
    from ({locks.HOLDERS}) h where h.class = 7366513 and h.object in (0, 3)
    order by h.object, h.start, h.pid
"""  # noqa: S608  # our own query within our own
SKIPPED: LiteralString = f"""
    select q.queue_name from ({locks.BLOCKERS}) h join pgq.queue q on q.queue_id = h.object
    where h.class = 7366515 and h.exclusive
"""  # noqa: S608  # our own query within our own
PROCESSES: LiteralString = f"""
    select queue_name, consumer_name, count(*) from ({locks.RUNNING}) r group by 1, 2
"""  # noqa: S608  # our own query within our own
EXTENSION = "select exists (select from pg_extension where extname = 'pgq')"

UNKNOWN = (  # this role may not see it, or the schema is older, or the extension pgq
    errors.InsufficientPrivilege,
    errors.UndefinedFunction,
    errors.UndefinedTable,
    SchemaMissing,
)


class Found(NamedTuple):
    """What the queries of one look returned; None: this role may not see it."""

    queues: list[QueueInfo]
    consumers: list[ConsumerInfo]
    tick_seqs: dict[tuple[str, int], int]  # by queue and tick
    rotation_ages: dict[str, timedelta]
    counts: list[ConsumerCounts] | None
    delayed: list[DelayedCount] | None
    workers: list[WorkerInfo] | None
    processes: dict[Names, int]  # sessions of each consumer
    stalled: list[StalledInfo] | None
    tickers: list[dict[str, Any]]
    skipped: set[str]
    has_pgqd: bool  # the extension pgq, whose ticker holds no lock


def read(client: Client) -> Found:
    """Run the queries of one look. Raises the errors of the client."""
    run = client.connection.execute
    queues, consumers = client.get_queue_info(), client.get_consumer_info()
    named = {(each.queue_name, each.last_tick_id) for each in queues}
    named |= {(each.queue_name, each.last_tick) for each in consumers}
    ticks = [each for each in named if each[1] is not None]
    seqs = run(TICKS, [[name for name, _ in ticks], [tick for _, tick in ticks]]).fetchall()
    with client.connection.cursor(row_factory=dict_row) as cursor:
        tickers = cursor.execute(TICKERS).fetchall()
    ((has_pgqd,),) = run(EXTENSION).fetchall()
    return Found(
        queues=queues,
        consumers=consumers,
        tick_seqs={(name, tick): seq for name, tick, seq in seqs},
        rotation_ages=dict(run(ROTATIONS).fetchall()),
        counts=if_seen(lambda: client.call(calls.admin.get_consumer_counts(COUNTED))),
        delayed=if_seen(lambda: client.call(calls.delayed.get_delayed_counts(COUNTED))),
        workers=if_seen(lambda: client.call(calls.admin.get_worker_info())),
        processes={row[:2]: row[2] for row in run(PROCESSES).fetchall()},
        stalled=if_seen(lambda: client.call(calls.stalled.get_stalled_info())),
        tickers=tickers,
        skipped={name for (name,) in run(SKIPPED).fetchall()},
        has_pgqd=has_pgqd,
    )


def if_seen(call: Callable[[], T]) -> T | None:
    """Return the result of a call; None if this role or this schema does not have it."""
    try:
        return call()
    except UNKNOWN:
        return None

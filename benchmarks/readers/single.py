"""Queues that are consumed event by event: insert events, then return the seconds to read them."""

from __future__ import annotations

import asyncio
import time

import psycopg

from benchmarks import events
from benchmarks.figures import verify
from benchmarks.peers import pgmq, pgqueuer, procrastinate

BATCH = 100  # events a transaction where the peer lets one choose
READ = "select msg_id, message from pgmq.read(%s, 30, %s)"
ARCHIVE = "select pgmq.archive(%s, %s::bigint[])"
TAKE = """
with taken as (select ctid from event order by ev_id limit %s for update skip locked)
delete from event using taken where event.ctid = taken.ctid returning ev_id, ev_data"""
FILL = "copy event (ev_type, ev_data) from stdin"


def by_skip_locked(dsn: str, count: int) -> float:
    """Take rows of a table by SELECT … FOR UPDATE SKIP LOCKED and delete them."""
    seen = 0
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create unique index if not exists event_id on event (ev_id)")
        with connection.cursor().copy(FILL) as copy:
            for event in events.make(count):
                copy.write_row(event)
        began = time.perf_counter()
        while rows := connection.execute(TAKE, (BATCH,)).fetchall():
            for _row in rows:
                seen += 1
        took = time.perf_counter() - began
    verify("events that SKIP LOCKED saw", seen, count)
    return took


def by_pgmq(dsn: str, count: int) -> float:
    """Read and archive, BATCH at a time."""
    seen = 0
    with psycopg.connect(dsn, autocommit=True) as connection:
        data = [data for _, data in events.make(count)]
        connection.execute(pgmq.SEND_BATCH, (pgmq.QUEUE, data))
        began = time.perf_counter()
        while rows := connection.execute(READ, (pgmq.QUEUE, BATCH)).fetchall():
            for _row in rows:
                seen += 1
            connection.execute(ARCHIVE, (pgmq.QUEUE, [number for number, _ in rows]))
        took = time.perf_counter() - began
    verify("events that pgmq gave", seen, count)
    return took


def by_pgqueuer(dsn: str, count: int) -> float:
    """Drain by its queue manager."""
    data: list[bytes | None] = [data.encode() for _, data in events.make(count)]
    with pgqueuer.queries(dsn) as queries:
        queries.enqueue([pgqueuer.ENTRYPOINT] * count, data, [0] * count)
    seen, took = asyncio.run(pgqueuer.drain(dsn, BATCH))
    verify("events that pgqueuer gave", seen, count)
    return took


def by_procrastinate(dsn: str, count: int) -> float:
    """Drain by its own runner."""
    with procrastinate.task(dsn) as task:
        task.batch_defer(*procrastinate.arguments(events.make(count)))
    seen, took = asyncio.run(procrastinate.drain(dsn))
    verify("events that procrastinate gave", seen, count)
    return took

"""Lookups that several commands share: one queue, one consumer, the server's time."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from pgqpy import calls
from pgqpy.errors import ConsumerNotFound, SchemaMissing
from pgqpy.tick_ranges import queue_not_found

if TYPE_CHECKING:
    from datetime import datetime

    from pgqpy import Client
    from pgqpy.records import ConsumerInfo, QueueInfo, Registration

# Settings that get_queue_info does not return, and how far a consumer can go back. Every role may
# read both tables. PGQ's extension has neither of the columns that are read as JSON.
SETTINGS = """
    select q.queue_per_tx_limit, q.queue_disable_insert, q.queue_extra_maint,
        (j.queue ->> 'queue_retention')::interval as queue_retention,
        t.tick_id as earliest_tick,
        case when isfinite(t.tick_time) then t.tick_time end as earliest_tick_time
    from pgq.queue q
    cross join lateral (select to_jsonb(q) as queue) j
    left join lateral (
        select tick_id, tick_time from pgq.tick
        where tick_queue = q.queue_id
            and tick_id >= (j.queue ->> 'queue_low_tick')::bigint
        order by tick_id limit 1) t on true
    where q.queue_name = %s
"""


def queue_info(client: Client, name: str) -> QueueInfo:
    """Return the queue; QueueNotFound if there is none."""
    for found in client.get_queue_info(name):
        return found
    raise queue_not_found(client, name)


def queue_details(client: Client, name: str) -> dict[str, Any]:
    """Return the queue with its settings and what it keeps; QueueNotFound if there is none."""
    info = queue_info(client, name)._asdict()
    with client.connection.cursor(row_factory=dict_row) as cursor:
        info |= cursor.execute(SETTINGS, [name]).fetchone() or {}
    with suppress(SchemaMissing):  # by the extension pgq
        for found in client.call(calls.admin.get_queue_metrics(name)):
            info |= found._asdict()
        for counted in client.call(calls.produce.get_delayed_counts(None)):
            if counted.queue_name == name:
                info["delayed_events"] = counted.delayed_events
    return info


def consumer_info(client: Client, queue: str, name: str) -> ConsumerInfo:
    """Return the consumer on the queue; QueueNotFound or ConsumerNotFound if there is none."""
    queue_info(client, queue)
    for found in client.get_consumer_info(queue, name):
        return found
    raise ConsumerNotFound(queue=queue, consumer=name)


def consumers(client: Client, queue: str | None = None) -> list[ConsumerInfo]:
    """Return the consumers of one queue, or of all, without the subconsumers of pgq_coop."""
    infos = client.get_consumer_info(queue)
    try:
        names = {each[:2] for each in client.call(calls.admin.get_registrations())}
    except SchemaMissing:  # by the extension pgq
        return infos
    return [info for info in infos if info[:2] in names]


def registration(client: Client, queue: str, name: str) -> Registration:
    """Return how a consumer runs. It exists."""
    (found,) = client.call(calls.admin.get_registrations(queue, name))
    return found


def server_time(client: Client) -> datetime:
    """Return the server's clock, which the times of its rows are from."""
    ((time,),) = client.connection.execute("select pg_catalog.clock_timestamp()").fetchall()
    return time  # type: ignore[no-any-return]  # timestamptz

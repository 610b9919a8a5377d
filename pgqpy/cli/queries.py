"""Lookups that several commands share: one queue, one consumer, details of consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from pgqpy import locks
from pgqpy.errors import ConsumerNotFound, NotSupported, QueueNotFound

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg import Connection
    from typing_extensions import LiteralString

    from pgqpy import Client
    from pgqpy.records import ConsumerInfo, QueueInfo

# Settings that get_queue_info does not return; every role may read pgq.queue.
SETTINGS = """
    select queue_per_tx_limit, queue_disable_insert, queue_extra_maint
    from pgq.queue where queue_name = %s
"""

# The attempt counts the deaths that begin_run and take_part noted: each narrows the parts of the
# batch to 1,000, 30 and 1 events, and at 1 event pos_tries counts.
WORKERS: LiteralString = f"""
    select q.queue_name, parent_name.co_name as consumer_name,
        substr(c.co_name, length(parent_name.co_name) + 2) as worker, p.pos_batch as batch,
        p.pos_last_tick as last_tick, p.pos_next_tick as next_tick,
        case when p.pos_batch is not null then 1 + coalesce(p.pos_tries, 0)
            + case p.pos_part when 1000 then 1 when 30 then 2 when 1 then 3 else 0 end
            end as attempt,
        now() - p.pos_active as last_seen, r.pid, r.host, r.application
    from pgq.current_position p
        join pgq.queue q on q.queue_id = p.sub_queue
        join pgq.consumer c on c.co_id = p.sub_consumer
        join pgq.registration parent on parent.sub_id = p.sub_parent
        join pgq.consumer parent_name on parent_name.co_id = parent.sub_consumer
        left join ({locks.RUNNING}) r
            on r.queue_name = q.queue_name and r.consumer_name = c.co_name
    where not starts_with(c.co_name, parent_name.co_name || '.receive-')
    order by 1, 2, length(c.co_name), c.co_name
"""  # noqa: S608  # our own query within our own
# What receive keeps in subconsumers of its own. A range without a lease is what was left over.
LEASES: LiteralString = """
    select q.queue_name, parent_name.co_name as consumer_name, p.pos_batch as batch,
        p.pos_last_tick as last_tick, p.pos_next_tick as next_tick,
        cardinality(p.pos_ids) as messages,
        case when isfinite(p.pos_until) then 1 + coalesce(p.pos_tries, 0) end as attempt,
        case when isfinite(p.pos_until) then p.pos_until - now() end as ends_in
    from pgq.current_position p
        join pgq.queue q on q.queue_id = p.sub_queue
        join pgq.consumer c on c.co_id = p.sub_consumer
        join pgq.registration parent on parent.sub_id = p.sub_parent
        join pgq.consumer parent_name on parent_name.co_id = parent.sub_consumer
    where p.pos_batch is not null and starts_with(c.co_name, parent_name.co_name || '.receive-')
    order by 1, 2, p.pos_batch
"""
SUBCONSUMERS = """
    select q.queue_name, c.co_name
    from pgq.registration r join pgq.queue q on q.queue_id = r.sub_queue
        join pgq.consumer c on c.co_id = r.sub_consumer
    where r.sub_parent is not null
"""
MODES = """
    select q.queue_name, c.co_name as consumer_name, r.sub_mode as mode,
        case when p.pos_part is not null then format(
            'parts of %s%s', p.pos_part, ', died ' || p.pos_tries || ' time(s)') end as careful
    from pgq.registration r join pgq.current_position p on p.sub_id = r.sub_id
        join pgq.queue q on q.queue_id = r.sub_queue
        join pgq.consumer c on c.co_id = r.sub_consumer
"""


def queue_info(client: Client, name: str) -> QueueInfo:
    """Return the queue; QueueNotFound if there is none."""
    for found in client.get_queue_info(name):
        return found
    raise QueueNotFound(QueueNotFound.words.format(queue=name), queue=name)


def queue_details(client: Client, name: str) -> dict[str, Any]:
    """Return the queue with all its settings; QueueNotFound if there is none."""
    info = queue_info(client, name)._asdict()
    with client.connection.cursor(row_factory=dict_row) as cursor:
        return info | (cursor.execute(SETTINGS, [name]).fetchone() or {})


def consumer_info(client: Client, queue: str, name: str) -> ConsumerInfo:
    """Return the consumer on the queue; QueueNotFound or ConsumerNotFound if there is none."""
    queue_info(client, queue)
    for found in client.get_consumer_info(queue, name):
        return found
    raise ConsumerNotFound(
        ConsumerNotFound.words.format(queue=queue, consumer=name), queue=queue, consumer=name
    )


def server_time(client: Client) -> datetime:
    """Return the server's clock, which the times of its rows are from."""
    ((time,),) = client.connection.execute("select pg_catalog.clock_timestamp()").fetchall()
    return time  # type: ignore[no-any-return]  # timestamptz


def with_details(client: Client, infos: list[ConsumerInfo]) -> list[dict[str, Any]]:
    """Add to each consumer counts, its modes, the session that runs it, its workers and leases."""
    counts = _counts(client)
    runs = _by_consumer(client.connection, locks.RUNNING)
    modes, workers, leases = {}, {}, {}
    if counts is not None:
        modes = _by_consumer(client.connection, MODES)
        workers = _by_consumer(client.connection, WORKERS)
        leases = _by_consumer(client.connection, LEASES)

    def row(info: ConsumerInfo) -> dict[str, Any]:
        key = (info.queue_name, info.consumer_name)
        retry, dead = (counts or {}).get(key, (None, None))
        (known,) = modes.get(key, [{"mode": None, "careful": None}])
        mine = workers.get(key, [])
        session = None if mine else next(iter(runs.get(key, [])), None)
        more = {"retry_events": retry, "dead_events": dead, **known}
        held = {"workers": mine, "leases": leases.get(key, [])}
        return {**info._asdict(), **more, "runs": session, **held}

    return [row(info) for info in infos]


def without_subconsumers(client: Client, infos: list[ConsumerInfo]) -> list[ConsumerInfo]:
    """Leave subconsumers out: they are workers and leases of their consumers."""
    if client.runner.is_extension():
        return infos
    names = set(client.connection.execute(SUBCONSUMERS).fetchall())
    return [info for info in infos if (info.queue_name, info.consumer_name) not in names]


def _counts(client: Client) -> dict[tuple[str, str], tuple[int, int]] | None:
    try:
        counted = client.get_consumer_counts(None)
    except NotSupported:  # PGQ's extension keeps no dead events
        return None
    return {
        (each.queue_name, each.consumer_name): (each.retry_events, each.dead_events)
        for each in counted
    }


def _by_consumer(
    connection: Connection[Any], query: LiteralString
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the rows of each consumer; fields hidden from this role are None."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    with connection.cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute(query):
            found.setdefault((row.pop("queue_name"), row.pop("consumer_name")), []).append(row)
    return found

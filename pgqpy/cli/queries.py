"""What the commands read from the tables, beside the functions of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import errors
from psycopg.rows import dict_row, tuple_row

from pgqpy.doctor.running import SESSIONS
from pgqpy.errors import ConsumerNotFound, QueueNotFound

if TYPE_CHECKING:
    from psycopg import Connection
    from typing_extensions import LiteralString

    from pgqpy import Client
    from pgqpy.records import ConsumerInfo, QueueInfo

# What PGQ's get_queue_info leaves out; every role may read pgq.queue.
SETTINGS: LiteralString = """
    select queue_per_tx_limit, queue_disable_insert, queue_extra_maint
    from pgq.queue where queue_name = %s
"""

RETRY: LiteralString = """
    select q.queue_name, c.co_name, count(*) as events
    from pgq.retry_queue r join pgq.subscription s on s.sub_id = r.ev_owner
        join pgq.queue q on q.queue_id = s.sub_queue
        join pgq.consumer c on c.co_id = s.sub_consumer
    where q.queue_name = coalesce(%s, q.queue_name) and c.co_name = coalesce(%s, c.co_name)
    group by 1, 2
"""

DEAD: LiteralString = """
    select q.queue_name, c.co_name, count(*) as events
    from pgq.dead_event d join pgq.registration s on s.sub_id = d.ev_owner
        join pgq.queue q on q.queue_id = s.sub_queue
        join pgq.consumer c on c.co_id = s.sub_consumer
    where q.queue_name = coalesce(%s, q.queue_name) and c.co_name = coalesce(%s, c.co_name)
    group by 1, 2
"""


def queue_info(client: Client, name: str) -> QueueInfo:
    """Return the one queue of this name; QueueNotFound if there is none."""
    for found in client.get_queue_info(name):
        return found
    msg = f"no queue has the name {name!r}"
    raise QueueNotFound(msg, queue=name)


def consumer_info(client: Client, queue: str, name: str) -> ConsumerInfo:
    """Return the one subscription; QueueNotFound or ConsumerNotFound if there is none."""
    queue_info(client, queue)
    for found in client.get_consumer_info(queue, name):
        return found
    msg = f"consumer {name!r} is not registered on queue {queue!r}"
    raise ConsumerNotFound(msg, queue=queue, consumer=name)


def one(connection: Connection[Any], query: LiteralString, params: list[Any]) -> dict[str, Any]:
    """Return the first row by column names; empty if there is none."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, params).fetchone() or {}


def with_details(
    connection: Connection[Any], infos: list[ConsumerInfo], queue: str | None, name: str | None
) -> list[dict[str, Any]]:
    """Add to each consumer its retry and dead events, counted, and the session that runs it."""
    runs = _sessions(connection)
    retry = _counts_if_allowed(connection, RETRY, [queue, name])
    dead = _counts_if_allowed(connection, DEAD, [queue, name])

    def row(info: ConsumerInfo) -> dict[str, Any]:
        key = (info.queue_name, info.consumer_name)
        set_aside = {
            "retry_events": None if retry is None else retry.get(key, 0),
            "dead_events": None if dead is None else dead.get(key, 0),
        }
        return {**info._asdict(), **set_aside, "runs": runs.get(key)}

    return [row(info) for info in infos]


def _sessions(connection: Connection[Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return who runs which consumer; host and application are None where this role may not see."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(SESSIONS).fetchall()
    return {
        (queue, consumer): {"pid": pid, "host": host, "application": application}
        for queue, consumer, pid, application, host in rows
    }


def _counts_if_allowed(
    connection: Connection[Any], query: LiteralString, params: list[Any]
) -> dict[tuple[str, str], int] | None:
    """Count by queue and consumer; None where this role or this engine does not have the table."""
    try:
        with connection.cursor(row_factory=tuple_row) as cursor:
            rows = cursor.execute(query, params).fetchall()
    except (errors.InsufficientPrivilege, errors.UndefinedTable, errors.UndefinedColumn):
        return None
    return {(queue, name): count for queue, name, count in rows}

"""What the commands read from the tables, beside the functions of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import errors
from psycopg.rows import dict_row

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

SET_ASIDE: LiteralString = """
    select (select count(*) from pgq.retry_queue where ev_owner = s.sub_id) as retry_events
    from pgq.subscription s join pgq.queue q on q.queue_id = s.sub_queue
        join pgq.consumer c on c.co_id = s.sub_consumer
    where q.queue_name = %s and c.co_name = %s
"""


DEAD: LiteralString = """
    select count(*) as dead_events
    from pgq.dead_event d join pgq.registration s on s.sub_id = d.ev_owner
        join pgq.queue q on q.queue_id = s.sub_queue
        join pgq.consumer c on c.co_id = s.sub_consumer
    where q.queue_name = %s and c.co_name = %s
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


def one_if_allowed(
    connection: Connection[Any], query: LiteralString, params: list[Any]
) -> dict[str, Any]:
    """Return what `one` does, or nothing where this role or this engine does not have it."""
    try:
        return one(connection, query, params)
    except (errors.InsufficientPrivilege, errors.UndefinedTable, errors.UndefinedColumn):
        return {}

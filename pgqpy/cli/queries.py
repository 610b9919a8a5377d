"""Lookups that several commands share: one queue, one consumer, details of consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from pgqpy import locks
from pgqpy.errors import ConsumerNotFound, NotSupported, QueueNotFound

if TYPE_CHECKING:
    from psycopg import Connection

    from pgqpy import Client
    from pgqpy.records import ConsumerInfo, QueueInfo

# Settings that get_queue_info does not return; every role may read pgq.queue.
SETTINGS = """
    select queue_per_tx_limit, queue_disable_insert, queue_extra_maint
    from pgq.queue where queue_name = %s
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


def with_details(client: Client, infos: list[ConsumerInfo]) -> list[dict[str, Any]]:
    """Add to each consumer the counts of retry and dead events and the session that runs it."""
    runs, counts = _sessions(client.connection), _counts(client)

    def row(info: ConsumerInfo) -> dict[str, Any]:
        key = (info.queue_name, info.consumer_name)
        retry, dead = counts.get(key, (None, None))
        more = {"retry_events": retry, "dead_events": dead, "runs": runs.get(key)}
        return {**info._asdict(), **more}

    return [row(info) for info in infos]


def _counts(client: Client) -> dict[tuple[str, str], tuple[int, int]]:
    try:
        counted = client.get_consumer_counts(None)
    except NotSupported:  # PGQ's extension keeps no dead events
        return {}
    return {
        (each.queue_name, each.consumer_name): (each.retry_events, each.dead_events)
        for each in counted
    }


def _sessions(connection: Connection[Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the session that runs each consumer; fields hidden from this role are None."""
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(locks.RUNNING).fetchall()
    return {(row.pop("queue_name"), row.pop("consumer_name")): row for row in rows}

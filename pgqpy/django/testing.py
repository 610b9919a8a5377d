"""What a test emitted, for TestCase and TransactionTestCase."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connections
from psycopg import sql

from pgqpy.django.database import alias_of, client_of
from pgqpy.testing import event_tables, inserted_events

if TYPE_CHECKING:
    from pgqpy import Client, Event


FORGET = """
    with q as (select queue_id from pgq.queue where queue_name = %s),
         keys as (delete from pgq.dedup_key using q where dedup_queue = queue_id)
    delete from pgq.delayed_event using q where ev_queue = queue_id"""


def emitted(queue: str, type: str | None = None, *, using: str | None = None) -> list[Event]:
    """Return the events of a queue, or those of a type, that the test's transaction sees.

    Those that are not committed yet, and delayed ones, are among them.
    """
    events = inserted_events(client_of(alias_of(using)), queue)
    return [event for event in events if type in (None, event.type)]


class EventTestMixin:
    """For TestCase, and TransactionTestCase, where each test begins with empty queues."""

    def setUp(self) -> None:
        """Empty the queues, unless the test is in a transaction, which is rolled back."""
        super().setUp()  # type: ignore[misc]  # of the TestCase
        alias = alias_of()
        if not connections[alias].in_atomic_block:
            _empty(client_of(alias))

    def assertEmits(self, queue: str, type: str, count: int = 1) -> list[Event]:  # noqa: N802  # unittest's style
        """Fail unless so many events of the type are in the queue; return them."""
        found = emitted(queue)
        chosen = [event for event in found if event.type == type]
        if len(chosen) != count:
            types = ", ".join(str(event.type) for event in found) or "none"
            text = f"events of type {type!r} in queue {queue!r}; it has: {types}"
            raise AssertionError(f"{len(chosen)} in place of {count} {text}")
        return chosen


def _empty(client: Client) -> None:
    """Remove all events, also those that wait for a consumer."""
    for info in client.get_queue_info():
        queue = info.queue_name
        client.tick_queue(queue)
        for consumer in client.get_consumer_info(queue):
            client.seek_consumer(queue, consumer.consumer_name, "end", discard=True)
            client.delete_dead_events(queue, consumer.consumer_name)
        client.connection.execute(sql.SQL("truncate {}").format(event_tables(client, queue)[1]))
        client.connection.execute(FORGET, [queue])

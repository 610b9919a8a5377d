"""An event that PostgreSQL cannot send ends reading: a new connection is no help.

A row of more than 1 GB does not fit into a message. The server keeps such an event compressed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

import pgqpy
from pgqpy.errors import InvalidEvent
from tests.consumers.harness import QUEUE, Maker, Queue
from tests.support.databases import QUEUE_IS_NEW, new_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.records import Event
    from tests.support.servers import Server

pytestmark = pytest.mark.slow  # each read takes 2 seconds and 1.6 GB of memory

SIZE = 540_000_000  # octets of each of two fields, compressed 7 MB

# insert_event refuses such an event; an INSERT copies compressed fields as they are.
INSERT_LARGE = """
    insert into pgq.event_1_0 (ev_id, ev_type, ev_data, ev_extra1)
    select nextval('pgq.event_1_id_seq'), 'test', content, content from large returning ev_id"""


@pytest.fixture(scope="module")
def large_dsn(server: Server, orders_template: str) -> Iterator[str]:
    """A database with a queue, and a table with a text of 540 MB."""
    with new_database(server, orders_template) as name:
        with psycopg.connect(server.dsn(name), autocommit=True) as connection:
            connection.execute(QUEUE_IS_NEW)
            connection.execute("create table large (content text)")
            connection.execute("insert into large values (repeat('x', %s))", [SIZE])
        yield server.dsn(name)


@pytest.fixture
def queue(large_dsn: str) -> Iterator[Queue]:
    """The queue, with nothing to read."""
    with pgqpy.connect(large_dsn) as client:
        yield Queue(client, made=True)


def insert_large(queue: Queue) -> int:
    """Insert a batch of three events, the second too large; return its id."""
    queue.client.insert_event(QUEUE, "test", "before")
    row = queue.client.connection.execute(INSERT_LARGE).fetchone()
    queue.insert("after")
    assert row is not None
    return int(row[0])


def delete(queue: Queue, event_id: int) -> None:
    queue.client.connection.execute("delete from pgq.event_1 where ev_id = %s", [event_id])


@pytest.mark.parametrize(
    ("asynchronous", "settings"),
    [
        (False, {}),
        (True, {"part_size": 1}),
        (True, {"transactional": True, "part_size": 1}),
    ],
    ids=["plain", "parts", "transactional"],
)
def test_an_event_that_is_too_large_ends_run_until_it_is_deleted(
    large_dsn: str, queue: Queue, asynchronous: bool, settings: dict[str, int]
) -> None:
    seen = []

    def handler(event: Event) -> Iterator[object]:
        seen.append(event.data)
        return iter(())

    event_id = insert_large(queue)
    maker = Maker(large_dsn, asynchronous=asynchronous)
    with pytest.raises(InvalidEvent, match="is too large to be sent"):
        maker.start(handler, **settings).join()
    delete(queue, event_id)
    running = maker.start(handler, **settings)
    queue.wait_until_finished()
    running.stop()
    assert seen[-1] == "after"
    assert set(seen) == {"before", "after"}

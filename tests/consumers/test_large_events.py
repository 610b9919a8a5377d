"""An event that PostgreSQL cannot send ends reading: a new connection is no help.

A row of more than 1 GB does not fit into a message. The server keeps such an event compressed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgqpy.errors import InvalidEvent
from tests.consumers.harness import QUEUE, Maker, Queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.records import Event

pytestmark = pytest.mark.slow  # each read takes 2 seconds and 1.6 GB of memory

SIZE = 540_000_000  # octets of each of two fields, compressed 7 MB

# insert_event refuses such an event; an INSERT copies compressed fields as they are.
INSERT_LARGE = """
    insert into pgq.event_1_0 (ev_id, ev_type, ev_data, ev_extra1)
    select nextval('pgq.event_1_id_seq'), 'test', content, content from large returning ev_id"""


def insert_large(queue: Queue) -> int:
    """Insert a batch of three events, the second too large; return its id."""
    execute = queue.client.connection.execute
    execute("create table large (content text)")
    execute("insert into large values (repeat('x', %s))", [SIZE])
    queue.client.insert_event(QUEUE, "test", "before")
    row = execute(INSERT_LARGE).fetchone()
    queue.insert("after")
    assert row is not None
    return int(row[0])


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
    dsn: str, queue: Queue, asynchronous: bool, settings: dict[str, int]
) -> None:
    seen = []

    def handler(event: Event) -> Iterator[object]:
        seen.append(event.data)
        return iter(())

    event_id = insert_large(queue)
    maker = Maker(dsn, asynchronous=asynchronous)
    with pytest.raises(InvalidEvent, match="is too large to be sent"):
        maker.start(handler, **settings).join()
    queue.client.connection.execute("delete from pgq.event_1 where ev_id = %s", [event_id])
    running = maker.start(handler, **settings)
    queue.wait_until_finished()
    running.stop()
    assert seen[-1] == "after"
    assert set(seen) == {"before", "after"}

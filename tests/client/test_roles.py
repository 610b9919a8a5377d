"""What each role may do through the client, and that it may do all of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pgqpy import Client, calls

if TYPE_CHECKING:
    from collections.abc import Callable

ENABLE = b"""
    do $$ begin
        execute format('alter table %s enable row level security',
            (select queue_data_pfx from pgq.queue));
    end $$"""


@pytest.fixture
def acting(queue: Client, connect: Callable[..., Any]) -> Callable[[str], Client]:
    """Return a client that has no more rights than a role."""

    def act(role: str) -> Client:
        connection = connect()
        connection.execute(f"set role {role}")
        return Client(connection)

    return act


def test_writer_inserts_and_loads(acting: Callable[[str], Client], inserted: Any) -> None:
    writer = acting("pgq_writer")
    writer.insert_event("orders", "t", "1")
    assert writer.insert_events("orders", [("t", "2"), ("t", "3")]) == 2
    assert [row[1] for row in inserted()] == ["1", "2", "3"]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        writer.next_batch("orders", "billing")


def test_reader_consumes_by_every_way(acting: Callable[[str], Client], queue: Client) -> None:
    queue.insert_events("orders", [("t", str(i)) for i in range(20)])
    queue.tick_queue("orders")
    reader = acting("pgq_reader")
    assert reader.register_consumer("orders", "mine") == 1
    batch = reader.next_batch("orders", "billing")
    assert batch is not None
    events = list(reader.get_batch_events(batch))
    assert list(reader.get_batch_events(batch, fetch_size=3)) == events
    with reader.transaction():
        assert list(reader.get_batch_events(batch, fetch_size=3)) == events
    assert reader.event_retry(batch, events[0], 1) == 1
    assert reader.call(calls.consume.event_retry_many(batch, [(events[1], 1)])) == 1
    assert reader.event_dead(batch, [(events[2], "why")]) == 1
    assert reader.get_dead_events("orders", "billing")
    reader.finish_batch(batch)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.insert_event("orders", "t", "d")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.insert_events("orders", [("t", "d")])


def test_row_security_that_is_switched_on_while_a_batch_is_opened_hides_no_event(
    acting: Callable[[str], Client], queue: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.insert_events("orders", [("t", str(i)) for i in range(20)])
    queue.tick_queue("orders")
    reader = acting("pgq_reader")
    batch = reader.next_batch("orders", "billing")
    assert batch is not None
    assert len(list(reader.get_batch_events(batch))) == 20, "the next read locks no table"
    declare = calls.read.declare_held

    def declare_later(name: str, query: str) -> Any:
        queue.connection.execute(ENABLE)
        return declare(name, query)

    monkeypatch.setattr(calls.read, "declare_held", declare_later)
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        list(reader.get_batch_events(batch, fetch_size=10))

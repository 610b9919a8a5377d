"""Client(connection) works inside what the application has, and changes nothing about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import pq
from psycopg.rows import dict_row

import pgqpy
from pgqpy import AsyncClient, Client, InvalidEvent, QueueNotFound, calls

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE, INTRANS = pq.TransactionStatus.IDLE, pq.TransactionStatus.INTRANS


def each_kind_of_call(client: Client) -> None:
    """Use every way the client talks to the server."""
    client.insert_event("orders", "t", "1")
    client.insert_events("orders", [("t", "2"), ("t", "3")])
    with pytest.raises(InvalidEvent):
        client.insert_events("orders", [("t", "2"), ("t", "\0")])
    client.get_queue_info()
    client.call(calls.admin.schema_version())


@pytest.fixture
def rider(queue: pgqpy.Client, connect: Callable[..., Any]) -> Client:
    """A client on a connection that the application holds in a transaction, with a queue there."""
    return Client(connect(autocommit=False))


def test_nothing_is_visible_before_the_application_commits(rider: Client, inserted: Any) -> None:
    each_kind_of_call(rider)
    assert inserted() == []
    assert rider.connection.info.transaction_status == INTRANS
    rider.connection.commit()
    assert [row[1] for row in inserted()] == ["1", "2", "3"]


def test_bulk_load_alone_does_not_commit_either(rider: Client, inserted: Any) -> None:
    """The transaction() of psycopg would, on a connection that is idle and not in autocommit."""
    assert rider.connection.info.transaction_status == IDLE
    rider.insert_events("orders", [("t", "d")])
    assert rider.connection.info.transaction_status == INTRANS
    rider.connection.rollback()
    assert inserted() == []


def test_savepoint_of_the_application_is_kept(rider: Client, inserted: Any) -> None:
    connection = rider.connection
    rider.insert_event("orders", "t", "kept")
    with connection.transaction():
        rider.insert_event("orders", "t", "kept too")
    with connection.transaction() as inner:
        each_kind_of_call(rider)
        raise psycopg.Rollback(inner)
    connection.commit()
    assert [row[1] for row in inserted()] == ["kept", "kept too"]


def test_error_leaves_the_application_to_roll_back(rider: Client) -> None:
    with pytest.raises(QueueNotFound):
        rider.insert_event("nope", "t", "d")
    assert rider.connection.info.transaction_status == pq.TransactionStatus.INERROR
    rider.connection.rollback()
    assert rider.insert_event("orders", "t", "d")


def test_settings_of_the_connection_stay(queue: pgqpy.Client, connect: Callable[..., Any]) -> None:
    connection = connect(autocommit=True, row_factory=dict_row, cursor_factory=psycopg.ClientCursor)
    connection.execute("set datestyle = 'SQL, DMY'; set intervalstyle = 'sql_standard'")
    connection.execute("set timezone = 'Asia/Kathmandu'")
    before = (connection.row_factory, connection.cursor_factory, connection.autocommit)
    client = Client(connection)
    each_kind_of_call(client)
    client.tick_queue("orders")
    batch = client.next_batch("orders", "billing")
    assert batch is not None
    assert [event.data for event in client.get_batch_events(batch, fetch_size=2)] == list("123")
    (info,) = client.get_consumer_info("orders")
    assert info.last_seen.total_seconds() >= 0
    assert batch.tick_time.tzinfo is not None
    client.finish_batch(batch)
    after = (connection.row_factory, connection.cursor_factory, connection.autocommit)
    assert after == before
    assert connection.execute("show datestyle").fetchone() == {"DateStyle": "SQL, DMY"}


@pytest.mark.parametrize("factory", [psycopg.RawCursor, psycopg.ClientCursor])
def test_cursor_of_the_application_is_not_used(
    queue: pgqpy.Client, connect: Callable[..., Any], factory: Any
) -> None:
    each_kind_of_call(Client(connect(cursor_factory=factory)))


def test_connection_of_the_application_is_not_closed(connect: Callable[..., Any]) -> None:
    connection = connect()
    with Client(connection) as client:
        client.get_queue_info()
    client.close()
    assert not connection.closed


def test_batch_is_processed_in_the_transaction_that_finishes_it(
    rider: Client, queue: pgqpy.Client
) -> None:
    """G9: what the handler does and finish_batch commit together, or not at all."""
    queue.insert_events("orders", [("t", str(i)) for i in range(10)])
    queue.tick_queue("orders")
    connection = rider.connection
    connection.execute("create table effect (event_id bigint primary key)")
    connection.commit()

    def process() -> None:
        batch = rider.next_batch("orders", "billing")
        assert batch is not None
        for event in rider.get_batch_events(batch, fetch_size=3):
            connection.execute("insert into effect values (%s)", [event.id])
        rider.finish_batch(batch)

    process()
    connection.rollback()
    process()
    connection.commit()
    assert connection.execute("select count(*) from effect").fetchone() == (10,)
    assert rider.next_batch("orders", "billing") is None


async def test_async_client_rides_too(queue: pgqpy.Client, dsn: str, inserted: Any) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, row_factory=dict_row) as connection:
        client = AsyncClient(connection)
        await client.insert_event("orders", "t", "1")
        await client.insert_events("orders", [("t", "2")])
        await connection.rollback()
        assert inserted() == []
        await client.insert_events("orders", [("t", "3")])
        await connection.commit()
        assert [row[1] for row in inserted()] == ["3"]
        await client.close()
        assert not connection.closed

"""client.transaction(): what it commits, and what it says when it commits nothing."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import OperationalError, Rollback
from psycopg.errors import InFailedSqlTransaction
from psycopg.transaction import OutOfOrderTransactionNesting

import pgqpy
from pgqpy import QueueNotFound
from tests.client.conftest import open_batch

if TYPE_CHECKING:
    from collections.abc import Callable

END = "select pg_catalog.pg_terminate_backend(%s, 60000)"


async def test_an_error_that_is_caught_in_a_transaction_is_raised_at_its_end(
    orders: Any, inserted: Any
) -> None:
    """PostgreSQL answers COMMIT with ROLLBACK, and psycopg's own transaction() says nothing."""
    with pytest.raises(InFailedSqlTransaction, match="of its own"):
        async with orders.transaction():
            await orders.insert_event("orders", "lost", "1")
            with suppress(QueueNotFound):
                await orders.insert_event("nowhere", "lost", "2")
    assert inserted() == []


async def test_an_error_that_is_caught_outside_of_a_savepoint_undoes_only_that(
    orders: Any, inserted: Any
) -> None:
    async with orders.transaction():
        await orders.insert_event("orders", "kept", "1")
        with suppress(QueueNotFound):
            async with orders.transaction():
                await orders.insert_event("orders", "lost", "2")
                await orders.insert_event("nowhere", "lost", "3")
    assert [event[:2] for event in inserted()] == [("kept", "1")]


async def test_a_transaction_that_is_to_roll_back_raises_nothing(
    orders: Any, inserted: Any
) -> None:
    async with orders.transaction() as transaction:
        transaction.force_rollback = True
        with suppress(QueueNotFound):
            await orders.insert_event("nowhere", "lost", "2")
    async with orders.transaction():
        await orders.insert_event("orders", "lost", "1")
        raise Rollback
    assert inserted() == []


@pytest.mark.parametrize("commits", [False, True])
def test_outside_of_autocommit_the_application_commits(
    dsn: str, new_orders: str, inserted: Callable[[], list[Any]], commits: bool
) -> None:
    """It is a savepoint, also as the first thing in the application's transaction."""
    with psycopg.connect(dsn) as connection:
        client = pgqpy.Client(connection)
        with client.transaction():
            client.insert_event(new_orders, "first", "1")
        assert inserted() == []
        if not commits:
            connection.rollback()
    assert len(inserted()) == commits


def test_outside_of_autocommit_it_takes_no_transaction_id(dsn: str, new_orders: str) -> None:
    """A standby gives none."""
    with psycopg.connect(dsn) as connection:
        client = pgqpy.Client(connection)
        with client.transaction():
            client.get_queue_info(new_orders)
            query = "select pg_catalog.txid_current_if_assigned()"
            assert connection.execute(query).fetchone() == (None,)


async def test_a_connection_that_is_lost_in_a_transaction_is_told_at_its_end(
    orders: Any, inserted: Callable[[], list[Any]], connection: psycopg.Connection[Any]
) -> None:
    with pytest.raises(OperationalError, match="nothing of it is committed"):
        async with orders.transaction():
            await orders.insert_event("orders", "lost", "1")
            connection.execute(END, [orders.connection.info.backend_pid])
            with suppress(psycopg.Error):
                await orders.insert_event("orders", "lost", "2")
    assert inserted() == []


class Pool:
    """A pool of psycopg_pool, as psycopg sees it: close() of a connection calls putconn."""

    close_returns = True

    def putconn(self, connection: Any) -> None:
        raise ValueError(f"{connection} is in use")


@pytest.mark.parametrize("pool", [None, Pool()], ids=["alone", "pool"])
async def test_transactions_that_cross_leave_none_open(
    orders: Any, inserted: Callable[[], list[Any]], pool: Pool | None
) -> None:
    """Each of two threads has one: later calls would return, and commit nothing.

    The next borrower of a pool would share the connection.
    """
    orders.connection._pool = pool
    first, second = orders.transaction(), orders.transaction()
    await first.__aenter__()
    await second.__aenter__()
    await orders.insert_event("orders", "lost", "1")
    with pytest.raises(OutOfOrderTransactionNesting):
        await first.__aexit__(None, None, None)
    with pytest.raises(OperationalError, match="nothing of it is committed"):
        await second.__aexit__(None, None, None)
    assert orders.connection.closed
    with pytest.raises(OperationalError, match="closed"):
        await orders.insert_event("orders", "lost", "2")
    assert inserted() == []


async def test_task_left_of_a_rollback_inserts_over_a_client_that_it_makes_later(
    dsn: str, new_orders: str, inserted: Callable[[], list[Any]]
) -> None:
    """A pool gives the connection of the block to it, as to others."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        ended = asyncio.Event()

        async def insert() -> None:
            await ended.wait()
            await pgqpy.AsyncClient(connection).insert_event(new_orders, "later", None)

        async with pgqpy.AsyncClient(connection).transaction() as transaction:
            transaction.force_rollback = True
            task = asyncio.create_task(insert())
        ended.set()
        await task
    assert len(inserted()) == 1


async def test_a_reader_that_is_closed_late_fails_no_transaction(
    dsn: str, queue: pgqpy.Client, inserted: Callable[[], list[Any]]
) -> None:
    """The event loop closes it, at any turn: a rollback may have taken its cursor by then."""
    batch = open_batch(queue, *[("read", str(number)) for number in range(10)])
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        client = pgqpy.AsyncClient(connection)
        for turns in range(12):
            await client.insert_event("orders", "kept", str(turns))
            with suppress(ZeroDivisionError):
                async with client.transaction():
                    async for _ in client.get_batch_events(batch, fetch_size=2):
                        break
                    for _ in range(turns):
                        await turn()
                    raise ZeroDivisionError
    assert [event[1] for event in inserted()[10:]] == [str(turns) for turns in range(12)]


async def turn() -> None:
    """Let the event loop turn once."""
    loop = asyncio.get_running_loop()
    turned = loop.create_future()
    loop.call_soon(turned.set_result, None)
    await turned

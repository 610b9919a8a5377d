"""Transactions over a connection that other tasks or threads may use."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from psycopg.transaction import OutOfOrderTransactionNesting

from pgqpy.client.exclusive import exclusive_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from psycopg import AsyncConnection, AsyncTransaction


@asynccontextmanager
async def inner_transaction(connection: AsyncConnection[Any]) -> AsyncIterator[AsyncTransaction]:
    """Open a transaction or savepoint for one call of pgqpy. The caller holds the lock."""
    lock = exclusive_async(connection)
    # Around psycopg's own count: in between, a call seems to be made in one block less, and is not
    # refused. The other way round it would be refused after a block that was never its own.
    lock.inner += 1
    try:
        async with closing_transaction(connection) as opened:
            yield opened
    finally:
        lock.inner -= 1


@asynccontextmanager
async def closing_transaction(connection: AsyncConnection[Any]) -> AsyncIterator[AsyncTransaction]:
    """Open psycopg's transaction(); close the connection if it stays open after its block.

    Later calls would commit nothing. The transaction stays open if its task is cancelled while it
    waits for psycopg's lock, or if two blocks cross: then neither COMMIT nor ROLLBACK is sent.
    """
    opened: AsyncTransaction | None = None
    try:
        async with connection.transaction() as opened:
            yield opened
    except OutOfOrderTransactionNesting:
        close(connection)
        raise
    finally:
        if opened is not None and opened.status == opened.Status.ACTIVE:
            close(connection)


def close(connection: AsyncConnection[Any]) -> None:
    """Close a connection through libpq.

    psycopg's close() would return it to a pool that has close_returns while it is in use; the
    close() of a handler's connection refuses.
    """
    connection.pgconn.finish()

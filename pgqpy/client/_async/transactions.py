"""Transactions over a connection that other tasks or threads may use."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from psycopg import AsyncConnection
from psycopg.transaction import OutOfOrderTransactionNesting

from pgqpy.client.exclusive import exclusive_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from psycopg import AsyncTransaction


@asynccontextmanager
async def inner_transaction(connection: AsyncConnection[Any]) -> AsyncIterator[AsyncTransaction]:
    """Open a transaction, or a savepoint, of one call of pgqpy: nobody else's call is made in it.

    Hold the connection's lock.
    """
    state = exclusive_async(connection)
    state.inner += 1
    try:
        async with closing_transaction(connection) as opened:
            yield opened
    finally:
        state.inner -= 1


@asynccontextmanager
async def closing_transaction(connection: AsyncConnection[Any]) -> AsyncIterator[AsyncTransaction]:
    """Open psycopg's transaction(); close the connection if it stays open after its block.

    Later calls would commit nothing then. A task that is cancelled while it waits for a statement
    of another task sends neither COMMIT nor ROLLBACK. Blocks that cross send neither, too.
    """
    opened: AsyncTransaction | None = None
    try:
        async with connection.transaction() as opened:
            yield opened
    except OutOfOrderTransactionNesting:
        await close(connection)
        raise
    finally:
        if opened is not None and opened.status == opened.Status.ACTIVE:
            await close(connection)


async def close(connection: AsyncConnection[Any]) -> None:
    """Close a connection, also that of a consumer, whose handler cannot."""
    await AsyncConnection.close(connection)

"""[Generated from _async/transactions.py by tools/unasync.py: edit that file, not this one.] Transactions over a connection that other tasks or threads may use."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from psycopg import Connection
from psycopg.transaction import OutOfOrderTransactionNesting

from pgqpy.client.exclusive import exclusive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Transaction


@contextmanager
def inner_transaction(connection: Connection[Any]) -> Iterator[Transaction]:
    """Open a transaction, or a savepoint, of one call of pgqpy: nobody else's call is made in it.

    Hold the connection's lock.
    """
    state = exclusive(connection)
    state.inner += 1
    try:
        with closing_transaction(connection) as opened:
            yield opened
    finally:
        state.inner -= 1


@contextmanager
def closing_transaction(connection: Connection[Any]) -> Iterator[Transaction]:
    """Open psycopg's transaction(); close the connection if it stays open after its block.

    Later calls would commit nothing then. A task that is cancelled while it waits for a statement
    of another task sends neither COMMIT nor ROLLBACK. Blocks that cross send neither, too.
    """
    opened: Transaction | None = None
    try:
        with connection.transaction() as opened:
            yield opened
    except OutOfOrderTransactionNesting:
        close(connection)
        raise
    finally:
        if opened is not None and opened.status == opened.Status.ACTIVE:
            close(connection)


def close(connection: Connection[Any]) -> None:
    """Close a connection, also that of a consumer, whose handler cannot."""
    Connection.close(connection)

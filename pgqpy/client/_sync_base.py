# Generated from _async_base.py by tools/unasync.py: edit that file, not this one.
"""What every part of the client stands on: one connection, and one way to run a call."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import Connection, Cursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from pgqpy import calls, errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg import Transaction

    from pgqpy.calls import Call, Row

T = TypeVar("T")


class Base:
    """A connection and the rules it is used by. It is never committed and its settings never changed."""

    def __init__(
        self, connection: Connection[Any], *, payload_limit: int = calls.PAYLOAD_LIMIT
    ) -> None:
        """Ride on a connection that the application has.

        Args:
            connection: psycopg's; with SQLAlchemy, `session.connection().connection.driver_connection`.
            payload_limit: octets of each field of an event at most.
        """
        if not isinstance(connection, Connection):
            msg = (
                f"a psycopg Connection is needed, not {type(connection).__name__}: with SQLAlchemy it is "
                "the driver_connection of the session's connection"
            )
            raise TypeError(msg)
        self._connection = connection
        self._payload_limit = payload_limit
        self._owned = False
        self._is_extension: bool | None = None
        self._leftovers: set[str] = set()  # held cursors that could not be closed yet

    @property
    def connection(self) -> Connection[Any]:
        """The psycopg connection underneath."""
        return self._connection

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open a transaction, or a savepoint inside one: psycopg's `connection.transaction()`."""
        return self._connection.transaction()

    def close(self) -> None:
        """Close the connection that `connect` opened; leave one of the application's alone."""
        if self._owned:
            self._connection.close()

    def _idle(self) -> bool:
        """Whether a statement now would be a transaction of its own."""
        connection = self._connection
        return connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE

    def _cursor(self) -> Cursor[Row]:
        """Open a cursor of our own kind, whatever factories the application set on the connection."""
        return Cursor(self._connection, row_factory=tuple_row)

    def _run(self, call: Call[T]) -> T:
        """Send one call and read its answer."""
        if call.beside and self._extension():
            msg = f"the extension pgq in this database lacks {call.function}, which pgqpy's own schema has"
            raise errors.NotSupported(msg, function=call.function)
        try:
            # Binary results do not depend on the connection's DateStyle and IntervalStyle.
            with self._cursor() as cursor:
                cursor.execute(call.sql, call.params, binary=True)
                return call.decode(cursor.fetchall())
        except psycopg.Error as exc:
            raise _ours(exc, call.function, call.about) from exc

    def _extension(self) -> bool:
        """Whether schema pgq is the real extension's. Asked once."""
        if self._is_extension is None:
            installed, own = self._run(calls.admin.engine())
            if not installed:
                raise errors.SchemaMissing
            self._is_extension = not own
        return self._is_extension


def _ours(exc: psycopg.Error, function: str, about: Mapping[str, object]) -> Exception:
    """Our error for it, or what psycopg raised."""
    return errors.from_database(exc, function, about) or exc

"""[Generated from _async/base.py by tools/unasync.py: edit that file, not this one.] The base class of every part of the client."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from psycopg.errors import InFailedSqlTransaction
from psycopg.pq import TransactionStatus

from pgqpy import calls
from pgqpy.client._sync.finisher import Finisher
from pgqpy.client._sync.runner import CallRunner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection, Transaction

    from pgqpy.calls.json_values import Default

FAILED = (
    "an error in this transaction was caught, so all of it is rolled back: "
    "put what may fail into a transaction() of its own inside"
)


class Base:
    """A connection, and the limits of what is stored over it."""

    def __init__(
        self,
        connection: Connection[Any],
        *,
        payload_limit: int = calls.PAYLOAD_LIMIT,
        json_default: Default | None = None,
    ) -> None:
        """Use a connection that the application has.

        Args:
            connection: psycopg's; with SQLAlchemy,
                `session.connection().connection.driver_connection`.
            payload_limit: octets of each field of an event at most.
            json_default: converts what has no form in JSON otherwise, as json.dumps' `default`.
        """
        self.runner = CallRunner(connection)  # for pgqpy itself, not for applications
        self._payload_limit = payload_limit
        self._json_default = json_default
        self._owned = False
        self._registered: set[tuple[str, str]] = set()  # queue and consumer, by receive
        self._finisher = Finisher(self.runner)

    @property
    def connection(self) -> Connection[Any]:
        """The psycopg connection underneath."""
        return self.runner.connection

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a transaction, or a savepoint inside one: psycopg's `connection.transaction()`.

        Raises InFailedSqlTransaction at its end if an error inside was caught: PostgreSQL rolls
        back then, and psycopg's own transaction() says nothing. What may fail needs a savepoint.
        """
        with self.connection.transaction() as transaction:
            yield transaction
            failed = self.runner.status() == TransactionStatus.INERROR
            if failed and not transaction.force_rollback:
                raise InFailedSqlTransaction(FAILED)

    def close(self) -> None:
        """Close the connection if `connect` opened it; leave the application's open."""
        if self._owned:
            self.connection.close()

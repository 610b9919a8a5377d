"""[Generated from _async/base.py by tools/unasync.py: edit that file, not this one.] The base class of every part of the client."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg import Connection, OperationalError
from psycopg.errors import InFailedSqlTransaction
from psycopg.pq import TransactionStatus

from pgqpy import calls
from pgqpy.client._sync.reading import EventReader
from pgqpy.client._sync.runner import closing_transaction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Transaction

    from pgqpy.calls import Call
    from pgqpy.calls.payload import Default
    from pgqpy.client.exclusive import Block

T = TypeVar("T")

FAILED = (
    "PostgreSQL refused a statement in this transaction, and the error was caught: all of it is "
    "rolled back. Put what may fail into a transaction() of its own inside"
)
LOST = "the connection was lost or closed in this transaction: nothing of it is committed"


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
                `session.connection().connection.driver_connection`. Make a new client for each
                call: after a commit the session may use another connection.
            payload_limit: octets of each field of an event at most.
            json_default: converts what has no form in JSON otherwise, as json.dumps' `default`.
        """
        self.runner = EventReader(connection)  # for pgqpy itself, not for applications
        self._payload_limit = payload_limit
        self._json_default = json_default
        self._owned = False
        self._registered: set[tuple[str, str, str | None]] = (
            set()
        )  # queue, consumer, key, by receive

    @property
    def connection(self) -> Connection[Any]:
        """The psycopg connection underneath."""
        return self.runner.connection

    def call(self, call: Call[T]) -> T:
        """Send a call that a function of `pgqpy.calls` made, and return its result.

        For tools (pgqpy's ticker, Spark, archive, dashboard and command line; yours): the SQL
        functions that no application needs have no method here, only a function in `pgqpy.calls`,
        which checks the arguments and names the errors.

            client.call(calls.ticks.pin_range("orders", "lake", 17, 18))
        """
        return self.runner.run(call)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a transaction, or a savepoint inside one: psycopg's `connection.transaction()`.

        A connection that is not in autocommit always has a savepoint: the application commits.

        Raises InFailedSqlTransaction at its end if an error of the server was caught inside, and
        OperationalError if the connection was lost: nothing is committed then, and psycopg's own
        transaction() says nothing. What may fail needs a transaction() of its own inside. Threads
        or tasks that share a client cannot have one each: the connection is closed if they cross.
        The connection may also be closed if the task is cancelled before it could send COMMIT or
        ROLLBACK. A call that was made in the block but not sent before its end raises
        InFailedSqlTransaction. After a rollback, so does each later call of a task that was started
        in the block and still runs, or of one that it starts, unless its client was made after the
        end of the block.
        """
        lock, origin = self.runner.exclusive, self.runner.origin()
        block: Block | None = None
        try:
            # The lock is released after COMMIT or ROLLBACK, so its stack is the outer one.
            with ExitStack() as until_end, ExitStack() as begun:
                with lock:
                    self.runner.refuse_after_block(origin)
                    self.runner.refuse_in_pipeline()
                    self.runner.begin()
                    opened = closing_transaction(self.connection)
                    transaction = begun.enter_context(opened)
                with lock.block() as block:
                    try:
                        yield transaction
                    finally:  # calls that already wait for the lock are sent first
                        until_end.enter_context(lock)
                    if transaction.force_rollback:
                        block.rolled_back = True
                    else:
                        self._check_transaction()
        except BaseException:
            if block is not None:  # COMMIT may have failed
                block.rolled_back = True
            raise

    def _check_transaction(self) -> None:
        status = self.runner.status()
        if status == TransactionStatus.INERROR:
            raise InFailedSqlTransaction(FAILED)
        if status == TransactionStatus.UNKNOWN:
            raise OperationalError(LOST)

    def close(self) -> None:
        """Close the connection if `connect` opened it; leave the application's open."""
        if self._owned:
            self.connection.close()

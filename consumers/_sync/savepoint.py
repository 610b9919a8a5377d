"""[Generated from _async/savepoint.py by tools/unasync.py: edit that file, not this one.] Savepoints around single events, and checks that handlers left the transaction open."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.errors import InvalidSavepointSpecification, NoActiveSqlTransaction
from psycopg.pq import PipelineStatus, TransactionStatus

from pgqpy.calls import Call
from pgqpy.consumers.connection_errors import is_collision
from pgqpy.consumers.ending import end_connection
from pgqpy.consumers.handlers import HANDLER_ERRORS, HandlerFailed, check_result, raise_if_cancelled
from pgqpy.errors import PgqError, TransactionEnded

if TYPE_CHECKING:
    from collections.abc import Iterator, Callable

    from pgqpy.consumers._sync.session import Session
    from pgqpy.records import Event


def _flag(rows: list[tuple[Any, ...]]) -> bool:
    return rows[0][0] in ("1", "on")


def _nothing(_rows: list[tuple[Any, ...]]) -> None:
    return None


# The same values as in the session's settings. Before PostgreSQL 17 there is no
# transaction_timeout, and set_config would refuse the name.
NO_TIMEOUTS = """
    pg_catalog.set_config('statement_timeout', '0', true),
    pg_catalog.set_config('lock_timeout', '0', true),
    pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true),
    case when pg_catalog.current_setting('transaction_timeout', true) is not null
         then pg_catalog.set_config('transaction_timeout', '0', true) end"""
IS_SAME = (
    """
    select pg_catalog.current_setting('pgqpy.transaction', true),
           pg_catalog.set_config('role', %s, true),"""
    + NO_TIMEOUTS
)

# Outside a transaction: whether a new one would be read only, as on a standby.
READ_ONLY = Call(
    "current_setting", "select pg_catalog.current_setting('transaction_read_only')", (), _flag
)


def mark_transaction_call(role: str) -> Call[None]:
    """Set the consumer's role, and the mark that `same_transaction_call` looks for.

    The mark is a setting that ends with the transaction.
    """
    query = """
        select pg_catalog.set_config('pgqpy.transaction', '1', true),
               pg_catalog.set_config('role', %s, true)"""
    return Call("set_config", query, (role,), _nothing)


def same_transaction_call(role: str) -> Call[bool]:
    """Ask whether this is the marked transaction; reset role and timeouts.

    A handler may have ended the transaction, even begun another one. It may have set a role for
    its tenant, or a timeout that suits its own statements.
    """
    return Call("current_setting", IS_SAME, (role,), _flag)


# A deferred constraint fails at COMMIT, when the event that broke it is unknown. So constraints
# are checked after each event; the rollback to the inner savepoint makes them deferred again.
# "set transaction read write" is refused in a savepoint if the handler made it read only.
CHECK_AND_RELEASE = tuple(
    Call("savepoint", statement, (), _nothing)
    for statement in (
        "select" + NO_TIMEOUTS,
        "set transaction read write",
        "savepoint pgqpy_check",
        "set constraints all immediate",
        "rollback to savepoint pgqpy_check",
        "release savepoint pgqpy_event",
    )
)
UNDO = tuple(
    Call("savepoint", statement, (), _nothing)
    for statement in ("rollback to savepoint pgqpy_event", "release savepoint pgqpy_event")
)


class HandlerConnection(psycopg.Connection[Any]):
    """The connection that transactional handlers get. Its transaction belongs to the consumer."""

    _collision: Exception | None = None
    _depth = 0  # of transaction() blocks; the first is the consumer's

    def collided(self, error: BaseException) -> bool:
        """Say whether this connection's transaction collided with another one; ask before it ends.

        The same error on another connection of the handler leaves this transaction whole: it is a
        failure like any other. An event that always gets it would otherwise be repeated for ever.
        """
        return is_collision(error) and (self._failed() or error is self._collision)

    def _failed(self) -> bool:
        return self.pgconn.transaction_status == TransactionStatus.INERROR

    @contextmanager
    def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002  # psycopg's signature
    ) -> Iterator[psycopg.Transaction]:
        """Open a savepoint, as psycopg does, and remember a collision that it rolls back."""
        with super().transaction(savepoint_name, force_rollback) as inner:
            self._depth += 1
            try:
                yield inner
            except psycopg.Error as error:
                if self._failed() and is_collision(error):
                    self._collision = error
                raise
            finally:
                self._depth -= 1
                inner.pgconn = self.pgconn  # no ROLLBACK after the end of the connection

    @property
    def occupied(self) -> bool:
        """Whether a pipeline, COPY, stream or transaction() block was begun and not ended."""
        if self.pgconn.transaction_status == TransactionStatus.ACTIVE or self._depth > 1:
            return True
        return self.pgconn.pipeline_status != PipelineStatus.OFF

    def commit(self) -> None:
        """Raise TransactionEnded: the consumer commits, together with finish_batch."""
        raise TransactionEnded

    def rollback(self) -> None:
        """Raise TransactionEnded: to undo an event, raise an exception."""
        raise TransactionEnded

    def close(self) -> None:
        """Raise PgqError: the batch would be delivered, and the connection closed, for ever."""
        raise PgqError("the connection is the consumer's: do not close it in a handler")


def check_open(connection: HandlerConnection) -> None:
    """Raise TransactionEnded if no transaction is open, OperationalError if no connection is.

    A connection that the handler left busy is closed: nothing else surely ends a COPY or pipeline,
    and the next statement would wait for ever or get the result of another one.
    """
    if connection.closed:
        raise psycopg.OperationalError("the connection is closed")
    if connection.occupied:
        end_connection(connection)
        raise psycopg.OperationalError(
            "the handler left a pipeline, COPY, stream or transaction() open"
        )
    if ended(connection):
        raise TransactionEnded


def ended(connection: HandlerConnection) -> bool:
    """Say whether the connection works, and no transaction is open."""
    return connection.pgconn.transaction_status == TransactionStatus.IDLE


def call_handler(
    session: Session, handler: Callable[..., Any], event: Event
) -> BaseException | None:
    """Call the handler in a savepoint; if it fails, undo what it did and return its exception.

    What concerns the whole transaction (a collision, its end, a lost connection) is raised.
    """
    connection = session.connection
    connection.execute("savepoint pgqpy_event")
    try:
        check_result(handler(event, connection))
        check_open(connection)
        session.runner.run_all(*CHECK_AND_RELEASE)
    except HANDLER_ERRORS as error:
        raise_if_cancelled(error)
        collided = connection.collided(error)
        if session.lost or collided or isinstance(error, TransactionEnded):
            raise HandlerFailed(error, collided=collided) from error
        _undo(session)
        return error
    return None


def _undo(session: Session) -> None:
    try:
        session.runner.run_all(*UNDO)
    except (InvalidSavepointSpecification, NoActiveSqlTransaction) as error:
        raise HandlerFailed(TransactionEnded()) from error

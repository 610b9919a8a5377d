"""Savepoints around single events, and calls that mark and recognise a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.errors import InvalidSavepointSpecification, NoActiveSqlTransaction

from pgqpy.calls import Call
from pgqpy.consumers._async.handler_connection import check_open
from pgqpy.consumers.connection_errors import is_transaction_ended, transaction_ended
from pgqpy.consumers.handlers import HANDLER_ERRORS, HandlerFailed, check_result
from pgqpy.consumers.own_task import raise_if_cancelled

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.consumers._async.session import AsyncSession
    from pgqpy.records import Event


def _flag(rows: list[tuple[Any, ...]]) -> bool:
    return rows[0][0] in ("1", "on")


def _nothing(_rows: list[tuple[Any, ...]]) -> None:
    return None


# The values of SETTINGS. Before PostgreSQL 17 there is no transaction_timeout, and set_config
# would refuse the name.
NO_TIMEOUTS = """
    pg_catalog.set_config('lock_timeout', {}, true),
    pg_catalog.set_config('statement_timeout', '0', true),
    pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true),
    case when pg_catalog.current_setting('transaction_timeout', true) is not null
         then pg_catalog.set_config('transaction_timeout', '0', true) end"""
IS_SAME = """
    select pg_catalog.current_setting('pgqpy.transaction', true),
           pg_catalog.set_config('role', %s, true),""" + NO_TIMEOUTS.format("%s")

# The session's own lock_timeout is for our statements.
NO_LOCK_TIMEOUT = Call(
    "set_config", "select pg_catalog.set_config('lock_timeout', '0', true)", (), _nothing
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


def same_transaction_call(role: str, lock_timeout: str) -> Call[bool]:
    """Ask whether this is the marked transaction; reset role and timeouts.

    Calls of our own follow, with this limit for a wait for a lock.

    A handler may have ended the transaction, even begun another one. It may have set a role for
    its tenant, or a timeout that suits its own statements.
    """
    return Call("current_setting", IS_SAME, (role, lock_timeout), _flag)


# A deferred constraint fails at COMMIT, when the event that broke it is unknown. So constraints
# are checked after each event; the rollback to the inner savepoint makes them deferred again.
# "set transaction read write" is refused in a savepoint if the handler made it read only.
# Nothing is prepared: the server skips statements behind one that fails, and psycopg would take
# them for prepared.
CHECK_AND_RELEASE = tuple(
    Call("savepoint", statement, (), _nothing, prepare=False)
    for statement in (
        "select" + NO_TIMEOUTS.format("'0'"),
        "set transaction read write",
        "savepoint pgqpy_check",
        "set constraints all immediate",
        "rollback to savepoint pgqpy_check",
        "release savepoint pgqpy_event",
    )
)
UNDO = tuple(
    Call("savepoint", statement, (), _nothing, prepare=False)
    for statement in ("rollback to savepoint pgqpy_event", "release savepoint pgqpy_event")
)


async def call_handler(
    session: AsyncSession, handler: Callable[..., Any], event: Event
) -> BaseException | None:
    """Call the handler in a savepoint; if it fails, undo what it did and return its exception.

    What concerns the whole transaction (a collision, its end, a lost connection) is raised.
    """
    connection = session.connection
    await connection.execute("savepoint pgqpy_event")
    try:
        async with connection.lent() as lent:
            check_result(await handler(event, lent))
        check_open(connection)
        await session.runner.run_all(*CHECK_AND_RELEASE)
    except HANDLER_ERRORS as error:
        raise_if_cancelled(error)
        collided = connection.collided(error)
        if session.lost or collided or is_transaction_ended(error):
            raise HandlerFailed(error, collided=collided) from error
        await _undo(session)
        return error
    return None


async def _undo(session: AsyncSession) -> None:
    try:
        await session.runner.run_all(*UNDO)
        await session.runner.forget_prepared()  # the handler may have had a pipeline of its own
    except (InvalidSavepointSpecification, NoActiveSqlTransaction) as error:
        raise HandlerFailed(transaction_ended()) from error

"""Calls around a transactional handler: marks of its transaction, savepoints, timeouts. No PGQ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.calls._call import Call

if TYPE_CHECKING:
    from pgqpy.calls._call import Row


def _flag(rows: list[Row]) -> bool:
    return rows[0][0] in ("1", "on")


def _nothing(_rows: list[Row]) -> None:
    return None


# The same values as SETTINGS of a session. Before PostgreSQL 17 there is no transaction_timeout,
# and set_config would refuse the name.
NO_TIMEOUTS = """
    pg_catalog.set_config('lock_timeout', {}, true),
    pg_catalog.set_config('statement_timeout', '0', true),
    pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true),
    case when pg_catalog.current_setting('transaction_timeout', true) is not null
         then pg_catalog.set_config('transaction_timeout', '0', true) end"""
IS_SAME = f"""
    select pg_catalog.current_setting('pgqpy.transaction', true),
           pg_catalog.set_config('role', %s, true),
           pg_catalog.set_config('default_transaction_isolation', 'read committed', %s),
           {NO_TIMEOUTS.format("%s")}"""

# lock_timeout limits our statements, not those of handlers.
NO_LOCK_TIMEOUT = Call(
    "set_config", "select pg_catalog.set_config('lock_timeout', '0', true)", (), _nothing
)

# Outside a transaction: whether a new one would be read only, as on a standby.
READ_ONLY = Call(
    "current_setting", "select pg_catalog.current_setting('transaction_read_only')", (), _flag
)


def mark_call(role: str) -> Call[None]:
    """Set the consumer's role, and the mark that `is_same_call` looks for.

    The mark is a setting that ends with the transaction.
    """
    query = """
        select pg_catalog.set_config('pgqpy.transaction', '1', true),
               pg_catalog.set_config('role', %s, true)"""
    return Call("set_config", query, (role,), _nothing)


def is_same_call(role: str, lock_timeout: str, *, pooled: bool) -> Call[bool]:
    """Ask whether this is the marked transaction; reset role, isolation of the next, and timeouts.

    `lock_timeout` counts for our own calls, which follow.

    A handler may have ended the transaction, even begun another one. It may have set a role for
    its tenant, or a timeout that suits its own statements. A session that a pooler shares keeps
    none of our settings.
    """
    return Call("current_setting", IS_SAME, (role, pooled, lock_timeout), _flag)


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

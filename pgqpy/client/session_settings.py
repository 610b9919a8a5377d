"""Settings of pgqpy's own sessions, whatever the role and the database say. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PG_17 = 170000
ISOLATION = "default_transaction_isolation"

# For a session that runs no SQL but ours. A role that may create in a schema of the search_path
# could put a function or an operator there that fits our statements better than pg_catalog's, and
# that would run with our rights. Intervals and dates that come as text are read in one style. A row
# that row-level security would hide is an error: a hidden event would be lost.
PINNED: Mapping[str, str] = {
    "search_path": "pg_catalog, pg_temp",
    "row_security": "off",
    ISOLATION: "read committed",
    "standard_conforming_strings": "on",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "array_nulls": "on",  # else NULL in an array literal is a text of four letters
}

# An application's own session keeps all its settings but one: only an application that asked for
# SERIALIZABLE expects serialization failures, and ticks need READ COMMITTED. Nothing is set where
# the default is READ COMMITTED, nor behind a pooler, which makes up process ids: other clients of
# the pooler would get the setting too.
READ_COMMITTED = sql.SQL("""
    select pg_catalog.set_config('default_transaction_isolation', 'read committed', false)
     where pg_catalog.current_setting('default_transaction_isolation')
               operator(pg_catalog.<>) 'read committed'
       and pg_catalog.pg_backend_pid() operator(pg_catalog.=) {}
""")


# One row: the process id of the server's session. Where another one was expected, behind a pooler,
# the settings end with the transaction: the session may be shared.
_SETTINGS = sql.SQL("""
    select {}, pid from (select pg_catalog.pg_backend_pid()) session (pid)
""")
_SETTING = sql.SQL("pg_catalog.set_config({}, {}, pid operator(pg_catalog.<>) {})")


def set_query(settings: Mapping[str, str], server_version: int, pid: int) -> str:
    """Return a query that makes the settings in the session of this process id.

    In any other session they last until the end of the transaction.
    """
    chosen = (
        _SETTING.format(name, value, pid)
        for name, value in settings.items()
        if name != "transaction_timeout" or server_version >= PG_17
    )
    return _SETTINGS.format(sql.SQL(", ").join(chosen)).as_string(None)


def reset_statements(names: Iterable[str]) -> str:
    """Return RESET statements."""
    return "; ".join(f"reset {name}" for name in names)

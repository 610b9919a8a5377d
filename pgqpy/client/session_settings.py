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
# that would run with our rights. Intervals and dates that come as text are read in one style.
PINNED: Mapping[str, str] = {
    "search_path": "pg_catalog, pg_temp",
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


def set_statements(settings: Mapping[str, str], server_version: int) -> str:
    """Return SET statements: utility commands, which look up no function."""
    return "; ".join(
        f"set {name} = {_quoted(name, value)}"
        for name, value in settings.items()
        if name != "transaction_timeout" or server_version >= PG_17
    )


def reset_statements(names: Iterable[str]) -> str:
    """Return RESET statements."""
    return "; ".join(f"reset {name}" for name in names)


def _quoted(name: str, value: str) -> str:
    # Only a search_path is a list; quoted as a whole it would be one strange name.
    return value if name == "search_path" else sql.Literal(value).as_string(None)

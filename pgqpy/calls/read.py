"""Statements that read events: one SELECT for a small batch, else a cursor."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple

from psycopg import sql

from pgqpy.calls import _check as check
from pgqpy.records import Batch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import LiteralString

    Statement = LiteralString | sql.SQL | sql.Composed

FETCH_SIZE = 1000  # events held by the client at a time

COLUMNS: LiteralString = """ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,
    ev_extra1, ev_extra2, ev_extra3, ev_extra4"""

# Opens a cursor in the running transaction, and returns its first events. PGQ get_batch_cursor.
OPEN_CURSOR = sql.SQL(
    "select {} from pgq.get_batch_cursor(%s::bigint, %s::text, %s::integer)"
).format(sql.SQL(COLUMNS))


class EventSet(NamedTuple):
    """The events that one function returns, and the error data of reading them."""

    function: str
    from_clause: LiteralString  # a call that takes `params`
    params: tuple[object, ...]
    name: str  # in the middle of a sentence
    error_data: Mapping[str, object]


def of_batch(batch_id: int) -> EventSet:
    """Describe the events of an open batch."""
    from_clause, error_data = "pgq.get_batch_events(%s::bigint)", {"batch_id": batch_id}
    return EventSet("get_batch_events", from_clause, (batch_id,), f"batch {batch_id}", error_data)


def fits(batch: Batch | int, fetch_size: int) -> bool:
    """Say whether the ticks estimate at most `fetch_size` events."""
    return isinstance(batch, Batch) and batch.event_seq - batch.prev_event_seq <= fetch_size


def checked_fetch_size(size: int) -> int:
    """Take a number of events to hold at a time: 1 at least."""
    return max(check.count("fetch_size", size) or 0, 1)


def cursor_name(batch_id: int) -> str:
    """Return a name that no other cursor has: a pooler may mix the sessions of processes."""
    return f"pgqpy_batch_{batch_id}_{secrets.token_hex(8)}"


def select_at_most(limit: int) -> sql.Composed:
    """Select at most `limit` events, in one go."""
    query = sql.SQL("select {} from pgq.get_batch_events(%s::bigint) limit {}")
    return query.format(sql.SQL(COLUMNS), sql.Literal(limit))


# Of the settings of settings.sql, those that this query needs.
SETTINGS_AND_QUERY: LiteralString = """
    select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
           pg_catalog.set_config('row_security', 'off', true),
           pg_catalog.set_config('enable_seqscan', 'off', true),
           pg_catalog.set_config('jit', 'off', true),
           pgq.batch_event_sql(%s::bigint)"""


def declare_held(name: str, query: str) -> sql.Composed:
    """Open a cursor that outlives its transaction: the server keeps the rows.

    So no transaction holds back vacuum, or meets a timeout, while a handler takes hours. The query
    is that of batch_event_sql: over get_batch_events the server would keep the rows twice.
    """
    statement = sql.SQL("declare {} no scroll cursor with hold for {}")
    return statement.format(sql.Identifier(name), sql.SQL(query))


def fetch(name: str, size: int) -> sql.Composed:
    """Read the next events of a cursor."""
    return sql.SQL("fetch forward {} from {}").format(sql.Literal(size), sql.Identifier(name))


def close(name: str) -> sql.Composed:
    """Close a cursor."""
    return sql.SQL("close {}").format(sql.Identifier(name))


def close_if_open(name: str) -> sql.Composed:
    """Close a cursor, or do nothing. In one statement: a rollback cannot come in between."""
    query = sql.SQL(
        "do $$ declare c pg_catalog.refcursor := {0}; begin "
        "if exists (select from pg_catalog.pg_cursors where name operator(pg_catalog.=) {0}) "
        "then close c; end if; end $$"
    )
    return query.format(sql.Literal(name))

"""A table like a queue's, and nothing else, as any user could write it."""

from __future__ import annotations

import psycopg

# The columns, defaults and index of a queue's event table.
TABLE = """
create table event (
    ev_id bigserial not null,
    ev_time timestamptz not null default now(),
    ev_txid bigint not null default txid_current(),
    ev_owner int, ev_retry int, ev_type text, ev_data text,
    ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text);
create index on event (ev_txid);
"""
COUNT = "select count(*) from event"


def set_up(dsn: str) -> None:
    """Make the table."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(TABLE)


def insert(data: str) -> str:
    """Return the statement that inserts one event."""
    return f"insert into event (ev_type, ev_data) values ('t', '{data}') returning ev_id;"

"""Dead rows: those of event tables, and those of the small tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

if TYPE_CHECKING:
    from psycopg import Connection

EXTENSION = "create extension if not exists pgstattuple"
EXACT = "select dead_tuple_count from public.pgstattuple(%s::regclass)"
COUNTED = "select pg_stat_get_dead_tuples(%s::regclass)"  # from the statistics, a second old
TABLES = {
    "events": """
        select relname, oid from pg_class where relkind = 'r' and (
            relnamespace = to_regnamespace('pgq') and relname ~ '^event_[0-9]'
            or relnamespace = to_regnamespace('pgmq') and relname ~ '^q_')
    """,
    "small": """
        select relname, oid from pg_class where relkind = 'r' and (
            relnamespace = to_regnamespace('pgq') and relname !~ '^event_[0-9]'
            or relnamespace = to_regnamespace('pgmq') and relname !~ '^[qa]_')
    """,
    # Every TRUNCATE writes there.
    "catalog": "select relname, oid from pg_class where oid = 'pg_catalog.pg_class'::regclass",
}


class Sample(NamedTuple):
    """Dead rows by kind ("events", "small", "catalog") and table, `at` seconds into the run."""

    at: float
    dead: dict[str, dict[str, int]]

    def total(self, kind: str) -> int:
        """Return the dead rows of all tables of a kind."""
        return sum(self.dead[kind].values())


class DeadRows:
    """Looks for dead rows in a database of pgqpy, PGQ or pgmq."""

    def __init__(self, connection: Connection[Any]) -> None:
        """Take an autocommit connection of a superuser."""
        self._connection = connection
        try:
            connection.execute(EXTENSION)
        except psycopg.Error:  # the package of PostgreSQL's own extensions is not there
            self._count = COUNTED
        else:
            self._count = EXACT

    def look(self, at: float) -> Sample:
        """Count."""
        return Sample(at, {kind: self._dead(tables) for kind, tables in TABLES.items()})

    def _dead(self, tables: str) -> dict[str, int]:
        # By oid: a table may get another name at any time.
        found = self._connection.execute(tables).fetchall()
        return {name: self._one(oid) for name, oid in found}

    def _one(self, table: int) -> int:
        (dead,) = self._connection.execute(self._count, (table,)).fetchone() or (0,)
        return int(dead)

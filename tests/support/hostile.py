"""A trap: a schema that comes before pg_catalog, and records that its functions are called."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psycopg import sql

from tests.support.tree import ROOT, files

if TYPE_CHECKING:
    import psycopg

SCHEMA = Path(__file__).with_name("hostile.sql")
OPERATORS = ["=", "<>", "<", ">", "<=", ">=", "+", "-", "*", "||", "->>", "~"]
FIRST = sql.SQL("alter database {} set search_path = hostile, pg_catalog, public")


def lay_trap(connection: psycopg.Connection[Any]) -> None:
    """Make the schema, and put it first in the search_path of sessions opened from now on.

    It has the operators and every function of pg_catalog that our sources name.
    """
    sources = "".join((ROOT / name).read_text(encoding="utf-8") for name in files("*.py", "*.sql"))
    called = sorted(set(re.findall(r"\b([a-z_0-9]+)\s*\(", sources)))
    with connection.transaction():
        connection.execute(SCHEMA.read_bytes())
        connection.execute("select hostile.shadow_functions(%s)", [called])
        connection.execute("select hostile.shadow_operators(%s)", [OPERATORS])
        connection.execute(FIRST.format(sql.Identifier(connection.info.dbname)))


def trapped(connection: psycopg.Connection[Any]) -> int:
    """Return how often somebody called what is in the schema."""
    query = "select case when is_called then last_value else 0 end from hostile.calls"
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])

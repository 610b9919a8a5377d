"""The connection string and the environment that all processes of the demo use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgqpy import connect
from pgqpy.demo.abort import DemoFailed

if TYPE_CHECKING:
    from typing import Any

SCHEMA = "pgqpy_demo"
# The service is resolved already; each process sets its own application_name.
UNWANTED = ("service", "application_name", "fallback_application_name")


def resolve(dsn: str) -> str:
    """Return a complete connection string, with the demo's schema as search_path.

    It includes what a service file, PG* variables or ~/.pgpass add, so that pgbench connects to
    the same database.

    Raises ConnectionFailed; DemoFailed if a pooler ignores the search_path.
    """
    with connect(dsn) as client:
        info = client.connection.info
        named: dict[str, Any] = {**info.get_parameters(), "password": info.password or None}
    for ours in UNWANTED:
        named.pop(ours, None)
    options = f"{named.get('options', '')} -c search_path={SCHEMA}".strip()
    resolved = make_conninfo(**{**named, "options": options})
    _check_search_path(resolved)
    return resolved


def environment(dsn: str) -> dict[str, str]:
    """Return the environment of a child process that connects to this database only.

    The connection string is not an argument: other users can read a process's arguments.
    """
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "PGQPY_"))}
    variables = {
        option.keyword.decode(): option.envvar.decode()
        for option in pq.Conninfo.get_defaults()
        if option.envvar
    }
    named = {
        variables[key]: str(value)
        for key, value in conninfo_to_dict(dsn).items()
        if key in variables and value is not None
    }
    return {**ours, **named, "PGQPY_DSN": dsn, "LC_ALL": "C.UTF-8"}


def _check_search_path(dsn: str) -> None:
    with connect(dsn) as client:
        row = client.connection.execute("show search_path").fetchone()
    if row is None or row[0] != SCHEMA:
        msg = "the connection ignores options: connect to the server itself, not to a pooler"
        raise DemoFailed(msg)

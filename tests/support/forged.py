"""A schema pgq of a role that may create in the database: it looks like ours, each call is noted.

A sequence notes it: it counts in transactions that are rolled back too.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from pgqpy.install import install
from tests.support.databases import new_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Server

FORGER = "pgqpy_test_forger"

FORGE = """
    create sequence pgq.calls;
    grant usage, select on sequence pgq.calls to public;
    do $forge$
    declare f record;
    begin
        for f in select proname as name, pg_get_function_arguments(oid) as arguments,
                pg_get_function_result(oid) as result
            from pg_proc where pronamespace = 'pgq'::regnamespace
        loop
            execute format($create$
                create or replace function pgq.%I(%s) returns %s language plpgsql as $trap$
                begin
                    perform nextval('pgq.calls');
                    raise exception 'the forger has the rights of %%', session_user;
                end $trap$
            $create$, f.name, f.arguments, f.result);
        end loop;
    end $forge$;
    grant execute on all functions in schema pgq to public;
"""


@contextmanager
def forger(server: Server) -> Iterator[str]:
    """Make a login of this name that has no rights yet; drop it at the end."""
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        role = sql.Identifier(FORGER)
        admin.execute(sql.SQL("create role {} login").format(role))
        try:
            yield FORGER
        finally:
            admin.execute(sql.SQL("drop role {}").format(role))


@contextmanager
def forged_database(server: Server) -> Iterator[str]:
    """Make a database in which the forger was first; yield a superuser's DSN.

    The six roles are there: they are the cluster's, and another database has our schema.
    """
    with forger(server) as role, new_database(server) as name:
        with psycopg.connect(server.dsn(name), autocommit=True) as admin:
            grant = sql.SQL("grant create on database {} to {}; grant pgq_capture to {}")
            names = (sql.Identifier(each) for each in (name, role, role))
            admin.execute(grant.format(*names))
        with psycopg.connect(server.dsn(name), user=role, autocommit=True) as own:
            install(own)
            own.execute(FORGE)
        yield server.dsn(name)


def trapped(connection: psycopg.Connection[Any]) -> int:
    """Return how often a function of the forger was called."""
    query = "select case when is_called then last_value else 0 end from pgq.calls"
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])

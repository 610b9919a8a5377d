"""What the client has a method for, and that both clients have the same methods."""

from __future__ import annotations

import inspect
import re
from typing import Any

import psycopg

from pgqpy import AsyncClient, Client, calls
from tests.support.tree import ROOT

# Triggers are called by PostgreSQL, not by clients.
FUNCTIONS = """
    select distinct p.proname
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname = 'pgq' and p.proname !~ '^_' and p.prorettype <> 'trigger'::regtype
       and (has_function_privilege('pgq_admin', p.oid, 'execute')
            or has_function_privilege('pgq_ticker', p.oid, 'execute'))
"""


def methods(client: type) -> dict[str, Any]:
    return {
        name: found
        for name, found in inspect.getmembers(client, inspect.isfunction)
        if not name.startswith("_")
    }


def test_docs_list_the_sql_functions_that_are_no_methods(
    connection: psycopg.Connection[Any],
) -> None:
    functions = {row[0] for row in connection.execute(FUNCTIONS)}
    assert len(functions) > 40
    text = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
    section = text.partition("\n## SQL only\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", section))
    assert functions - set(methods(Client)) == (named & functions) - set(methods(Client))


def test_every_call_names_a_function_that_exists(connection: psycopg.Connection[Any]) -> None:
    there = {
        row[0]
        for row in connection.execute(
            "select proname from pg_proc where pronamespace = 'pgq'::regnamespace"
        )
    }
    named = set()
    for module in (
        calls.admin,
        calls.cancel,
        calls.consume,
        calls.dead_events,
        calls.maintain,
        calls.produce,
        calls.ticks,
    ):
        named |= set(re.findall(r"pgq\.([a-z_0-9]+)\(", inspect.getsource(module)))
    assert len(named) > 30
    assert named - there == set()


def test_both_clients_have_the_same_methods() -> None:
    assert methods(Client).keys() == methods(AsyncClient).keys()


def test_both_kinds_take_the_same_arguments_and_say_the_same() -> None:
    for name, sync in methods(Client).items():
        other = methods(AsyncClient)[name]
        assert list(inspect.signature(sync).parameters) == list(inspect.signature(other).parameters)
        assert inspect.getdoc(sync), name
        lines = [inspect.getsource(each).count("\n") for each in (sync, other)]
        assert lines[0] == lines[1], name

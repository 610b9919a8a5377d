"""What the client has a method for, and that both clients have the same methods."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import psycopg

from pgqpy import AsyncClient, Client, calls


def methods(client: type) -> dict[str, Any]:
    return {
        name: found
        for name, found in inspect.getmembers(client, inspect.isfunction)
        if not name.startswith("_")
    }


def test_the_client_has_few_names() -> None:
    assert len([name for name in dir(Client) if not name.startswith("_")]) <= 41


def test_every_call_names_a_function_that_exists(connection: psycopg.Connection[Any]) -> None:
    there = {
        row[0]
        for row in connection.execute(
            "select proname from pg_proc where pronamespace = 'pgq'::regnamespace"
        )
    }
    named = set()
    for file in Path(calls.__file__).parent.glob("*.py"):
        named |= set(re.findall(r"pgq\.([a-z_0-9]+)\(", file.read_text()))
    assert len(named) > 60
    assert named - there == set()


def test_both_clients_have_the_same_methods_with_the_same_arguments_and_say_the_same() -> None:
    assert methods(Client).keys() == methods(AsyncClient).keys()
    for name, sync in methods(Client).items():
        other = methods(AsyncClient)[name]
        assert list(inspect.signature(sync).parameters) == list(inspect.signature(other).parameters)
        assert inspect.getdoc(sync), name
        lines = [inspect.getsource(each).count("\n") for each in (sync, other)]
        assert lines[0] == lines[1], name

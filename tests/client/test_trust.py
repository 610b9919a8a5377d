"""Whose code a session may run: it depends on the owners in schema pgq, and on its own user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgqpy import SchemaMissing, SchemaRefused
from pgqpy.client import connect_as_tool
from tests.support.forged import FORGER, forger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.servers import Server

    Connection = psycopg.Connection[Any]

LOGIN = "pgqpy_test_login"
GIVE = "alter schema pgq owner to pgqpy_test_forger"
GIVE_DATABASE = "alter database {} owner to pgqpy_test_forger"


@pytest.fixture
def opened(server: Server, dsn: str, connection: Connection) -> Iterator[Callable[..., None]]:
    """`opened(statement, …, user=LOGIN)`: open a session of ours after these statements."""
    database = sql.Identifier(connection.info.dbname)

    def opener(*statements: str, **keywords: str) -> None:
        for statement in statements:
            connection.execute(sql.SQL(statement).format(database))
        connect_as_tool(make_conninfo(dsn, **keywords)).close()

    with forger(server):
        connection.execute(f"create role {LOGIN} login")
        try:
            yield opener
        finally:
            connection.execute(f"alter database {connection.info.dbname} owner to current_user")
            connection.execute(f"drop owned by {FORGER} cascade")
            connection.execute(f"drop role {LOGIN}")


TRUSTED: dict[str, tuple[list[str], dict[str, str]]] = {
    "a superuser's": ([], {"user": LOGIN}),
    "the database owner's, for a superuser": ([GIVE, GIVE_DATABASE], {}),
    "the database owner's": ([GIVE, GIVE_DATABASE], {"user": LOGIN}),
    "its own": ([GIVE], {"user": FORGER}),
    "of the role that a superuser has taken": ([GIVE], {"options": f"-crole={FORGER}"}),
    "of one that could act as this user": ([GIVE, f"grant {LOGIN} to {FORGER}"], {"user": LOGIN}),
    "of a superuser that is new": ([GIVE, f"alter role {FORGER} superuser"], {"user": LOGIN}),
}
STRANGERS: dict[str, tuple[list[str], dict[str, str]]] = {
    "superuser": ([], {}),
    "login": ([], {"user": LOGIN}),
    "superuser with a role": ([], {"options": f"-crole={LOGIN}"}),
    "superuser with a role that the owner has too": (
        [f"grant {LOGIN} to {FORGER}"],
        {"options": f"-crole={LOGIN}"},
    ),
    "member of the owner": ([f"grant {FORGER} to {LOGIN}"], {"user": LOGIN}),
}


@pytest.mark.parametrize(("statements", "keywords"), TRUSTED.values(), ids=TRUSTED)
def test_a_schema_is_trusted(
    opened: Callable[..., None], statements: list[str], keywords: dict[str, str]
) -> None:
    opened(*statements, **keywords)


def test_no_schema_is_not_trusted_for_any_role_that_may_create_one_could_make_it_now(
    opened: Callable[..., None],
) -> None:
    with pytest.raises(SchemaMissing):
        opened("drop schema pgq cascade")


@pytest.mark.parametrize(("statements", "keywords"), STRANGERS.values(), ids=STRANGERS)
def test_a_strangers_schema_is_not_trusted(
    opened: Callable[..., None], statements: list[str], keywords: dict[str, str]
) -> None:
    with pytest.raises(SchemaRefused, match="schema pgq belongs to role pgqpy_test_forger"):
        opened(GIVE, *statements, **keywords)


@pytest.mark.parametrize(
    ("what", "statements"),
    [
        ("function pgq.version", ["alter function pgq.version() owner to {}"]),
        ("view pgq.subscription", ["alter view pgq.subscription owner to {}"]),
        ("table pgq.dead_event", ["alter table pgq.dead_event owner to {}"]),
        ("type pgq.mine", ["create type pgq.mine as enum ()", "alter type pgq.mine owner to {}"]),
    ],
)
def test_what_a_stranger_owns_in_a_trusted_schema_is_named(
    opened: Callable[..., None], what: str, statements: list[str]
) -> None:
    given = [statement.replace("{}", FORGER) for statement in statements]
    with pytest.raises(SchemaRefused, match=what.replace(".", r"\.")) as caught:
        opened(*given)
    assert "drop it, or give it to the owner of the schema" in caught.value.what_to_do

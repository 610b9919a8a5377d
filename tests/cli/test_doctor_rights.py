"""The doctor on databases whose roles, or PUBLIC, have other rights than the engine grants."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import pgqpy
from tests.cli.support import Connection, Examine, Run


def test_grants_that_a_restore_lost(examine: Examine, connection: Connection, run: Run) -> None:
    function = "function pgq.insert_event(text, text, text)"
    connection.execute(f"revoke execute on {function} from pgq_writer".encode())
    code, worst = examine()
    installed = run("schema", "install")
    assert code == 1
    assert "role pgq_writer lacks the right to insert events" in worst["rights"][1]
    assert installed.exit_code == 0
    assert examine()[0] == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("grant execute on function pgq.next_batch(text, text) to", "pgq.next_batch(text,text)"),
        ("grant select (ev_data) on {event_table} to", "SELECT on pgq.event_"),
        ("revoke select on pgq.queue from", "lacks 1 right(s)"),
        ("revoke execute on function pgq.get_queue_info(text) from", "pgq.get_queue_info(text)"),
    ],
)
def test_rights_of_public_that_the_engine_does_not_grant_or_that_are_missing(
    examine: Examine,
    client: pgqpy.Client,
    connection: Connection,
    run: Run,
    change: str,
    words: str,
) -> None:
    client.create_queue("orders")
    ((table,),) = connection.execute("select queue_data_pfx from pgq.queue").fetchall()
    connection.execute(f"{change.format(event_table=table)} public".encode())
    code, worst = examine()
    upgraded = run("schema", "install")
    assert (code, worst["rights"][0]) == (1, "fail")
    assert words in worst["rights"][1]
    assert "pgqpy schema install" in worst["rights"][1]
    assert upgraded.exit_code == 0
    assert examine()[1]["rights"][0] == "ok"


def test_public_may_call_what_the_owner_added_to_the_schema(
    examine: Examine, connection: Connection
) -> None:
    connection.execute("create function pgq.own() returns int language sql as 'select 1'")
    connection.execute("alter function pgq.own() security definer set search_path = pgq")
    connection.execute("create table pgq.own_table ()")
    connection.execute("grant select on pgq.own_table to public")
    try:
        assert examine()[1]["rights"][0] == "ok"
    finally:
        connection.execute("drop function pgq.own(); drop table pgq.own_table")


@pytest.fixture
def maker(connection: Connection) -> Iterator[str]:
    """A login that may grant pgq_admin, as one that made it from PostgreSQL 16 on."""
    connection.execute('create role "pgqpy test; maker" login createrole')
    connection.execute('grant pgq_admin to "pgqpy test; maker" with admin option')
    yield "pgqpy test; maker"
    connection.execute('revoke pgq_admin from "pgqpy test; maker" cascade')
    connection.execute('drop role "pgqpy test; maker"')


def test_a_role_that_may_grant_the_roles_is_named(
    examine: Examine, connection: Connection, run: Run, maker: str
) -> None:
    code, worst = examine()
    installed = run("schema", "install")
    assert (code, worst["roles"][0]) == (0, "warn")
    what, _, remedy = worst["roles"][1].rstrip().partition("trusts it: ")
    assert what.startswith(f"role {maker} may grant pgq_admin to itself")
    assert installed.exit_code == 0
    assert f"warning: role {maker} may grant pgq_admin" in installed.stderr
    connection.execute(remedy.encode())
    assert "roles" not in examine()[1]
    assert "warning" not in run("schema", "install").stderr


def test_the_owner_of_the_schema_may_grant_the_roles(
    examine: Examine, connection: Connection, maker: str
) -> None:
    query = "select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'pgq'"
    ((owner,),) = connection.execute(query).fetchall()
    connection.execute(f'alter schema pgq owner to "{maker}"'.encode())
    worst = examine()[1]
    connection.execute(f'alter schema pgq owner to "{owner}"'.encode())
    assert "roles" not in worst


def test_a_role_of_the_engine_that_can_log_in_is_named(
    examine: Examine, connection: Connection
) -> None:
    connection.execute("alter role pgq_reader login password 'known'")
    _, worst = examine()
    connection.execute(worst["roles"][1].rstrip().partition("password; ")[2].encode())
    assert worst["roles"][0] == "warn"
    assert "role pgq_reader can log in" in worst["roles"][1]
    assert "roles" not in examine()[1]

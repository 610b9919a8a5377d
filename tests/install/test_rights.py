"""Rights are set exactly, on what is ours, and on nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgqpy import install
from tests.install.catalogue import catalogue

if TYPE_CHECKING:
    from tests.install.support import Connection

GIVEN = """
    with object (name, acl) as (
        select oid::regprocedure::text, proacl from pg_proc
        where pronamespace::regnamespace::text in ('pgq', 'pgq_coop')
        union all
        select oid::regclass::text, relacl from pg_class where relnamespace = 'pgq'::regnamespace
        union all
        select attrelid::regclass || '.' || attname, attacl from pg_attribute
        join pg_class c on c.oid = attrelid where relnamespace = 'pgq'::regnamespace
        union all
        select nspname, nspacl from pg_namespace where nspname in ('pgq', 'pgq_coop'))
    select name from object cross join lateral aclexplode(acl)
    where grantee in (select oid from pg_roles where rolname like 'test_stranger%')"""
FOREIGN = 'alter default privileges grant {} to "{}"'


@pytest.fixture(params=["test_stranger", "test_stranger's own role"])
def stranger(admin: Connection, request: pytest.FixtureRequest) -> Connection:
    """A role to which the installer's default privileges give all that is made."""
    admin.execute(f'create role "{request.param}"'.encode())
    for what in ("execute on functions", "all on tables", "all on sequences", "all on schemas"):
        admin.execute(FOREIGN.format(what, request.param).encode())
    return admin


def grow(connection: Connection) -> None:
    """Make what is made after the installation: tables, sequences, generated functions."""
    connection.execute("select pgq.create_queue('q')")
    connection.execute("select pgq.build_insert_group(0)")
    connection.execute("select pgq.set_queue_config('q', 'ntables', '5')")
    connection.execute("select pgq.compact_positions()")


def test_default_privileges_give_nobody_a_right_on_the_engine(stranger: Connection) -> None:
    install.install(stranger)
    grow(stranger)
    assert stranger.execute(GIVEN).fetchall() == []


def test_installing_again_takes_what_others_were_given_on_the_engine(admin: Connection) -> None:
    install.install(admin)
    grow(admin)
    before = catalogue(admin)
    admin.execute("create role test_stranger")
    admin.execute("create role test_friend")
    for statement in (
        "grant all on all tables in schema pgq to test_stranger with grant option",
        "grant all on all sequences in schema pgq to public",
        "grant select (ev_data), references (ev_id) on pgq.event_1_0 to test_stranger",
        "grant update (version) on pgq.installation to public",
        "grant execute on all functions in schema pgq to public, test_stranger",
        "grant create on schema pgq to test_stranger, public",
        "set role test_stranger",
        "grant select on pgq.event_1_0, pgq.dead_event to test_friend",
        "reset role",
        "revoke execute on function pgq.insert_event(text, text, text) from pgq_writer",
    ):
        admin.execute(statement.encode())
    install.install(admin)
    assert catalogue(admin) == before


OVERLOADS = {
    "pgq.insert_event(int)": "public",
    "pgq.find_range(int)": "test_friend",
    "pgq.insert_group_0(int)": "test_friend",
}


def test_rights_on_the_owners_overloads_of_our_functions_are_left_alone(admin: Connection) -> None:
    install.install(admin)
    grow(admin)
    admin.execute("create role test_friend")
    for function, role in OVERLOADS.items():
        for statement in (
            f"create function {function} returns int language sql return 1",
            f"revoke execute on function {function} from public",
            f"grant execute on function {function} to {role}",
        ):
            admin.execute(statement.encode())
    before = catalogue(admin)
    install.install(admin)
    admin.execute("select pgq.build_insert_group(0)")
    assert catalogue(admin) == before


def test_rights_on_what_the_owner_added_are_left_alone(admin: Connection) -> None:
    install.install(admin)
    admin.execute("create role test_friend")
    admin.execute("create function pgq.mine() returns int language sql return 1")
    admin.execute("create table pgq.my_notes (x int)")
    admin.execute("grant select on pgq.my_notes to public, test_friend")
    before = catalogue(admin)
    install.install(admin)
    assert catalogue(admin) == before
    admin.execute("set role test_friend")
    assert admin.execute("select pgq.mine(), (select count(*) from pgq.my_notes)").fetchone() == (
        1,
        0,
    )

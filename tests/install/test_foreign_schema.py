"""Another role's schema pgq runs no code as the installer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgqpy import install
from pgqpy.doctor import examine
from pgqpy.errors import SchemaRefused
from tests.install.support import Connect, Connection, works
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from pgqpy.testing import EmbeddedServer

HELD = {
    "function": "create function pgq.version() returns text language sql return 'mine'",
    "type": "create type pgq.pulse as enum ('slow', 'fast')",
    "domain": "create domain pgq.txid_snapshot as text",
    "operator": "create operator pgq.= (leftarg = int, rightarg = text, function = public.equal)",
    "table": "create table pgq.queue (queue_id int)",
    "sequence": "create sequence pgq.batch_id_seq",
    "collation": 'create collation pgq.plain from "C"',
    "default rights": "alter default privileges in schema pgq grant execute on functions to public",
    "text search": "create text search configuration pgq.english (copy = pg_catalog.english)",
}
EQUAL = "create function public.equal(int, text) returns boolean language sql return true"
TRAP = """
    create function {}() returns int language plpgsql as $$
    begin
        if (select rolsuper from pg_roles where rolname = current_user) then
            alter role test_guest superuser;
        end if;
        return 1;
    end $$"""


@pytest.fixture
def guest(
    cluster: EmbeddedServer, database: str, admin: Connection, connect: Connect
) -> Connection:
    """Connect as a role that may create schemas and objects in this database, and no more."""
    admin.execute("create role test_guest login")
    admin.execute(f'grant create on database "{database}" to test_guest'.encode())
    admin.execute("grant create on schema public to test_guest")
    return connect(cluster.dsn(database, user="test_guest"))


def refused(connection: Connection, match: str) -> None:
    """Expect that nobody installs or uninstalls, and that no trap was sprung."""
    for attempt in (
        lambda: install.install(connection),
        lambda: install.uninstall(connection, force=True),
    ):
        with pytest.raises(SchemaRefused, match=match):
            attempt()
    found = connection.execute("select rolsuper from pg_roles where rolname = 'test_guest'")
    assert found.fetchall() in ([], [(False,)])


def test_an_empty_schema_of_somebody_else_is_refused(admin: Connection, guest: Connection) -> None:
    guest.execute("create schema pgq")
    refused(admin, "test_guest|not pgqpy's")
    with pytest.raises(SchemaRefused, match="belongs to role test_guest"):
        install.install(admin)


def test_a_schema_that_holds_anything_is_refused_and_left_alone(
    admin: Connection, subtests: pytest.Subtests
) -> None:
    admin.execute(EQUAL)
    for what, held in HELD.items():
        with subtests.test(what):
            admin.execute("create schema pgq")
            admin.execute(held.encode())
            refused(admin, "not pgqpy's")
            assert install.status(admin).state == "foreign"
        admin.execute("drop schema pgq cascade")


def test_an_empty_schema_in_which_others_create_is_refused(
    admin: Connection, guest: Connection
) -> None:
    admin.execute("create schema pgq")
    admin.execute("grant create on schema pgq to test_guest")
    with pytest.raises(SchemaRefused, match="revoke create on schema pgq from test_guest"):
        install.install(admin)
    admin.execute("revoke create on schema pgq from test_guest")
    install.install(admin)
    assert works(admin)


FORGED = [
    ["create table pgq.installation as select 1 as version, now() as installed_at"],
    [TRAP.format("pgq.trap"), "create view pgq.installation as select pgq.trap() as version"],
    [
        TRAP.format("pgq.trap"),
        "create table pgq.installation as select 1 as version",
        "create view pgq.queue as select pgq.trap() as queue_id",
    ],
    [
        "create type pgq.versions as range (subtype = int)",
        TRAP.replace("()", "(pgq.versions)").format("pgq.highest"),
        "create cast (pgq.versions as int) with function pgq.highest as implicit",
        "create table pgq.installation as select pgq.versions(1, 2) as version",
    ],
]


def test_a_forged_installation_is_refused_and_not_read(
    admin: Connection, guest: Connection
) -> None:
    for forgery in FORGED:
        guest.execute("create schema pgq")
        for statement in forgery:
            guest.execute(statement.encode())
        refused(admin, "test_guest|not pgqpy's")
        guest.execute("drop schema pgq cascade")


def test_the_doctor_trusts_the_databases_owner(
    admin: Connection, make_owner: Callable[[str], Connection]
) -> None:
    install.install(make_owner("createrole"))
    checks = {found.check for found in examine(admin)}
    assert "owner" not in checks
    assert "ticker" in checks


SMUGGLED = {
    "version_of_mine": [TRAP.format("pgq.version_of_mine")],
    "mine": ["create table pgq.mine (x int)"],
    "pulse": ["create type pgq.pulse as enum ('slow')"],
    "trap": [
        TRAP.format("public.trap").replace("returns int", "returns trigger"),
        (
            "create trigger trap before update on pgq.installation"
            " for each row execute function public.trap()"
        ),
    ],
}


def test_an_installation_with_objects_of_others_is_refused_by_name(
    admin: Connection, guest: Connection
) -> None:
    install.install(admin)
    for name, statements in SMUGGLED.items():
        admin.execute("grant create on schema pgq, public to test_guest")
        admin.execute("grant trigger on pgq.installation to test_guest")
        for statement in statements:
            guest.execute(statement.encode())
        refused(admin, f"holds what is not postgres's own: .*{name}")
        admin.execute("drop owned by test_guest cascade")


def test_another_administrator_is_told_which_role_to_use(
    admin: Connection, guest: Connection
) -> None:
    admin.execute("alter role test_guest createrole")
    install.install(guest)
    refused(admin, "role=test_guest")
    admin.execute("set role test_guest")
    install.install(admin)
    install.uninstall(admin)
    assert install.status(admin).state == "missing"


def test_a_schema_made_at_the_same_moment_is_refused(
    admin: Connection, guest: Connection, connect: Connect, background: ThreadPoolExecutor
) -> None:
    guest.execute("begin")
    guest.execute("create schema pgq")
    installing = background.submit(install.install, admin)
    watcher = connect(guest.info.dsn, user="postgres")
    wait_until_blocked(watcher, admin.info.backend_pid)
    guest.execute("commit")
    with pytest.raises(SchemaRefused, match="another session"):
        installing.result(timeout=30)


def test_a_schema_pgq_coop_of_somebody_else_is_refused(
    admin: Connection, guest: Connection
) -> None:
    guest.execute("create schema pgq_coop")
    with pytest.raises(SchemaRefused, match="pgq_coop belongs to role test_guest"):
        install.install(admin)
    guest.execute("drop schema pgq_coop")
    admin.execute("create schema pgq_coop; create table pgq_coop.mine ()")
    with pytest.raises(SchemaRefused, match="a schema pgq_coop that is not pgqpy's"):
        install.install(admin)
    admin.execute("drop table pgq_coop.mine; grant create on schema pgq_coop to test_guest")
    with pytest.raises(SchemaRefused, match="test_guest may create objects in the schema pgq_coop"):
        install.install(admin)
    admin.execute("revoke create on schema pgq_coop from test_guest")
    install.install(admin)
    admin.execute("grant create on schema pgq_coop to test_guest")
    guest.execute("create function pgq_coop.trap() returns int language sql return 1")
    refused(admin, r"pgq_coop holds what is not .* own: function pgq_coop.trap\(\)")
    admin.execute("drop function pgq_coop.trap()")
    install.uninstall(admin)
    assert admin.execute("select to_regnamespace('pgq_coop')").fetchone() == (None,)

"""A database that came from a dump, and one that publishes all its tables."""

from __future__ import annotations

import psycopg
import pytest

import pgqpy
from pgqpy import Client, calls, install
from pgqpy.doctor import Finding, examine
from pgqpy.errors import SchemaRefused
from pgqpy.testing import EmbeddedServer
from tests.install.support import Connect, Connection, psql, works

ADVICE = "pgqpy schema uninstall, then pgqpy schema install"


@pytest.fixture
def restored(
    request: pytest.FixtureRequest,
    cluster: EmbeddedServer,
    database: str,
    other_database: str,
    admin: Connection,
    connect: Connect,
) -> Connection:
    """A database with the dump of one that has a queue with an event; schema only by default."""
    install.install(admin)
    assert works(admin)
    options = getattr(request, "param", ["--schema-only"])
    dump = cluster.run("pg_dump", *options, "--dbname", cluster.dsn(database))
    done = psql(cluster, other_database, "-v", "ON_ERROR_STOP=1", text=dump)
    assert done.returncode == 0, done.stderr
    return connect(cluster.dsn(other_database))


def test_schema_only_dump_is_recognised_and_can_be_replaced(restored: Connection) -> None:
    assert install.status(restored).state == "empty"
    with pytest.raises(SchemaRefused, match=ADVICE):
        install.install(restored)
    with pytest.raises(SchemaRefused, match=ADVICE):
        Client(restored).call(calls.admin.schema_version())  # it is not the extension
    assert install.uninstall(restored).queues == 0
    install.install(restored)
    assert works(restored)


def test_engine_works_where_all_tables_are_published(admin: Connection) -> None:
    admin.execute("set client_min_messages = error")  # the server's wal_level is not logical
    admin.execute("create publication everything for all tables")
    install.install(admin)
    client = pgqpy.Client(admin)
    client.create_queue("q")
    client.set_queue_config("q", "rotation_period", "1 microsecond")
    client.register_consumer("q", "c")
    for _ in range(3):
        client.insert_event("q", "t", "d")
        client.tick_queue("q")
    batch = client.next_batch("q", "c")
    assert batch
    (event,) = client.get_batch_events(batch)
    client.event_retry(batch, event, 0)
    client.finish_batch(batch)
    assert client.call(calls.maintain.maint_retry_events()) == 1
    for call in (
        "pgq.maint_rotate_tables_step1('q')",
        "pgq.maint_rotate_tables_step2()",
        "pgq.maint_ticks('q')",
        "pgq.maint_stages()",
        "pgq.compact_ticks()",
        "pgq.compact_positions()",
        "pgq.repair_queue('q')",
        "pgq.drop_queue('q', true)",
    ):
        admin.execute(f"select {call}".encode())
    install.install(admin)
    assert install.uninstall(admin).queues == 0


def test_every_table_that_is_updated_has_a_key(admin: Connection) -> None:
    install.install(admin)
    keyless = admin.execute(
        "select relname from pg_class c where relnamespace = 'pgq'::regnamespace and relkind = 'r'"
        " and not exists (select from pg_index where indrelid = c.oid and indisprimary)"
        " order by 1"
    ).fetchall()
    # Never written: one marks a truncation, the others give tables that inherit their columns.
    assert keyless == [("event_template",), ("history",), ("truncation_0",)]
    with pytest.raises(psycopg.errors.UniqueViolation):
        admin.execute("insert into pgq.installation default values")


def failures(connection: Connection) -> list[Finding]:
    """Return what doctor says of the rights, except that they are in order."""
    found = [found for found in examine(connection) if found.check == "rights"]
    return [each for each in found if each.level != "ok"]


OPEN = """
    select p.oid::regprocedure::text from pg_proc p
    where pronamespace::regnamespace::text in ('pgq', 'pgq_coop') and prosecdef
        and has_function_privilege('public', p.oid, 'execute')
"""


@pytest.mark.parametrize("restored", [["--no-owner", "--no-privileges"]], indirect=True)
def test_doctor_names_the_rights_and_an_upgrade_sets_them(
    restored: Connection, admin: Connection
) -> None:
    restored.execute("create role test_stranger login")
    granted = set(admin.execute(OPEN).fetchall())
    opened = set(restored.execute(OPEN).fetchall()) - granted
    assert ("pgq.drop_queue(text,boolean)",) in opened
    too_many, missing = failures(restored)
    assert f"PUBLIC has {len(opened)} right(s)" in too_many.what
    assert "USAGE on schema pgq" in missing.what
    restored.execute("grant usage on schema pgq to public")
    restored.execute("set role test_stranger")
    assert restored.execute("select pgq.drop_queue('q', true)").fetchone() == (1,)
    restored.execute("reset role")
    assert {found.remedy.split(":")[0] for found in failures(restored)} == {"pgqpy schema install"}
    install.install(restored)
    assert failures(restored) == []
    assert set(restored.execute(OPEN).fetchall()) == granted
    restored.execute("select pgq.compact_ticks(), pgq.compact_positions()")
    assert failures(restored) == []
    restored.execute("set role test_stranger")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        restored.execute("select pgq.create_queue('q')")

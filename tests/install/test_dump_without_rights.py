"""A database whose schema pgq came from a dump without owners and privileges."""

from __future__ import annotations

import psycopg
import pytest

from pgqpy import install
from pgqpy.doctor import Finding, examine
from pgqpy.testing import EmbeddedServer
from tests.install.support import Connect, Connection, psql, works


@pytest.fixture
def restored(
    cluster: EmbeddedServer,
    database: str,
    other_database: str,
    admin: Connection,
    connect: Connect,
) -> Connection:
    install.install(admin)
    assert works(admin)
    options = ("--no-owner", "--no-privileges", "--dbname", cluster.dsn(database))
    dump = cluster.run("pg_dump", *options)
    done = psql(cluster, other_database, "-v", "ON_ERROR_STOP=1", text=dump)
    assert done.returncode == 0, done.stderr
    return connect(cluster.dsn(other_database))


def failures(connection: Connection) -> list[Finding]:
    """Return what doctor says of the rights, except that they are in order."""
    found = [found for found in examine(connection) if found.check == "rights"]
    return [each for each in found if each.level != "ok"]


OPEN = """
    select p.oid::regprocedure::text from pg_proc p
    where pronamespace::regnamespace::text in ('pgq', 'pgq_coop') and prosecdef
        and has_function_privilege('public', p.oid, 'execute')
"""


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
